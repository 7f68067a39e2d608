// What fails by its inputs' elements on a device that only enqueues: the call is told of the first
// step, and nothing after it has an effect.

#include "core/base/status.h"
#include "core/kernels/enqueued_work.h"
#include "core/ops/register_ops.h"
#include "tests/streams/stream_world.h"
#include "tests/support/enqueued_kernels.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Programs::Feeds kFeeds = {{"x:0", DType::kFloat}, {"i:0", DType::kInt64}};

class FailureWordTest : public ::testing::TestWithParam<int> {
 protected:
  Program Make(const std::string& text, const std::vector<std::string>& fetches,
               const std::vector<std::string>& targets = {}) {
    absl::StatusOr<Program> program = programs_.Make(
        absl::StrCat("x = Placeholder dtype=float\ni = Placeholder dtype=int64\n", text), kFeeds,
        fetches, targets);
    EXPECT_OK(program);
    return *std::move(program);
  }
  Outcome Run(const Program& program, Tensor i, Tensor x = Tensor::Scalar(2.0f)) {
    Outcome outcome = std::move(sim_.Run({{&program, Owned(std::move(x), std::move(i))}})[0]);
    sim_.device().RunAll();
    EXPECT_THAT(sim_.device().Reports(), IsEmpty());
    return outcome;
  }
  float Value(const Program& read) {
    const Outcome outcome = Run(read, Tensor::Scalar(int64_t{0}));
    EXPECT_OK(outcome.status);
    return outcome.status.ok() ? outcome.results[0].scalar<float>() : 0;
  }

  Programs programs_;
  SimWorld sim_{programs_, static_cast<uint64_t>(GetParam()), 2, /*enqueues=*/true};
};

constexpr char kVariable[] = R"(
  v = VarHandleOp dtype=float shape=shape:[] shared_name="v"
  nought = Const int64[] 0
  two = Const float[2] 10 20
)";

// Before it the call has one effect; after it would come a store, and changes in place.
constexpr char kStep[] = R"(
  a = AssignVariableOp(v, x) dtype=float
  g = GatherV2(two, i, nought, ^a) Tparams=float Tindices=int64 Taxis=int64
  b = AssignAddVariableOp(v, g, ^a) dtype=float
  r = ReadVariableOp(v, ^b) dtype=float
  m = Mul(r, x) T=float
  c = AssignVariableOp(v, m) dtype=float
)";

TEST_P(FailureWordTest, NothingAfterTheStepHasAnEffect) {
  const Program first =
      Make(absl::StrCat(kVariable, "a = AssignVariableOp(v, x) dtype=float"), {}, {"a"});
  const Program read = Make(absl::StrCat(kVariable, "r = ReadVariableOp(v) dtype=float"), {"r:0"});
  const Program step = Make(absl::StrCat(kVariable, kStep), {"m:0"}, {"a", "b", "c"});
  ASSERT_OK(Run(first, Tensor::Scalar(int64_t{0}), Tensor::Scalar(1.0f)).status);
  const Outcome good = Run(step, Tensor::Scalar(int64_t{1}));
  ASSERT_OK(good.status);
  EXPECT_EQ(good.results[0].scalar<float>(), 44);
  EXPECT_EQ(Value(read), 44);
  const Outcome bad = Run(step, Tensor::Scalar(int64_t{7}), Tensor::Scalar(3.0f));
  EXPECT_THAT(bad.status,
              StatusIs(StatusCode::kInvalidArgument, "node 'g': indices = 7 is not in [0, 2)"));
  EXPECT_EQ(Value(read), 3);  // What came before stays.
}

TEST_P(FailureWordTest, TheFirstStepIsTheOneThatIsTold) {
  const Program program = Make(R"(
    nought = Const int64[] 0
    two = Const float[2] 10 20
    minus = Const int64[] -1
    j = Sub(minus, i) T=int64
    g = GatherV2(two, i, nought) Tparams=float Tindices=int64 Taxis=int64
    h = GatherV2(two, j, nought) Tparams=float Tindices=int64 Taxis=int64
    s = AddV2(g, h) T=float
    c = CheckNumerics(s) T=float message="late"
  )",
                               {"c:0"});
  EXPECT_THAT(Run(program, Tensor::Scalar(int64_t{2})).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'g'")));
  EXPECT_THAT(Run(program, Tensor::Scalar(int64_t{1})).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'h'")));
}

TEST_P(FailureWordTest, AHostStepThatWouldComeAfterItIsNotTheOne) {
  // The host waits for `g`, to know how many there are: that is where it learns of the failure.
  const Program program = Make(R"(
    nought = Const int64[] 0
    two = Const float[2] 10 20
    g = GatherV2(two, i, nought) Tparams=float Tindices=int64 Taxis=int64
    w = Where(g) T=float
  )",
                               {"w:0"});
  EXPECT_THAT(Run(program, VectorOf<int64_t>({0, 1, 5})).status,
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("node 'g'"), HasSubstr("indices[2] = 5"))));
}

INSTANTIATE_TEST_SUITE_P(Seeds, FailureWordTest, ::testing::Range(0, 20));

TEST(EnqueuedStatusWord, CountsOnceTheStepHasRun) {
  SimDevice device(1, /*enqueues=*/true);
  const std::unique_ptr<Stream> stream = device.NewStream().value();
  EnqueuedStatus status;
  EXPECT_EQ(status.word(), nullptr);
  EXPECT_TRUE(status.Collect(100));
  const auto at = [](uint64_t where) { return InvalidArgument("at ", where); };
  ASSERT_OK_AND_ASSIGN(FailureWord* const word, status.MayFail(*stream, 3, at, 1));
  ASSERT_OK(status.MayFail(*stream, 5, at, 2));
  EXPECT_EQ(status.word(), word);
  EXPECT_TRUE(status.Collect(3));
  word->Fail(5, 77);
  EXPECT_OK(status.Get());
  EXPECT_FALSE(status.Collect(4));  // It may be running still.
  EXPECT_OK(status.Get());
  EXPECT_TRUE(status.Collect(5));
  EXPECT_EQ(status.Get(), InvalidArgument("at ", 77));
  EXPECT_EQ(status.effects_before_failure(), 2);
  EXPECT_TRUE(status.FailedBefore(6));
  EXPECT_TRUE(status.Collect(9));
}

}  // namespace
}  // namespace formwork::testing
