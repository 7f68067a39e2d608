// Branches that a value on the device chooses: which become selects, and which stay.

#include "core/graph/passes/pipeline.h"
#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of the parameters: two variables, a vector, a number on the device and what the host knows.
constexpr char kParameters[] = R"(
  v = Placeholder dtype=resource
  w = Placeholder dtype=resource
  n = Placeholder dtype=resource
  x = Placeholder dtype=float
  s = Placeholder dtype=float
  b = Placeholder dtype=bool
  i = Placeholder dtype=int32
  nought = Const float[] 0
  p = Greater(s, nought) T=float
)";

// Functions of a variable and a vector.
constexpr char kFunctions[] = R"(
  function store(v: resource, x: float) -> () runs(a)
    a = AssignVariableOp(v, x) dtype=float
  end
  function nothing(v: resource, x: float) -> ()
  end
)";

class PredicateBranchesTest : public ::testing::Test {
 protected:
  // What the passes leave of a graph for a device, behind the predicate.
  std::string Passed(absl::string_view text, std::vector<std::string> fetches,
                     std::vector<std::string> targets) {
    absl::StatusOr<ImportedGraph> imported =
        world_.Import(absl::StrCat(kParameters, text, kFunctions),
                      {{"v:0", DType::kResource},
                       {"w:0", DType::kResource},
                       {"n:0", DType::kResource},
                       {"x:0", DType::kFloat},
                       {"s:0", DType::kFloat},
                       {"b:0", DType::kBool},
                       {"i:0", DType::kInt32}},
                      std::move(fetches), std::move(targets), {distinct_, distinct_, distinct_});
    if (!imported.ok()) return imported.status().ToString();
    Graph graph = *imported->graph;
    PassBudget budget;
    PassContext context{imported->library, world_.ops, world_.kernels,
                        world_.allocator,  budget,     device_};
    context.variables = &variables_;
    const absl::Status status = RunPasses(
        graph, {v_shape_, Shape({2}), Shape(), x_shape_, Shape(), Shape(), Shape()}, context);
    if (!status.ok()) return status.ToString();
    const std::string all = Text(graph);
    return all.substr(all.find("i:0 = Arg int32\n") + 16);
  }
  static std::string Text(const Graph& graph) {
    std::string text = ToText(graph);
    for (const Node& node : graph.nodes) {
      for (const Graph& body : node.bodies) text += Text(body);
    }
    return text;
  }
  // The same of one If by `predicate` of functions of v and x.
  std::string IfOf(absl::string_view branch, absl::string_view other = "nothing",
                   absl::string_view functions = "", absl::string_view predicate = "p") {
    return Passed(absl::StrCat("y = If(", predicate,
                               ", v, x) Tcond=bool Tin=[resource,float] Tout=[] then_branch=@",
                               branch, " else_branch=@", other, "\n", functions),
                  {}, {"y"});
  }
  // Of one with that branch.
  std::string IfWith(absl::string_view nodes, absl::string_view runs = "a") {
    return IfOf("given", "nothing",
                absl::StrCat("function given(v: resource, x: float) -> () runs(", runs, ")\n",
                             nodes, "\nend\n"));
  }
  // Of one whose branches make values of v and x.
  std::string ValueOf(absl::string_view nodes, absl::string_view result,
                      absl::string_view dtype = "float", absl::string_view other = "") {
    return Passed(
        absl::StrCat("y = If(p, v, x) Tcond=bool Tin=[resource,float] Tout=[", dtype,
                     "] then_branch=@made else_branch=@same\n",
                     "function made(v: resource, x: float) -> (r: ", dtype, " = ", result, ")\n",
                     nodes, "\nend\n", "function same(v: resource, x: float) -> (r: ", dtype, " = ",
                     other.empty() ? "x)\n" : other, "\nend\n"),
        {"y:0"}, {});
  }

  GraphWorld world_;
  const KernelRegistry* device_ = &world_.kernels;
  std::vector<DType> variables_ = {DType::kFloat, DType::kFloat, DType::kInt64};
  PartialShape v_shape_ = Shape({2});
  PartialShape x_shape_ = Shape({2});
  bool distinct_ = true;
};

TEST_F(PredicateBranchesTest, AStoreInOneBranchSelectsByThePredicate) {
  EXPECT_EQ(IfOf("store"),
            "nought = Const float32[] 0\n"
            "p = Greater(s:0, nought)\n"
            "y/v:0 = ReadVariableOp(v:0)\n"
            "y/then/a = SelectV2(p, x:0, y/v:0)\n"
            "y/then/a = AssignVariableOp(v:0, y/then/a)\n"
            "-> \n");
}

