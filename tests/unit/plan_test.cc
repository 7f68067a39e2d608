// Plans and their runs: what is touched, what is written in place, what is missing.

#include "core/plan/planner.h"

#include "absl/time/clock.h"
#include "core/runtime/call.h"
#include "core/runtime/executor.h"
#include "tests/support/graph_world.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Feeds = std::vector<std::pair<std::string, DType>>;

constexpr int64_t kElements = 1000;

Tensor Filled(float value) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({kElements}));
  for (float& element : tensor.mutable_span<float>()) element = value;
  return tensor;
}

class PlanTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Plan>> Make(absl::string_view text, Feeds feeds,
                                                   std::vector<std::string> fetches,
                                                   std::vector<std::string> targets = {}) {
    const std::vector<PartialShape> shapes(feeds.size());
    FORMWORK_ASSIGN_OR_RETURN(
        ImportedGraph imported,
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets)));
    return MakePlan(imported, shapes, {world_.ops, *kernels_, world_.allocator});
  }
  absl::StatusOr<std::vector<Tensor>> Run(const Plan& plan, std::vector<Tensor> inputs) {
    const std::vector<ResourceHandle> named;
    StopFlag stop;
    Call call(world_.allocator, {}, &named, stop);
    PlanFrame frame(plan);
    std::vector<Tensor> outputs(plan.results.size());
    Execution execution(plan, frame, call, absl::MakeSpan(inputs));
    FORMWORK_RETURN_IF_ERROR(execution.Run(absl::MakeSpan(outputs)).status());
    return outputs;
  }
  GraphWorld world_;
  const KernelRegistry* kernels_ = &world_.kernels;
};

constexpr char kWritesDeepInside[] = R"(
  read = Placeholder dtype=resource
  write = Placeholder dtype=resource
  carried = Placeholder dtype=resource
  zero = Const float[] 0
  y = While(zero, read, write, carried) cond=@cond body=@body T=[float,resource,resource,resource]
  function cond(x: float, r: resource, w: resource, c: resource) -> (go: bool = l:z:0)
    v = ReadVariableOp(r) dtype=float
    l = Less(x, v:value:0) T=float
  end
  function body(x: float, r: resource, w: resource, c: resource) -> (a: float = add:z:0, b: resource = r, d: resource = w, e: resource = c)
    one = Const float[] 1
    add = AddV2(x, one:output:0) T=float
    small = Less(x, one:output:0) T=float
    branch = If(small:z:0, w) then_branch=@choose else_branch=@skip Tcond=bool Tin=[resource] Tout=[]
  end
  function choose(w: resource) -> ()
    k = Const int32[] 0
    c = Case(k:output:0, w) branches=[@called, @skip] Tin=[resource] Tout=[]
  end
  function called(w: resource) -> ()
    p = StatefulPartitionedCall(w) f=@assign Tin=[resource] Tout=[]
  end
  function assign(w: resource) -> ()
    one = Const float[] 1
    a = AssignAddVariableOp(w, one:output:0) dtype=float
  end
  function skip(w: resource) -> ()
  end
)";

TEST_F(PlanTest, AccessIsKnownThroughFunctionsOfEveryKind) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make(kWritesDeepInside,
                                       {{"carried:0", DType::kResource},
                                        {"read:0", DType::kResource},
                                        {"write:0", DType::kResource}},
                                       {"y:0"}));
  EXPECT_THAT(plan->arg_access, ElementsAre(Access::kNone, Access::kRead, Access::kWrite));
  EXPECT_TRUE(plan->open_ended);
}

TEST_F(PlanTest, AHandleThatIsKnownOnlyWhenItRuns) {
  constexpr absl::string_view kChoose = R"(
    p = Placeholder dtype=bool
    a = Placeholder dtype=resource
    b = Placeholder dtype=resource
    c = Placeholder dtype=resource
    chosen = If(p, a, b) then_branch=@first else_branch=@second Tcond=bool Tin=[resource,resource] Tout=[resource]
    function first(x: resource, y: resource) -> (z: resource = x)
    end
    function second(x: resource, y: resource) -> (z: resource = y)
    end
  )";
  const Feeds feeds = {{"p:0", DType::kBool},
                       {"a:0", DType::kResource},
                       {"b:0", DType::kResource},
                       {"c:0", DType::kResource}};
  ASSERT_OK_AND_ASSIGN(auto late,
                       Make(absl::StrCat(kChoose, "r = ReadVariableOp(chosen) dtype=float\n",
                                         "w = AssignVariableOp(c, r) dtype=float\n"),
                            feeds, {}, {"w"}));
  EXPECT_TRUE(late->late_handles);
  EXPECT_THAT(late->arg_access,
              ElementsAre(Access::kNone, Access::kRead, Access::kRead, Access::kWrite));
  ASSERT_OK_AND_ASSIGN(auto known, Make(absl::StrCat(kChoose, "r = ReadVariableOp(a) dtype=float\n",
                                                     "w = AssignVariableOp(c, r) dtype=float\n"),
                                        feeds, {}, {"w"}));
  EXPECT_FALSE(known->late_handles);
}

