// Calls all of whose changes happen, or none.

#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AtomicCallTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    NewVariable("v", 1);
    NewVariable("w", 1);
  }
  uint64_t Made(const std::string& name, absl::string_view steps,
                std::vector<std::string> targets) {
    const absl::StatusOr<Registered> made = Register(
        name,
        absl::StrCat("v = Placeholder dtype=resource\nw = Placeholder dtype=resource\n"
                     "x = Placeholder dtype=float\none = Const float[] 1\n"
                     "zero = Const float[] 0\ntext = Const string[] \"x is to be above 0\"\n",
                     steps),
        {Spec("x:0")}, {}, {{"v:0", "v"}, {"w:0", "w"}}, std::move(targets));
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  std::unique_ptr<Pending> BeginAtomic(uint64_t id, float x, uint64_t sequence = 0) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.atomic = true;
    if (sequence != 0) spec.request = {"client", sequence, 0, absl::ZeroDuration()};
    return Begin(std::move(spec));
  }
  CallResult RunAtomic(uint64_t id, float x, uint64_t sequence = 0) {
    return std::move(BeginAtomic(id, x, sequence)->Wait());
  }
  uint64_t VersionOf(const std::string& name) {
    return engine_->GetResource("ns", {0, name})->version;
  }
  // Writes both and prints, and then wants x to be above 0.
  uint64_t MadeWriteThenAssert() {
    return Made("f", R"(
      a = AssignAddVariableOp(v, one) dtype=float
      b = AssignVariableOp(w, x, ^a) dtype=float
      c = AssignAddVariableOp(w, one, ^b) dtype=float
      p = PrintV2(text, ^c)
      ok = Greater(x, zero) T=float
      s = Assert(ok, text, x, ^p) T=[string,float]
    )",
                {"s"});
  }
};

TEST_F(AtomicCallTest, OneThatFailsLeavesNoTrace) {
  const uint64_t f = MadeWriteThenAssert();
  const uint64_t version = VersionOf("v");
  const CallResult failed = RunAtomic(f, -1);
  EXPECT_THAT(failed.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("above 0")));
  EXPECT_EQ(failed.details.effects, Effects::kNone);
  EXPECT_THAT(failed.printed, IsEmpty());
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_EQ(ValueOf("w"), 1);
  EXPECT_EQ(VersionOf("v"), version);
  EXPECT_EQ(engine_->GetResource("ns", {0, "v"})->last_writer, "");
  const CallResult done = RunAtomic(f, 5);
  ASSERT_OK(done.status);
  EXPECT_EQ(done.printed.size(), 1u);
  EXPECT_EQ(ValueOf("v"), 2);
  EXPECT_EQ(ValueOf("w"), 6);
  EXPECT_EQ(VersionOf("v"), version + 1);
  // The same without it.
  EXPECT_EQ(Run(f, Owned(Tensor::Scalar(-1.0f))).details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("v"), 3);
}

TEST_F(AtomicCallTest, OneThatHasFailedIsDoneWhenItIsSentAgain) {
  const uint64_t f = MadeWriteThenAssert();
  EXPECT_THAT(RunAtomic(f, -1, 1).status, StatusIs(StatusCode::kInvalidArgument));
  ASSERT_OK(RunAtomic(f, 1, 1).status);
  ASSERT_OK(RunAtomic(f, 1, 1).status);
  EXPECT_EQ(ValueOf("v"), 2);
}

TEST_F(AtomicCallTest, NobodySeesAPartOfIt) {
  const uint64_t f = Made("f",
                          absl::StrCat(R"(
    a = AssignAddVariableOp(v, one) dtype=float
    loop = While(x, ^a) cond=@cond body=@body T=[float]
    b = AssignAddVariableOp(w, loop, ^a) dtype=float
  )",
                                       kSpin),
                          {"b"});
  const auto call = BeginAtomic(f, 1);
  const auto read = BeginRead({{0, "v"}});
  AwaitQueued(1);
  EXPECT_FALSE(read->done.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
  call->handle->Cancel();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(call->result.details.effects, Effects::kNone);
  ASSERT_OK(read->Wait().status);
  EXPECT_EQ(read->result.values[0].value.scalar<float>(), 1);
  EXPECT_EQ(ValueOf("w"), 1);
}