TEST_F(PredicateBranchesTest, BothBranchesAreOneStore) {
  EXPECT_EQ(IfOf("store", "less", R"(
    function less(v: resource, x: float) -> () runs(a)
      a = AssignSubVariableOp(v, x) dtype=float
    end
  )"),
            "nought = Const float32[] 0\n"
            "p = Greater(s:0, nought)\n"
            "y/v:0 = ReadVariableOp(v:0)\n"
            "y/else/a = Sub(y/v:0, x:0)\n"
            "y/then/a = SelectV2(p, x:0, y/else/a)\n"
            "y/then/a = AssignVariableOp(v:0, y/then/a)\n"
            "-> \n");
}

TEST_F(PredicateBranchesTest, ABranchReadsWhatItHasStored) {
  EXPECT_EQ(IfWith(R"(
    h = Exp(x) T=float
    c = AssignAddVariableOp(v, h:y:0) dtype=float
    o = ReadVariableOp(v, ^c) dtype=float
    d = Square(o:value:0) T=float
    a = AssignVariableOp(v, d:y:0) dtype=float
  )"),
            "nought = Const float32[] 0\n"
            "p = Greater(s:0, nought)\n"
            "y/then/h = Exp(x:0)\n"
            "y/v:0 = ReadVariableOp(v:0)\n"
            "y/then/c = AddV2(y/v:0, y/then/h)\n"
            "y/then/d = Square(y/then/c)\n"
            "y/then/a = SelectV2(p, y/then/d, y/v:0)\n"
            "y/then/a = AssignVariableOp(v:0, y/then/a)\n"
            "-> \n");
}

TEST_F(PredicateBranchesTest, ResultsAreSelected) {
  EXPECT_EQ(ValueOf("m = Exp(x) T=float", "m:y:0"),
            "nought = Const float32[] 0\n"
            "p = Greater(s:0, nought)\n"
            "y/then/m = Exp(x:0)\n"
            "y = SelectV2(p, y/then/m, x:0)\n"
            "-> y\n");
}

TEST_F(PredicateBranchesTest, BranchesInBranchesToo) {
  EXPECT_EQ(Passed(R"(
    y = If(p, n, v, x) Tcond=bool Tin=[resource,resource,float] Tout=[] then_branch=@outer else_branch=@reset
    z = ReadVariableOp(n, ^y) dtype=int64
    function outer(n: resource, v: resource, x: float) -> () runs(c, i)
      o = ReadVariableOp(n) dtype=int64
      one = Const int64[] 1
      nine = Const int64[] 9
      full = GreaterEqual(o:value:0, nine:output:0) T=int64
      i = If(full:z:0, v, x) Tcond=bool Tin=[resource,float] Tout=[] then_branch=@store else_branch=@nothing
      c = AssignAddVariableOp(n, one:output:0, ^i) dtype=int64
    end
    function reset(n: resource, v: resource, x: float) -> () runs(a)
      zero = Const int64[] 0
      a = AssignVariableOp(n, zero:output:0) dtype=int64
    end
  )",
                   {"z:0"}, {"y"}),
            "nought = Const float32[] 0\n"
            "p = Greater(s:0, nought)\n"
            "y/n:0 = ReadVariableOp(n:0)\n"
            "y/then/one = Const int64[] 1\n"
            "y/then/nine = Const int64[] 9\n"
            "y/then/full = GreaterEqual(y/n:0, y/then/nine)\n"
            "y/v:0 = ReadVariableOp(v:0)\n"
            "y/then/i/then/a = SelectV2(y/then/full, x:0, y/v:0)\n"
            "y/then/c = AddV2(y/n:0, y/then/one)\n"
            "y/else/zero = Const int64[] 0\n"
            "y/then/i/then/a = SelectV2(p, y/then/i/then/a, y/v:0)\n"
            "y/then/c = SelectV2(p, y/then/c, y/else/zero)\n"
            "y/then/i/then/a = AssignVariableOp(v:0, y/then/i/then/a)\n"
            "y/then/c = AssignVariableOp(n:0, y/then/c)\n"
            "-> y/then/c\n");
}

TEST_F(PredicateBranchesTest, ALoadInFrontSaysThatThereIsAValue) {
  variables_.clear();
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
  const std::string after = Passed(R"(
    o = ReadVariableOp(v) dtype=float
    y = If(p, v, x, ^o) Tcond=bool Tin=[resource,float] Tout=[] then_branch=@store else_branch=@nothing
  )",
                                   {"o:0"}, {"y"});
  EXPECT_THAT(after, HasSubstr("SelectV2(p, x:0, o)"));
  EXPECT_THAT(after, Not(HasSubstr("If(")));
}

