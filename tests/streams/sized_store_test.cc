// A store of a value whose size only the device knows: who comes after waits in line until it is
// known, and no longer.

#include <atomic>
#include <memory>

#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kStore[] = R"(
  x = Placeholder dtype=float
  i = Placeholder dtype=int32
  v = VarHandleOp dtype=float shape=shape:? shared_name="v"
  axis = Const int32[] 0
  w = Where(x) T=float
  rows = Cast(w) SrcT=int64 DstT=float
  g = GatherV2(rows, i, axis) Tparams=float Tindices=int32 Taxis=int32
  a = AssignVariableOp(v, rows, ^g) dtype=float
)";
constexpr char kAssign[] = R"(
  x = Placeholder dtype=float
  v = VarHandleOp dtype=float shape=shape:? shared_name="v"
  a = AssignVariableOp(v, x) dtype=float
)";
constexpr char kRead[] = R"(
  v = VarHandleOp dtype=float shape=shape:? shared_name="v"
  y = ReadVariableOp(v) dtype=float
)";

// Nothing runs on the device unless a test says so.
class SizedStoreTest : public ::testing::Test {
 protected:
  // One call, which goes on as the test says. In the variable's line from the start.
  class Caller {
   public:
    Caller(SizedStoreTest& test, const Plan& plan, std::vector<Tensor> inputs)
        : stream_(test.device_.NewStream().value()),
          ticket_(test.resources_, test.programs_.allocator()),
          call_(test.programs_.allocator(), {}, &named_, stop_),
          frame_(plan),
          results_(plan.results.size()) {
      std::vector<AccessRequest> requests;
      for (const NamedResource& named : plan.named_resources) {
        bool existed = false;
        std::shared_ptr<Resource> resource =
            test.resources_
                .Create("test", named.name, named.type, std::nullopt, /*exact_shape=*/false,
                        &existed)
                .value();
        named_.push_back({resource->id});
        requests.push_back({std::move(resource), named.access});
      }
      granted_ = ticket_.Take(std::move(requests), [this] { granted_ = true; });
      streams_.emplace(test.device_.allocator(), *stream_, ticket_, test.programs_.allocator());
      call_.set_resources(&ticket_);
      call_.set_streams(&*streams_);
      execution_ = std::make_unique<Execution>(plan, frame_, call_, absl::MakeSpan(inputs));
    }

    bool granted() const { return granted_; }
    /// Issues what can be: false where a step waits for the device.
    bool Issue() {
      const absl::StatusOr<Execution::State> state = execution_->Run(absl::MakeSpan(results_));
      if (state.ok() && *state == Execution::State::kWaiting) return false;
      status_ = state.status();
      if (status_.ok()) status_ = streams_->EnqueueResults(results_);
      ticket_.ReleaseAll();
      return true;
    }
    /// Its results, once all of it has been issued.
    absl::StatusOr<std::vector<Tensor>> Finish() {
      absl::Status taken = streams_->TakeResults(absl::MakeSpan(results_));
      while (IsWaiting(taken)) {
        streams_->Block();
        taken = streams_->TakeResults(absl::MakeSpan(results_));
      }
      FORMWORK_RETURN_IF_ERROR(taken);
      FORMWORK_RETURN_IF_ERROR(status_);
      return std::move(results_);
    }