TEST_F(PlanTest, AHandleThatComesOutOfALoopIsStillTheVariable) {
  ASSERT_OK_AND_ASSIGN(auto plan,
                       Make(absl::StrCat(kWritesDeepInside,
                                         "one = Const float[] 1\n"
                                         "after = AssignVariableOp(y:3, one) dtype=float\n"),
                            {{"read:0", DType::kResource},
                             {"write:0", DType::kResource},
                             {"carried:0", DType::kResource}},
                            {}, {"after"}));
  EXPECT_THAT(plan->arg_access[2], Access::kWrite);
}

// What each handle may be is as much as there are handles: nothing may go over all of them twice.
TEST_F(PlanTest, ManyHandlesOutOfLoopIntoLoopArePlannedSoon) {
  constexpr int kHandles = 3000;
  std::string args, results, first, second, dtypes;
  Feeds feeds;
  std::string text;
  for (int i = 0; i < kHandles; ++i) {
    absl::StrAppend(&text, "v", i, " = Placeholder dtype=resource\n");
    feeds.emplace_back(absl::StrCat("v", i, ":0"), DType::kResource);
    absl::StrAppend(&args, ", v", i, ": resource");
    absl::StrAppend(&results, ", w", i, ": resource = v", i);
    absl::StrAppend(&first, ", v", i);
    absl::StrAppend(&second, ", a:", i + 1);
    absl::StrAppend(&dtypes, ",resource");
  }
  absl::StrAppend(&text, "zero = Const float[] 0\na = While(zero", first,
                  ") cond=@cond body=@body T=[float", dtypes, "]\nb = While(a", second,
                  ") cond=@cond body=@body T=[float", dtypes, "]\nfunction cond(x: float", args,
                  ") -> (go: bool = l:z:0)\n  l = Less(x, x) T=float\nend\nfunction body(x: float",
                  args, ") -> (y: float = n:y:0", results, ")\n  n = Neg(x) T=float\nend\n");
  const absl::Time start = absl::Now();
  ASSERT_OK_AND_ASSIGN(auto plan, Make(text, feeds, {"b:0"}));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_THAT(plan->arg_access, Each(Access::kNone));
}

TEST_F(PlanTest, VariablesOfTheGraphAreNamedOnceWithWhatIsDoneToThem) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make(R"(
    a = VarHandleOp dtype=float shape=shape:[2] shared_name="v"
    b = VarHandleOp dtype=float shape=shape:[2] shared_name="v"
    c = VarHandleOp dtype=float shape=shape:[] container="box" shared_name="w"
    d = VarHandleOp dtype=float shape=shape:[]
    ra = ReadVariableOp(a) dtype=float
    wb = AssignVariableOp(b, ra) dtype=float
    rc = ReadVariableOp(c) dtype=float
    rd = ReadVariableOp(d) dtype=float
  )",
                                       {}, {"ra:0", "rc:0", "rd:0"}, {"wb"}));
  ASSERT_EQ(plan->named_resources.size(), 3u);
  EXPECT_EQ(plan->named_resources[0].name, "v");
  EXPECT_EQ(plan->named_resources[0].access, Access::kWrite);
  EXPECT_EQ(plan->named_resources[1].name, "box/w");
  EXPECT_EQ(plan->named_resources[1].access, Access::kRead);
  EXPECT_EQ(plan->named_resources[2].name, "d");
}

// The steps after which a plan gives variables back, by the names of their nodes.
std::vector<std::string> ReleasingSteps(const Plan& plan) {
  std::vector<std::string> names;
  for (size_t i = 0; i < plan.code.size(); ++i) {
    if (plan.code[i].releases.count > 0) names.push_back(plan.labels[i].node);
  }
  return names;
}

constexpr char kStoresThenComputes[] = R"(
  v = Placeholder dtype=resource
  w = Placeholder dtype=resource
  x = Placeholder dtype=float
  read = ReadVariableOp(w) dtype=float
  first = AssignVariableOp(v, x, ^read) dtype=float
  second = AssignAddVariableOp(v, x, ^first) dtype=float
  loop = While(x, ^second) cond=@cond body=@body T=[float]
  last = AssignVariableOp(w, loop) dtype=float
  function cond(x: float) -> (go: bool = l:z:0)
    one = Const float[] 1
    l = Less(x, one:output:0) T=float
  end
  function body(x: float) -> (y: float = a:z:0)
    a = AddV2(x, x) T=float
  end
)";