TEST_F(PredicateBranchesTest, ALoadBehindDoesNot) {
  variables_.clear();
  EXPECT_THAT(Passed(R"(
    y = If(p, v, x) Tcond=bool Tin=[resource,float] Tout=[] then_branch=@store else_branch=@nothing
    o = ReadVariableOp(v, ^y) dtype=float
  )",
                     {"o:0"}, {"y"}),
              HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, InLoopsToo) {
  const std::string after = Passed(R"(
    y = While(i, v, s, x) cond=@cond body=@body T=[int32,resource,float,float]
    function cond(i: int32, v: resource, s: float, x: float) -> (go: bool = l:z:0)
      nine = Const int32[] 9
      l = Less(i, nine:output:0) T=int32
    end
    function body(i: int32, v: resource, s: float, x: float) -> (i1: int32 = k:z:0, v1: resource = v, s1: float = t:y:0, x1: float = x) runs(f)
      one = Const int32[] 1
      k = AddV2(i, one:output:0) T=int32
      t = Tanh(s) T=float
      nought = Const float[] 0
      p = Greater(s, nought:output:0) T=float
      f = If(p:z:0, v, x) Tcond=bool Tin=[resource,float] Tout=[] then_branch=@store else_branch=@nothing
    end
  )",
                                   {"y:2"}, {"y"});
  EXPECT_THAT(after, HasSubstr("AssignVariableOp"));
  EXPECT_THAT(after, HasSubstr("SelectV2"));
  EXPECT_THAT(after, Not(HasSubstr("If(")));
}

// ------------------------------------------------------------------------------------ what stays

TEST_F(PredicateBranchesTest, NotOnTheCpu) {
  device_ = nullptr;
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhereTheHostKnowsThePredicate) {
  EXPECT_THAT(IfOf("store", "nothing", "", "b"), HasSubstr("y = If(b:0"));
  EXPECT_THAT(IfOf("store", "nothing", "l = Less(i, i) T=int32\n", "l"), HasSubstr("y = If(l"));
  // Which the host makes, then, as well.
  KernelRegistry device(world_.ops);
  for (const std::string& op : world_.kernels.Names()) {
    if (op != "Greater") device.Add(op, world_.kernels.Find(op));
  }
  device_ = &device;
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhereThePredicateMayBeNoTruthValue) {
  EXPECT_THAT(Passed("y = If(s, v, x) Tcond=float Tin=[resource,float] Tout=[] then_branch=@store "
                     "else_branch=@nothing",
                     {}, {"y"}),
              HasSubstr("y = If(s:0"));
  EXPECT_THAT(IfOf("store", "nothing", "q = Greater(x, s) T=float\n", "q"), HasSubstr("y = If(q"));
}