TEST_F(AtomicCallTest, LoopsThatWriteAreTakenBack) {
  const uint64_t f = Made("f", R"(
    loop = While(x, v) cond=@cond body=@body T=[float,resource]
    ok = Greater(zero, one) T=float
    s = Assert(ok, text, loop:0) T=[string,float]
    function cond(i: float, v: resource) -> (go: bool = l:z:0)
      n = Const float[] 10
      l = Less(i, n:output:0) T=float
    end
    function body(i: float, v: resource) -> (j: float = n:z:0, u: resource = h:output:0)
      one = Const float[] 1
      a = AssignAddVariableOp(v, one:output:0) dtype=float
      n = AddV2(i, one:output:0, ^a) T=float
      h = Identity(v) T=resource
    end
  )",
                          {"s", "loop"});
  const CallResult failed = RunAtomic(f, 0);
  EXPECT_THAT(failed.status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_THAT(Run(f, Owned(Tensor::Scalar(0.0f))).status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(ValueOf("v"), 11);
}

TEST_F(AtomicCallTest, RowsAndTables) {
  HostAllocator allocator;
  Tensor zeros = *Tensor::Allocate(allocator, DType::kFloat, Shape({100, 4}));
  std::fill_n(zeros.mutable_data<float>(), 400, 0.0f);
  ASSERT_OK(engine_->CreateVariable("ns", "m", DType::kFloat, Shape({100, 4}), std::move(zeros)));
  constexpr absl::string_view kSteps = R"(
    m = Placeholder dtype=resource
    x = Placeholder dtype=float
    zero = Const float[] 0
    text = Const string[] "no"
    i = Const int32[2] 7 9
    s = Const int32[2] 2 4
    u = Fill(s, x) T=float
    a = ResourceScatterAdd(m, i, u) Tindices=int32 dtype=float
    a2 = ResourceScatterAdd(m, i, u, ^a) Tindices=int32 dtype=float
    t = MutableHashTableV2 shared_name="t" key_dtype=string value_dtype=float
    k = Const string[] "key"
    b = LookupTableInsertV2(t, k, x, ^a2) Tin=string Tout=float
    ok = Greater(x, zero) T=float
    c = Assert(ok, text, x, ^b) T=[string,float]
    n = LookupTableSizeV2(t, ^c)
  )";
  ASSERT_OK_AND_ASSIGN(const Registered made,
                       Register("rows", kSteps, {Spec("x:0")}, {"n:0"}, {{"m:0", "m"}}, {"c"}));
  const auto row = [&](int64_t index) {
    return Read({{0, "m"}}).values[0].value.data<float>()[index * 4];
  };
  const uint64_t f = made.function.id;
  EXPECT_THAT(RunAtomic(f, -1).status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(row(7), 0);
  EXPECT_EQ(engine_->GetResource("ns", {0, "t"})->version, 0u);
  const CallResult done = RunAtomic(f, 2);
  ASSERT_OK(done.status);
  EXPECT_EQ(done.outputs[0].tensor.scalar<int64_t>(), 1);
  EXPECT_EQ(row(7), 4);
  EXPECT_EQ(row(9), 4);
  EXPECT_EQ(row(8), 0);
}

TEST_F(AtomicCallTest, OneWhoseOutputsCannotBeKeptFailsAsAWhole) {
  EngineOptions options;
  options.max_kept_bytes = 1000;
  Start(options);
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(
      const Registered made,
      Register("wide",
               "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
               "a = AssignAddVariableOp(v, x) dtype=float\nn = Const int32[1] 1000\n"
               "y = Fill(n, x, ^a) T=float",
               {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a"}));
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = made.function.id;
  spec.inputs.resize(1);
  spec.inputs[0].tensor = Tensor::Scalar(1.0f);
  spec.keep_outputs = spec.atomic = true;
  const auto call = Begin(std::move(spec));
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(call->result.details.effects, Effects::kNone);
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(AtomicCallTest, NothingOfOneThatFailsIsLogged) {
  const TempFolder folder;
  EngineOptions options;
  options.data_dir = folder.path();
  options.durability = Durability::kSync;
  Start(options);
  NewVariable("v", 1);
  NewVariable("w", 1);
  const uint64_t f = MadeWriteThenAssert();
  ASSERT_OK(RunAtomic(f, 1).status);
  const uint64_t records = engine_->Stats().commits.records;
  EXPECT_THAT(RunAtomic(f, -1).status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(RunAtomic(f, -1, 1).status, StatusIs(StatusCode::kInvalidArgument));
  ASSERT_OK(RunAtomic(f, 1).status);
  // Its own, and how often it has printed.
  EXPECT_LE(engine_->Stats().commits.records, records + 3);
  engine_.reset();
  Start(options);
  EXPECT_EQ(ValueOf("v"), 3);
  EXPECT_EQ(ValueOf("w"), 2);
  engine_.reset();
}

}  // namespace
}  // namespace formwork::testing
