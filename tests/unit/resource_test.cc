#include <set>
#include <thread>

#include "core/resource/resource_store.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::HasSubstr;

PartialShape S(std::vector<int64_t> dims) { return PartialShape::Trusted(dims); }

class ResourceStoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<Resource>> Create(absl::string_view name, DType dtype,
                                                   const PartialShape& shape,
                                                   std::optional<Tensor> value = std::nullopt,
                                                   bool exact = false) {
    return store_.Create("ns", name, ResourceType::Variable(dtype, shape), std::move(value), exact,
                         &existed_);
  }

  ResourceStore store_;
  bool existed_ = false;
};

TEST_F(ResourceStoreTest, ANameIsOneVariable) {
  ASSERT_OK_AND_ASSIGN(auto w, Create("w", DType::kFloat, S({}), Tensor::Scalar(1.0f)));
  EXPECT_FALSE(existed_);
  EXPECT_TRUE(w->initialized());
  EXPECT_EQ(w->bytes(), 4u);
  ASSERT_OK_AND_ASSIGN(auto again, Create("w", DType::kFloat, S({}), Tensor::Scalar(2.0f)));
  EXPECT_TRUE(existed_);
  EXPECT_EQ(again, w);
  EXPECT_EQ(w->version(), 1u);  // The second value is not used.
  EXPECT_EQ(store_.Find(w->id), w);
  EXPECT_EQ(store_.FindByName("ns", "w"), w);
  EXPECT_EQ(store_.FindByName("other", "w"), nullptr);
}

TEST_F(ResourceStoreTest, AConflictNamesTheVariable) {
  ASSERT_OK(Create("w", DType::kFloat, S({3})));
  EXPECT_THAT(Create("w", DType::kInt32, S({3})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'w'")));
  EXPECT_THAT(Create("w", DType::kFloat, S({4})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[3]")));
  EXPECT_OK(Create("w", DType::kFloat, PartialShape()));
  EXPECT_THAT(Create("w", DType::kFloat, PartialShape(), std::nullopt, true),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ResourceStoreTest, AnInitialValueMustFit) {
  EXPECT_FALSE(Create("w", DType::kFloat, S({3}), Tensor::Scalar(1.0f)).ok());
  EXPECT_FALSE(Create("w", DType::kInt32, S({}), Tensor::Scalar(1.0f)).ok());
  EXPECT_FALSE(Create("", DType::kInt32, S({})).ok());
  EXPECT_FALSE(Create("w", DType::kResource, S({})).ok());
  EXPECT_FALSE(Create("w", DType::kInvalid, S({})).ok());
  EXPECT_EQ(store_.count(), 0);
  EXPECT_TRUE(store_.List("ns").empty());
  ASSERT_OK(Create("w", DType::kFloat, S({-1})));
}

TEST_F(ResourceStoreTest, IdsAreNeverUsedAgain) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(auto w, Create("w", DType::kFloat, S({})));
    EXPECT_TRUE(ids.insert(w->id).second);
    EXPECT_TRUE(store_.Remove(*w));
    EXPECT_FALSE(store_.Remove(*w));
    EXPECT_TRUE(w->destroyed());
  }
  EXPECT_EQ(store_.count(), 0);
}

TEST_F(ResourceStoreTest, ARemovedVariableLeavesItsSuccessorAlone) {
  ASSERT_OK_AND_ASSIGN(auto old, Create("w", DType::kFloat, S({})));
  store_.Remove(*old);
  ASSERT_OK_AND_ASSIGN(auto fresh, Create("w", DType::kFloat, S({})));
  EXPECT_FALSE(store_.Remove(*old));
  EXPECT_EQ(store_.FindByName("ns", "w"), fresh);
}

TEST_F(ResourceStoreTest, ListsAndClearsANamespace) {
  ASSERT_OK(Create("b", DType::kFloat, S({}), Tensor::Scalar(1.0f)));
  ASSERT_OK(Create("a", DType::kDouble, S({}), Tensor::Scalar(1.0)));
  ASSERT_OK(store_.Create("other", "c", ResourceType::Variable(DType::kFloat, S({})), std::nullopt,
                          false, &existed_));
  ASSERT_EQ(store_.List("ns").size(), 2u);
  EXPECT_EQ(store_.List("ns")[0]->name, "a");
  EXPECT_EQ(store_.count(), 3);
  EXPECT_EQ(store_.bytes(), 12u);
  store_.Clear("ns");
  store_.Clear("none");
  EXPECT_EQ(store_.count(), 1);
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST_F(ResourceStoreTest, ManyThreadsAgreeOnAName) {
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<Resource>> got(8);
  std::atomic<int> created{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      bool existed = false;
      got[t] = *store_.Create("ns", "w", ResourceType::Variable(DType::kInt32, S({})),
                              Tensor::Scalar(t), false, &existed);
      created.fetch_add(!existed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created.load(), 1);
  for (const auto& variable : got) EXPECT_EQ(variable, got[0]);
}

}  // namespace
}  // namespace formwork