   private:
    const std::unique_ptr<Stream> stream_;
    AccessTicket ticket_;
    std::vector<ResourceHandle> named_;
    StopFlag stop_;
    Call call_;
    PlanFrame frame_;
    std::vector<Tensor> results_;
    std::optional<StreamScope> streams_;
    std::unique_ptr<Execution> execution_;
    bool granted_ = false;
    absl::Status status_;
  };

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        store_,
        programs_.Make(kStore, {{"x:0", DType::kFloat}, {"i:0", DType::kInt32}}, {"g:0"}, {"a"}));
    ASSERT_OK_AND_ASSIGN(assign_, programs_.Make(kAssign, {{"x:0", DType::kFloat}}, {}, {"a"}));
    ASSERT_OK_AND_ASSIGN(read_, programs_.Make(kRead, {}, {"y:0"}, {}));
    for (const Program* program : {&store_, &assign_, &read_}) {
      ASSERT_OK_AND_ASSIGN(plans_[program], programs_.PlanFor(*program, device_));
    }
    const auto first = Begin(assign_, Owned(VectorOf<float>({1, 2, 3})));
    ASSERT_TRUE(first->granted());
    IssueAll(*first);
    ASSERT_OK(first->Finish());
  }
  void TearDown() override {
    resources_.Clear("test");
    device_.RunAll();
    EXPECT_THAT(device_.Reports(), IsEmpty());
  }

  std::unique_ptr<Caller> Begin(const Program& program, std::vector<Tensor> inputs = {}) {
    return std::make_unique<Caller>(*this, *plans_[&program], std::move(inputs));
  }
  std::unique_ptr<Caller> BeginStore(int32_t row) {
    return Begin(store_, Owned(VectorOf<float>({0, 7, 0, 9}), VectorOf<int32_t>({0, row})));
  }
  void IssueAll(Caller& caller) {
    while (!caller.Issue()) device_.RunAll();
  }
  // What a call reads that has been granted.
  static std::vector<float> ValueOf(Caller& reader) {
    EXPECT_TRUE(reader.granted() && reader.Issue());
    const absl::StatusOr<std::vector<Tensor>> results = reader.Finish();
    EXPECT_OK(results);
    return results.ok() ? ValuesOf<float>((*results)[0]) : std::vector<float>();
  }

  Programs programs_;
  SimDevice device_{1};
  ResourceStore resources_;
  Program store_, assign_, read_;
  std::map<const Program*, std::shared_ptr<const Plan>> plans_;
};

TEST_F(SizedStoreTest, HoldsBackWhoComesLaterUntilTheSizeIsKnown) {
  const auto before = Begin(read_);
  const auto store = BeginStore(1);
  const auto reader = Begin(read_);
  const auto writer = Begin(assign_, Owned(VectorOf<float>({5, 6})));
  ASSERT_TRUE(store->granted());
  EXPECT_FALSE(store->Issue());
  EXPECT_FALSE(store->Issue());  // Nothing has run yet.
  EXPECT_FALSE(reader->granted());
  EXPECT_FALSE(writer->granted());
  // Who came before has the value of then, whatever its size.
  EXPECT_EQ(ValueOf(*before), (std::vector<float>{1, 2, 3}));

  IssueAll(*store);
  // The size is known: they go on, though the store itself may have to run yet.
  EXPECT_TRUE(reader->granted());
  EXPECT_TRUE(writer->granted());
  IssueAll(*writer);
  EXPECT_EQ(ValueOf(*reader), (std::vector<float>{1, 3}));
  EXPECT_OK(store->Finish());
  EXPECT_OK(writer->Finish());
  const auto last = Begin(read_);
  EXPECT_EQ(ValueOf(*last), (std::vector<float>{5, 6}));
}

TEST_F(SizedStoreTest, LeavesTheValueWhereAnEarlierStepFails) {
  const auto store = BeginStore(2);
  const auto reader = Begin(read_);
  EXPECT_FALSE(store->Issue());
  EXPECT_FALSE(reader->granted());
  IssueAll(*store);
  EXPECT_EQ(ValueOf(*reader), (std::vector<float>{1, 2, 3}));
  EXPECT_THAT(store->Finish(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'g': indices[1] = 2")));
}

// The new value's memory is another one, and nobody else's work in the old one is cut short.
TEST_F(SizedStoreTest, FollowsAStoreThatHasNotRun) {
  const auto writer = Begin(assign_, Owned(VectorOf<float>({4, 4, 4})));
  ASSERT_TRUE(writer->Issue());  // Of the same size: the host waits for nothing.
  const auto before = Begin(read_);
  const auto store = BeginStore(1);
  const auto after = Begin(read_);
  while (!store->Issue()) device_.Step();
  EXPECT_EQ(ValueOf(*after), (std::vector<float>{1, 3}));
  EXPECT_EQ(ValueOf(*before), (std::vector<float>{4, 4, 4}));
  EXPECT_OK(writer->Finish());
  EXPECT_OK(store->Finish());
}

}  // namespace
}  // namespace formwork::testing