TEST_F(PredicateBranchesTest, NotWhatMayFail) {
  // A division by zero, an index, a check, an Assert.
  EXPECT_THAT(ValueOf("c = Cast(x) SrcT=float DstT=int32\nd = FloorDiv(c:y:0, c:y:0) T=int32\n"
                      "m = Cast(d:z:0) SrcT=int32 DstT=float",
                      "m:y:0"),
              HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("k = Cast(x) SrcT=float DstT=int32\nzero = Const int32[] 0\n"
                      "m = GatherV2(x, k:y:0, zero:output:0) Tparams=float Tindices=int32 "
                      "Taxis=int32",
                      "m:output:0"),
              HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("m = CheckNumerics(x) T=float message=\"no\"", "m:output:0"),
              HasSubstr("y = If(p"));
  EXPECT_THAT(IfWith("nought = Const float[] 0\nl = Less(x, nought:output:0) T=float\n"
                     "one = Const int32[1] 0\nd = All(l:z:0, one:output:0)\n"
                     "e = Assert(d:output:0, x) T=[float]\n"
                     "a = AssignVariableOp(v, x) dtype=float",
                     "a, e"),
              HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhatOthersSeeOrIsDrawn) {
  EXPECT_THAT(IfWith("t = AsString(x) T=float\na = PrintV2(t:output:0)"), HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("two = Const int32[1] 2\n"
                      "m = RandomUniform(two:output:0) T=int32 dtype=float",
                      "m:output:0"),
              HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhatIsChangedOtherwise) {
  EXPECT_THAT(IfWith("zero = Const int32[1] 0\none = Const float[1] 1\n"
                     "a = ResourceScatterAdd(v, zero:output:0, one:output:0) dtype=float "
                     "Tindices=int32"),
              HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotLoops) {
  EXPECT_THAT(ValueOf("y = StatelessWhile(x) cond=@again body=@on T=[float]", "y:output:0", "float",
                      R"(x)
    end
    function again(x: float) -> (go: bool = l:z:0)
      one = Const int32[1] 0
      sum = Sum(x, one:output:0) T=float
      nine = Const float[] 9
      l = Less(sum:output:0, nine:output:0) T=float
    end
    function on(x: float) -> (r: float = e:y:0)
      e = Exp(x) T=float)"),
              HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhereShapesMayNotFit) {
  // Of the value, of the variable, of both branches' results.
  x_shape_ = PartialShape({-1});
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("m = Exp(x) T=float", "m:y:0"), HasSubstr("y = If(p"));
  x_shape_ = Shape({2});
  v_shape_ = PartialShape({-1});
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
  v_shape_ = Shape({3});
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("m = Const float[3] 1 2 3", "m:output:0"), HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhereAVariableMayHaveNoValue) {
  variables_[0] = DType::kInvalid;
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("m = ReadVariableOp(v) dtype=float", "m:value:0"), HasSubstr("y = If(p"));
  variables_[0] = DType::kFloat;
  EXPECT_THAT(Passed(R"(
    d = DestroyResourceOp(v)
    y = If(p, v, x, ^d) Tcond=bool Tin=[resource,float] Tout=[] then_branch=@store else_branch=@nothing
  )",
                     {}, {"y", "d"}),
              HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhereAVariableIsOfAnotherDType) {
  variables_[0] = DType::kDouble;
  EXPECT_THAT(IfOf("store"), HasSubstr("y = If(p"));
}

constexpr char kTwo[] = R"(
  y = If(p, v, w, x) Tcond=bool Tin=[resource,resource,float] Tout=[] then_branch=@two else_branch=@none
  function two(v: resource, w: resource, x: float) -> () runs(a, c)
    o = ReadVariableOp(w) dtype=float
    e = Exp(o:value:0) T=float
    a = AssignVariableOp(v, e:y:0) dtype=float
    c = AssignVariableOp(w, x, ^e) dtype=float
  end
  function none(v: resource, w: resource, x: float) -> ()
  end
)";

TEST_F(PredicateBranchesTest, NotWhereTwoHandlesMayBeOfOneVariable) {
  EXPECT_THAT(Passed(kTwo, {}, {"y"}), Not(HasSubstr("If(")));
  distinct_ = false;
  EXPECT_THAT(Passed(kTwo, {}, {"y"}), HasSubstr("y = If(p"));
  EXPECT_THAT(IfOf("store"), Not(HasSubstr("If(")));  // Of one there are no two.
}

TEST_F(PredicateBranchesTest, NotWhatIsMuchToDo) {
  const auto of_size = [this](int size) {
    return ValueOf(absl::StrCat("many = Const int32[2] ", size, " ", size,
                                "\nb = Const int32[1] 0\nsum = Sum(x, b:output:0) T=float\n"
                                "f = Fill(many:output:0, sum:output:0) T=float index_type=int32\n"
                                "q = MatMul(f:output:0, f:output:0) T=float\n"
                                "all = Const int32[2] 0 1\n"
                                "c = Sum(q:product:0, all:output:0) T=float\n"
                                "m = Mul(c:output:0, x) T=float"),
                   "m:z:0");
  };
  EXPECT_THAT(of_size(64), Not(HasSubstr("If(")));
  EXPECT_THAT(of_size(4096), HasSubstr("y = If(p"));
}

TEST_F(PredicateBranchesTest, NotWhatTheHostDoes) {
  EXPECT_THAT(ValueOf("m = Exp(x) T=float device=\"/device:CPU:0\"", "m:y:0"),
              HasSubstr("y = If(p"));
  KernelRegistry device(world_.ops);
  for (const std::string& op : world_.kernels.Names()) {
    if (op != "Exp") device.Add(op, world_.kernels.Find(op));
  }
  device_ = &device;
  EXPECT_THAT(ValueOf("m = Exp(x) T=float", "m:y:0"), HasSubstr("y = If(p"));
  EXPECT_THAT(ValueOf("m = Tanh(x) T=float", "m:y:0"), Not(HasSubstr("If(")));
}

TEST_F(PredicateBranchesTest, NotWhatIsNoData) {
  EXPECT_THAT(ValueOf("m = AsString(x) T=float", "m:output:0", "string",
                      "c:output:0)\n"
                      "c = Const string[2] \"a\" \"b\""),
              HasSubstr("y = If(p"));
}

}  // namespace
}  // namespace formwork::testing