TEST_F(PlanTest, AVariableIsGivenBackAfterItsLastAccessWhereMuchFollows) {
  const Feeds feeds = {
      {"v:0", DType::kResource}, {"w:0", DType::kResource}, {"x:0", DType::kFloat}};
  ASSERT_OK_AND_ASSIGN(auto plan, Make(kStoresThenComputes, feeds, {}, {"second", "loop", "last"}));
  EXPECT_THAT(ReleasingSteps(*plan), ElementsAre("second"));
  // Without the loop nothing that takes time is left.
  ASSERT_OK_AND_ASSIGN(plan, Make(kStoresThenComputes, feeds, {}, {"second"}));
  EXPECT_THAT(ReleasingSteps(*plan), ElementsAre());
}

TEST_F(PlanTest, AVariableWhoseHandleIsInAVariantIsKept) {
  const Feeds feeds = {
      {"v:0", DType::kResource}, {"w:0", DType::kResource}, {"x:0", DType::kFloat}};
  ASSERT_OK_AND_ASSIGN(
      auto plan,
      Make(absl::StrCat("o = OptionalFromValue(v) Toutput_types=[resource]\n", kStoresThenComputes),
           feeds, {"o:0"}, {"second", "loop", "last"}));
  EXPECT_THAT(ReleasingSteps(*plan), ElementsAre());
}

TEST_F(PlanTest, AllMissingKernelsAreTold) {
  const KernelRegistry none(world_.ops);
  kernels_ = &none;
  EXPECT_THAT(Make(R"(
    x = Placeholder dtype=float
    a = Softmax(x) T=float
    y = PartitionedCall(a) f=@f Tin=[float] Tout=[float]
    function f(v: float) -> (r: float = m:product:0)
      m = MatMul(v, v) T=float
    end
  )",
                   {{"x:0", DType::kFloat}}, {"y:0"}),
              StatusIs(StatusCode::kUnimplemented,
                       AllOf(HasSubstr("Softmax (node 'a')"), HasSubstr("MatMul (node 'y/m')"))));
  std::string text = "x = Placeholder dtype=float\n";
  std::vector<std::string> fetches;
  for (int i = 10; i < 60; ++i) {
    absl::StrAppend(&text, "n", i, " = LogSoftmax(", i == 10 ? "x" : absl::StrCat("n", i - 1),
                    ") T=float\n");
  }
  EXPECT_THAT(Make(text, {{"x:0", DType::kFloat}}, {"n59:0"}),
              StatusIs(StatusCode::kUnimplemented,
                       AllOf(HasSubstr("'n29'"), Not(HasSubstr("'n30'")), HasSubstr("30 more"))));
}

TEST_F(PlanTest, AValueIsWrittenInPlaceWhereItIsReadLast) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make(R"(
    x = Placeholder dtype=float
    a = Neg(x) T=float
    b = Relu(a) T=float
    y = Mul(b, b) T=float
  )",
                                       {{"x:0", DType::kFloat}}, {"y:0"}));
  Tensor input = Filled(-3);
  const void* memory = input.raw();
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Run(*plan, Owned(std::move(input))));
  EXPECT_EQ(outputs[0].raw(), memory);
  EXPECT_THAT(outputs[0].span<float>(), Each(9.0f));
}

TEST_F(PlanTest, AValueThatOthersNeedIsLeftAsItIs) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make(R"(
    x = Placeholder dtype=float
    a = Neg(x) T=float
    y = AddV2(x, a) T=float
  )",
                                       {{"x:0", DType::kFloat}}, {"a:0", "x:0", "y:0", "a:0"}));
  Tensor held = Filled(2);
  for (bool shared : {true, false}) {
    Tensor input = shared ? held : Filled(2);
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Run(*plan, Owned(std::move(input))));
    EXPECT_THAT(outputs[0].span<float>(), Each(-2.0f));
    EXPECT_THAT(outputs[1].span<float>(), Each(2.0f));
    EXPECT_THAT(outputs[2].span<float>(), Each(0.0f));
    EXPECT_THAT(outputs[3].span<float>(), Each(-2.0f));
    EXPECT_THAT(held.span<float>(), Each(2.0f));
  }
}

TEST_F(PlanTest, ALoopMovesItsVariables) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make(R"(
    x = Placeholder dtype=float
    zero = Const int32[] 0
    loop = While(zero, x) cond=@cond body=@body T=[int32,float]
    y = Identity(loop:1) T=float
    function cond(i: int32, v: float) -> (go: bool = l:z:0)
      n = Const int32[] 10
      l = Less(i, n:output:0) T=int32
    end
    function body(i: int32, v: float) -> (j: int32 = next:z:0, w: float = m:z:0)
      one = Const int32[] 1
      next = AddV2(i, one:output:0) T=int32
      two = Const float[] 2
      m = Mul(v, two:output:0) T=float
    end
  )",
                                       {{"x:0", DType::kFloat}}, {"y:0"}));
  Tensor input = Filled(1);
  const void* memory = input.raw();
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Run(*plan, Owned(std::move(input))));
  EXPECT_EQ(outputs[0].raw(), memory);
  EXPECT_THAT(outputs[0].span<float>(), Each(1024.0f));
}

TEST_F(PlanTest, ResultsThatAreParametersOrConstantsAreGiven) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make("x = Placeholder dtype=float\nc = Const float[] 7",
                                       {{"x:0", DType::kFloat}}, {"c:0", "x:0", "x:0", "c:0"}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Run(*plan, Owned(Tensor::Scalar(5.0f))));
    std::vector<float> values;
    for (const Tensor& output : outputs) values.push_back(output.scalar<float>());
    EXPECT_THAT(values, ElementsAre(7, 5, 5, 7));
  }
}

TEST_F(PlanTest, AFailingStepNamesItsNodeByItsPath) {
  ASSERT_OK_AND_ASSIGN(auto plan, Make(R"(
    x = Placeholder dtype=float
    c = Placeholder dtype=bool
    y = StatelessIf(c, x) then_branch=@f else_branch=@f Tcond=bool Tin=[float] Tout=[float]
    function f(v: float) -> (r: float = m:product:0)
      m = MatMul(v, v) T=float
    end
  )",
                                       {{"x:0", DType::kFloat}, {"c:0", DType::kBool}}, {"y:0"}));
  EXPECT_THAT(Run(*plan, Owned(Tensor::Scalar(1.0f), Tensor::Scalar(true))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'y/then/m': ")));
}

// ------------------------------------------------------------------------------------------- stop

// Products that take some seconds: one between additions to w and to v, and one before the only
// one.
constexpr char kLongBetweenEffects[] = R"(
  w = Placeholder dtype=resource
  v = Placeholder dtype=resource
  x = Placeholder dtype=float
  one = Const float[] 1
  before = AssignAddVariableOp(w, one) dtype=float
  y = MatMul(x, x, ^before) T=float
  after = AssignAddVariableOp(v, y) dtype=float
  z = MatMul(x, x) T=float
  long_first = AssignAddVariableOp(v, z) dtype=float
)";

class StopTest : public PlanTest {
 protected:
  // Runs the plan of `target` with a deadline soon; the status, and what the variable then holds.
  absl::Status RunLate(const std::string& target, bool& has_effects) {
    const int64_t n = 5000;
    FORMWORK_ASSIGN_OR_RETURN(Tensor x,
                              Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({n, n})));
    for (float& element : x.mutable_span<float>()) element = 1;
    FORMWORK_ASSIGN_OR_RETURN(
        auto plan,
        Make(kLongBetweenEffects,
             {{"w:0", DType::kResource}, {"v:0", DType::kResource}, {"x:0", DType::kFloat}}, {},
             {target}));
    KernelRunner variables;
    const Tensor w =
        variables.NewVariable("w", DType::kFloat, PartialShape(), Tensor::Scalar(1.0f));
    const Tensor v = variables.NewVariable("v", DType::kFloat, PartialShape(), x);
    const std::vector<ResourceHandle> named;
    StopFlag stop(absl::Now() + absl::Milliseconds(500));
    Call call(world_.allocator, {}, &named, stop);
    call.set_resources(&variables.resources());
    PlanFrame frame(*plan);
    std::vector<Tensor> inputs = {w, v, x};
    std::vector<Tensor> outputs(plan->results.size());
    Execution execution(*plan, frame, call, absl::MakeSpan(inputs));
    const absl::Status status = execution.Run(absl::MakeSpan(outputs)).status();
    has_effects = call.has_effects();
    before_ = variables.ValueOf(w).data<float>()[0];
    after_ = variables.ValueOf(v).data<float>()[0];
    return status;
  }
  // What w and the first element of v, which were 1, hold then.
  float before_ = 0;
  float after_ = 0;
};

TEST_F(StopTest, ADeadlineReachesIntoAStep) {
  bool has_effects = true;
  EXPECT_THAT(RunLate("long_first", has_effects), StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(has_effects);
  EXPECT_EQ(after_, 1);
}

TEST_F(StopTest, AlsoAfterAnEffectWhereTheStepTakesLong) {
  bool has_effects = false;
  EXPECT_THAT(RunLate("after", has_effects), StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(has_effects);
  EXPECT_EQ(before_, 2);
  EXPECT_EQ(after_, 1);
}

}  // namespace
}  // namespace formwork::testing
