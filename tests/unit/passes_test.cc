// Each pass on a small graph: before and after.

#include "core/graph/passes/pipeline.h"

#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using Feeds = std::vector<std::pair<std::string, DType>>;

class PassTest : public ::testing::Test {
 protected:
  enum class Pass { kInline, kSimplify, kPrune, kAll };

  // What a pass makes of a graph. `shapes`: of the feeds; none: unknown. Simplify is followed by
  // Prune, to show what is left.
  std::string After(Pass pass, absl::string_view text, Feeds feeds,
                    std::vector<std::string> fetches, std::vector<std::string> targets = {},
                    std::vector<PartialShape> shapes = {}) {
    shapes.resize(feeds.size());
    absl::StatusOr<ImportedGraph> imported =
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets));
    if (!imported.ok()) return imported.status().ToString();
    Graph graph = *imported->graph;
    PassBudget budget = budget_;
    const PassContext context{imported->library, world_.ops, world_.kernels,
                              world_.allocator,  budget,     device_kernels_};
    switch (pass) {
      case Pass::kInline:
        InlineCalls(graph, context);
        break;
      case Pass::kSimplify:
        EXPECT_OK(Simplify(graph, shapes, context));
        Prune(graph);
        break;
      case Pass::kPrune:
        Prune(graph);
        break;
      case Pass::kAll:
        EXPECT_OK(RunPasses(graph, shapes, context));
    }
    ExpectAttrs(graph);
    return ToText(graph);
  }
  // Kernels and shape functions rely on attrs that have a default to be there.
  static void ExpectAttrs(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for (const Graph& body : node.bodies) ExpectAttrs(body);
      if (node.kind != NodeKind::kOp) continue;
      for (const AttrDef& attr : node.op->attrs) {
        if (!attr.default_value) continue;
        EXPECT_NE(node.attrs->Find(attr.name), nullptr) << node.name << " lacks " << attr.name;
      }
    }
  }
  // Of a graph over x, of which y is fetched.
  std::string Simplified(absl::string_view text, PartialShape shape = PartialShape()) {
    return After(Pass::kSimplify, absl::StrCat("x = Placeholder dtype=float\n", text),
                 {{"x:0", DType::kFloat}}, {"y:0"}, {}, {shape});
  }

  GraphWorld world_;
  const KernelRegistry* device_kernels_ = nullptr;
  PassBudget budget_{.inlined = 1000};
};

TEST_F(PassTest, NodesBecomeOneWhereTheDeviceHasAKernelForIt) {
  const auto after = [this] {
    return After(Pass::kAll, R"(
      x0 = Placeholder dtype=float
      g0 = Placeholder dtype=float
      b0 = Placeholder dtype=float
      x = EnsureShape(x0) T=float shape=shape:[24,50]
      g = EnsureShape(g0) T=float shape=shape:[1,50]
      b = EnsureShape(b0) T=float shape=shape:[1,50]
      a = Const int32[1] -1
      e = Const float[] 0.01
      m = Mean(x, a) T=float Tidx=int32 keep_dims=true
      d = SquaredDifference(x, m) T=float
      v = Mean(d, a) T=float Tidx=int32 keep_dims=true
      s = AddV2(v, e) T=float
      r = Rsqrt(s) T=float
      i = Mul(r, g) T=float
      n = Neg(m) T=float
      k = Mul(n, i) T=float
      q = AddV2(k, b) T=float
      p = Mul(x, i) T=float
      y = AddV2(p, q) T=float
    )",
                 {{"x0:0", DType::kFloat}, {"g0:0", DType::kFloat}, {"b0:0", DType::kFloat}},
                 {"y:0"});
  };
  EXPECT_THAT(after(), ::testing::HasSubstr("_MklLayerNorm"));
  KernelRegistry device(world_.ops);
  device_kernels_ = &device;
  EXPECT_THAT(after(), ::testing::AllOf(::testing::HasSubstr("Rsqrt"),
                                        ::testing::Not(::testing::HasSubstr("_MklLayerNorm"))));
}

TEST_F(PassTest, AnUpdateByWhatIsComputedIsAStoreOfTheSum) {
  EXPECT_EQ(After(Pass::kSimplify,
                  "h = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                  "d = Neg(x) T=float\na = AssignAddVariableOp(h, d) dtype=float",
                  {{"h:0", DType::kResource}, {"x:0", DType::kFloat}}, {}, {"a"},
                  {Shape({16, 16}), Shape({16, 16})}),
            "h:0 = Arg resource\nx:0 = Arg float32\nd = Neg(x:0)\na = ReadVariableOp(h:0)\n"
            "a = AddV2(a, d)\na = AssignVariableOp(h:0, a)\n-> \n");
}

// ----------------------------------------------------------------------------------------- inline

constexpr char kNested[] = R"(
  x = Placeholder dtype=float
  y = PartitionedCall(x) f=@outer Tin=[float] Tout=[float,float]
  z = Sub(y:1, y) T=float
  function outer(a: float) -> (r: float = c:output:0, s: float = a)
    c = StatefulPartitionedCall(b:y:0) f=@twice Tin=[float] Tout=[float]
    b = Neg(a) T=float
  end
  function twice(a: float) -> (r: float = m:z:0)
    m = AddV2(a, a) T=float
  end
)";

TEST_F(PassTest, CallsAndCallsInThemAreReplacedByTheirBodies) {
  EXPECT_EQ(After(Pass::kInline, kNested, {{"x:0", DType::kFloat}}, {"z:0"}),
            "x:0 = Arg float32\n"
            "y/b = Neg(x:0)\n"
            "y/c/m = AddV2(y/b, y/b)\n"
            "z = Sub(x:0, y/c/m)\n"
            "-> z\n");
}

TEST_F(PassTest, WhatTheBudgetDoesNotCoverStaysACall) {
  budget_.inlined = 0;
  EXPECT_EQ(After(Pass::kInline, kNested, {{"x:0", DType::kFloat}}, {"z:0"}),
            "x:0 = Arg float32\n"
            "y = PartitionedCall(x:0) f=@outer\n"
            "z = Sub(y:1, y)\n"
            "-> z\n");
}

TEST_F(PassTest, EffectsKeepTheirPlacesWhenTheirFunctionIsInlined) {
  EXPECT_EQ(After(Pass::kInline, R"(
    h = Placeholder dtype=resource
    one = Const float[] 1
    a = AssignVariableOp(h, one) dtype=float
    b = StatefulPartitionedCall(h, ^a) f=@add Tin=[resource] Tout=[]
    c = AssignSubVariableOp(h, one, ^b) dtype=float
    function add(v: resource) -> ()
      two = Const float[] 2
      w = AssignAddVariableOp(v, two:output:0) dtype=float
    end
  )",
                  {{"h:0", DType::kResource}}, {}, {"c"}),
            "h:0 = Arg resource\n"
            "one = Const float32[] 1\n"
            "a = AssignVariableOp(h:0, one)\n"
            "b/two = Const float32[] 2\n"
            "b/w = AssignAddVariableOp(h:0, b/two)\n"
            "c = AssignSubVariableOp(h:0, one)\n"
            "-> \n");
}

TEST_F(PassTest, LoopsAndBranchesAreNotInlined) {
  EXPECT_EQ(After(Pass::kInline, R"(
    x = Placeholder dtype=float
    c = Const bool[] true
    y = StatelessIf(c, x) then_branch=@f else_branch=@f Tcond=bool Tin=[float] Tout=[float]
    function f(a: float) -> (r: float = a)
    end
  )",
                  {{"x:0", DType::kFloat}}, {"y:0"}),
            "x:0 = Arg float32\n"
            "c = Const bool[] true\n"
            "y = StatelessIf(c, x:0) then_branch=@f else_branch=@f\n"
            "-> y\n");
}

// ------------------------------------------------------------------------------------------ prune

TEST_F(PassTest, WhatNobodyNeedsIsDroppedUnlessItCanBeSeen) {
  EXPECT_EQ(After(Pass::kPrune, R"(
    h = Placeholder dtype=resource
    x = Placeholder dtype=float
    s = Const string[] "text"
    read = ReadVariableOp(h) dtype=float
    pure = Neg(read) T=float
    shape = Const int32[1] 3
    random = RandomUniform(shape) dtype=float T=int32
    print = PrintV2(s)
    write = AssignVariableOp(h, x) dtype=float
    y = Neg(x) T=float
    n = NoOp(^pure, ^random, ^print, ^write)
  )",
                  {{"h:0", DType::kResource}, {"x:0", DType::kFloat}}, {"y:0"}, {"n"}),
            "h:0 = Arg resource\n"
            "x:0 = Arg float32\n"
            "s = Const string[] text\n"
            "print = PrintV2(s)\n"
            "write = AssignVariableOp(h:0, x:0)\n"
            "y = Neg(x:0)\n"
            "-> y\n");
}

// --------------------------------------------------------------------------------------- simplify

TEST_F(PassTest, ConstantsAreFolded) {
  EXPECT_EQ(Simplified("a = Const float[2] 1 2\nb = Const float[] 3\nc = AddV2(a, b) T=float\n"
                       "d = Mul(c, c) T=float\ny = AddV2(x, d) T=float"),
            "x:0 = Arg float32\n"
            "d = Const float32[2] 16 25\n"
            "y = AddV2(x:0, d)\n"
            "-> y\n");
}

TEST_F(PassTest, AShapeThatIsKnownIsAConstant) {
  EXPECT_EQ(Simplified("n = Neg(x) T=float\ny = Shape(n) T=float out_type=int32", Shape({2, 3})),
            "x:0 = Arg float32\n"
            "y = Const int32[2] 2 3\n"
            "-> y\n");
  EXPECT_EQ(Simplified("n = Neg(x) T=float\ny = Shape(n) T=float out_type=int32",
                       PartialShape::Trusted({2, -1})),
            "x:0 = Arg float32\n"
            "n = Neg(x:0)\n"
            "y = Shape(n)\n"
            "-> y\n");
}

TEST_F(PassTest, WhatWouldBecomeLargeIsNotFolded) {
  EXPECT_EQ(Simplified("s = Const int32[1] 100000000\nv = Const float[] 1\n"
                       "y = Fill(s, v) T=float index_type=int32"),
            "x:0 = Arg float32\n"
            "s = Const int32[1] 100000000\n"
            "v = Const float32[] 1\n"
            "y = Fill(s, v)\n"
            "-> y\n");
}

TEST_F(PassTest, WhatCannotWorkIsLeftToTheCallThatRunsIt) {
  EXPECT_EQ(Simplified("a = Const float[2,3] 1 2 3 4 5 6\ny = MatMul(a, a) T=float"),
            "x:0 = Arg float32\n"
            "a = Const float32[2,3] 1 2 3 4 5 6\n"
            "y = MatMul(a, a)\n"
            "-> y\n");
}

TEST_F(PassTest, PowersByConstantsAreCheapOps) {
  auto power = [&](absl::string_view exponent, absl::string_view shape = "") {
    return Simplified(
        absl::StrCat("e = Const float[", shape, "] ", exponent, "\ny = Pow(x, e) T=float"));
  };
  EXPECT_EQ(power("1"), "x:0 = Arg float32\ny = Identity(x:0)\n-> y\n");
  EXPECT_EQ(power("2"), "x:0 = Arg float32\ny = Square(x:0)\n-> y\n");
  EXPECT_EQ(power("3"), "x:0 = Arg float32\ny = Square(x:0)\ny = Mul(x:0, y)\n-> y\n");
  EXPECT_EQ(power("0.5"), "x:0 = Arg float32\ny = Sqrt(x:0)\n-> y\n");
  EXPECT_EQ(power("-0.5"), "x:0 = Arg float32\ny = Rsqrt(x:0)\n-> y\n");
  EXPECT_EQ(power("-1"), "x:0 = Arg float32\ny = Reciprocal(x:0)\n-> y\n");
  EXPECT_EQ(power("4"), "x:0 = Arg float32\ne = Const float32[] 4\ny = Pow(x:0, e)\n-> y\n");
  // A vector may give the result its shape.
  EXPECT_EQ(power("2", "1"), "x:0 = Arg float32\ne = Const float32[1] 2\ny = Pow(x:0, e)\n-> y\n");
}

TEST_F(PassTest, SmallNumbersKeepTheirDigitsInLogarithmsAndExponentials) {
  auto simplified = [&](absl::string_view nodes) {
    return Simplified(absl::StrCat("one = Const float[] 1\ntwo = Const float[] 2\n", nodes));
  };
  const std::string log1p = "x:0 = Arg float32\ny = Log1p(x:0)\n-> y\n";
  EXPECT_EQ(simplified("s = AddV2(one, x) T=float\ny = Log(s) T=float"), log1p);
  EXPECT_EQ(simplified("s = AddV2(x, one) T=float\ny = Log(s) T=float"), log1p);
  EXPECT_EQ(simplified("e = Exp(x) T=float\ny = Sub(e, one) T=float"),
            "x:0 = Arg float32\ny = Expm1(x:0)\n-> y\n");
  EXPECT_EQ(simplified("s = AddV2(x, two) T=float\ny = Log(s) T=float"),
            "x:0 = Arg float32\ntwo = Const float32[] 2\ns = AddV2(x:0, two)\ny = Log(s)\n-> y\n");
  EXPECT_EQ(simplified("e = Exp(x) T=float\ny = Sub(one, e) T=float"),
            "x:0 = Arg float32\none = Const float32[] 1\ne = Exp(x:0)\ny = Sub(one, e)\n-> y\n");
}

TEST_F(PassTest, TheLogarithmOfASoftmaxAloneIsOneNode) {
  EXPECT_EQ(Simplified("s = Softmax(x) T=float\ny = Log(s) T=float"),
            "x:0 = Arg float32\ny = LogSoftmax(x:0)\n-> y\n");
  EXPECT_EQ(Simplified("s = Softmax(x) T=float\nl = Log(s) T=float\ny = Mul(s, l) T=float"),
            "x:0 = Arg float32\ns = Softmax(x:0)\nl = Log(s)\ny = Mul(s, l)\n-> y\n");
}

TEST_F(PassTest, EqualNodesAreOne) {
  EXPECT_EQ(Simplified("a = Neg(x) T=float\nb = Neg(x) T=float\nc = Exp(a) T=float\n"
                       "p = AddV2(a, c) T=float\nq = AddV2(c, b) T=float\n"
                       "r = Sub(a, c) T=float\ns = Sub(c, a) T=float\n"
                       "y = AddN(p, q, r, s) N=4 T=float"),
            "x:0 = Arg float32\n"
            "a = Neg(x:0)\n"
            "c = Exp(a)\n"
            "p = AddV2(a, c)\n"
            "r = Sub(a, c)\n"
            "s = Sub(c, a)\n"
            "y = AddN(p, p, r, s) N=4\n"
            "-> y\n");
}

TEST_F(PassTest, NodesOfOtherAttrsAndRandomNodesAreNotMerged) {
  EXPECT_EQ(Simplified("s = Const int32[1] 3\na = RandomUniform(s) dtype=float T=int32\n"
                       "b = RandomUniform(s) dtype=float T=int32\n"
                       "c = MatMul(x, x) T=float transpose_a=true\nd = MatMul(x, x) T=float\n"
                       "y = AddN(a, b, c, d) N=4 T=float"),
            "x:0 = Arg float32\n"
            "s = Const int32[1] 3\n"
            "a = RandomUniform(s)\n"
            "b = RandomUniform(s)\n"
            "c = MatMul(x:0, x:0) transpose_a=true\n"
            "d = MatMul(x:0, x:0)\n"
            "y = AddN(a, b, c, d) N=4\n"
            "-> y\n");
}

TEST_F(PassTest, OpsThatForwardAreNotThereAnyMore) {
  EXPECT_EQ(Simplified("a = Identity(x) T=float\nb = StopGradient(a) T=float\n"
                       "c = IdentityN(b, b) T=[float,float]\ny = Neg(c:1) T=float"),
            "x:0 = Arg float32\n"
            "y = Neg(x:0)\n"
            "-> y\n");
}

TEST_F(PassTest, ElementsUnderTheSameShapeAreTheInput) {
  const auto simplified = [&](absl::string_view nodes, PartialShape shape = Shape({2, 3})) {
    return Simplified(absl::StrCat("line = Const int32[1] 6\nrows = Const int32[2] 2 3\n"
                                   "ones = Const int32[2] 1 1\n",
                                   nodes),
                      std::move(shape));
  };
  const std::string same = "x:0 = Arg float32\ny = Neg(x:0)\n-> y\n";
  for (const char* node :
       {"Reshape(x, rows) T=float Tshape=int32", "Tile(x, ones) T=float Tmultiples=int32",
        "BroadcastTo(x, rows) T=float Tidx=int32", "EnsureShape(x) T=float shape=shape:[2,?]",
        "Squeeze(x) T=float"}) {
    EXPECT_EQ(simplified(absl::StrCat("r = ", node, "\ny = Neg(r) T=float")), same) << node;
  }
  const std::string and_back =
      "l = Reshape(x, line) T=float Tshape=int32\nr = Reshape(l, rows) T=float Tshape=int32\n"
      "y = Neg(r) T=float";
  EXPECT_EQ(simplified(and_back), same);
  // A Reshape that may fail is not left out.
  EXPECT_THAT(simplified(and_back, PartialShape::OfRank(2)), ::testing::HasSubstr("l = Reshape"));
  EXPECT_EQ(simplified("nought = Const int32[] 0\ne = ExpandDims(x, nought) T=float Tdim=int32\n"
                       "y = Reshape(e, line) T=float Tshape=int32"),
            "x:0 = Arg float32\nline = Const int32[1] 6\ny = Reshape(x:0, line)\n-> y\n");
}

TEST_F(PassTest, AVariableIsLoadedOnceAndAStoredValueIsKnown) {
  const char* text = R"(
    h = Placeholder dtype=resource
    x = Placeholder dtype=float
    a = ReadVariableOp(h) dtype=float
    b = ReadVariableOp(h) dtype=float
    y = AddV2(a, b) T=float
    w = AssignVariableOp(h, x, ^y) dtype=float
    c = ReadVariableOp(h, ^w) dtype=float
    z = Neg(c) T=float
    u = AssignAddVariableOp(h, x, ^z) dtype=float
    d = ReadVariableOp(h, ^u) dtype=float
  )";
  EXPECT_EQ(After(Pass::kSimplify, text, {{"h:0", DType::kResource}, {"x:0", DType::kFloat}},
                  {"y:0", "z:0", "d:0"}, {}, {Shape({2}), Shape({2})}),
            "h:0 = Arg resource\n"
            "x:0 = Arg float32\n"
            "a = ReadVariableOp(h:0)\n"
            "y = AddV2(a, a)\n"
            "w = AssignVariableOp(h:0, x:0)\n"
            "z = Neg(x:0)\n"
            "u = AssignAddVariableOp(h:0, x:0)\n"
            "d = ReadVariableOp(h:0)\n"
            "-> y, z, d\n");
}

TEST_F(PassTest, AStoreThroughAHandleThatMayBeTheSameVariableIsMinded) {
  const char* text = R"(
    g = Placeholder dtype=resource
    h = Placeholder dtype=resource
    x = Placeholder dtype=float
    a = ReadVariableOp(g) dtype=float
    w = AssignVariableOp(h, x, ^a) dtype=float
    b = ReadVariableOp(g, ^w) dtype=float
    y = AddV2(a, b) T=float
  )";
  EXPECT_EQ(After(Pass::kSimplify, text,
                  {{"g:0", DType::kResource}, {"h:0", DType::kResource}, {"x:0", DType::kFloat}},
                  {"y:0"}, {"w"}, {Shape({2}), Shape({2}), Shape({2})}),
            "g:0 = Arg resource\n"
            "h:0 = Arg resource\n"
            "x:0 = Arg float32\n"
            "a = ReadVariableOp(g:0)\n"
            "w = AssignVariableOp(h:0, x:0)\n"
            "b = ReadVariableOp(g:0)\n"
            "y = AddV2(a, b)\n"
            "-> y\n");
}

TEST_F(PassTest, TogetherTheyLookThroughCalls) {
  EXPECT_EQ(After(Pass::kAll, R"(
    x = Placeholder dtype=float
    two = Const float[] 2
    a = PartitionedCall(two) f=@square Tin=[float] Tout=[float]
    b = PartitionedCall(x) f=@square Tin=[float] Tout=[float]
    c = PartitionedCall(x) f=@square Tin=[float] Tout=[float]
    y = AddN(a, b, c) N=3 T=float
    function square(v: float) -> (r: float = m:z:0)
      m = Mul(v, v) T=float
      unused = Neg(v) T=float
    end
  )",
                  {{"x:0", DType::kFloat}}, {"y:0"}),
            "x:0 = Arg float32\n"
            "a/m = Const float32[] 4\n"
            "b/m = Mul(x:0, x:0)\n"
            "y = AddN(a/m, b/m, b/m) N=3\n"
            "-> y\n");
}

// ----------------------------------------------------------------------------------------- budget

constexpr char kFoldable[] = R"(
  a = Const float[2] 1 2
  b = Neg(a) T=float
  y = AddV2(x, b) T=float
)";

TEST_F(PassTest, FoldingEndsWithItsBudget) {
  const std::string folded = Simplified(kFoldable);
  EXPECT_THAT(folded, ::testing::Not(::testing::HasSubstr("Neg")));
  budget_.folding = absl::ZeroDuration();
  EXPECT_THAT(Simplified(kFoldable), ::testing::HasSubstr("Neg"));
  budget_ = PassBudget();
  budget_.folded_bytes = 7;
  EXPECT_THAT(Simplified(kFoldable), ::testing::HasSubstr("Neg"));
  budget_.folded_bytes = 8;
  EXPECT_EQ(Simplified(kFoldable), folded);
}

// The status of folding the node `name`, whose inputs are constants.
absl::Status StatusOfFolding(GraphWorld& world, absl::string_view text, const std::string& name) {
  FORMWORK_ASSIGN_OR_RETURN(ImportedGraph imported,
                            world.Import(text, {}, {absl::StrCat(name, ":0")}));
  PassBudget budget;
  const PassContext context{imported.library, world.ops, world.kernels, world.allocator, budget};
  const std::vector<Node>& nodes = imported.graph->nodes;
  for (const Node& node : nodes) {
    if (node.name != name) continue;
    std::vector<const Tensor*> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(&nodes[edge.node].constant);
    return EvaluateNode(node, inputs, context).status();
  }
  return absl::NotFoundError(name);
}

TEST_F(PassTest, ANodeThatTakesLongIsNotFolded) {
  EXPECT_THAT(
      StatusOfFolding(world_,
                      "a = Const int32[1] 16000000\n"
                      "y = StatelessTruncatedNormalV2(a, k, c, g) dtype=float Tshape=int32\n"
                      "k = Const uint64[1] 1\nc = Const uint64[2] 5 7\ng = Const int32[] 1\n",
                      "y"),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(PassTest, ANodeThatTakesMuchMemoryIsNotFolded) {
  const auto fill = [](int elements) {
    return absl::StrCat("n = Const int32[1] ", elements,
                        "\nv = Const float[] 1\ny = Fill(n, v) T=float index_type=int32\n");
  };
  EXPECT_OK(StatusOfFolding(world_, fill(1000), "y"));
  EXPECT_THAT(StatusOfFolding(world_, fill(17'000'000), "y"),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(PassTest, ARegistrationThatIsToStopDoes) {
  ASSERT_OK_AND_ASSIGN(ImportedGraph imported,
                       world_.Import(absl::StrCat("x = Placeholder dtype=float\n", kFoldable),
                                     {{"x:0", DType::kFloat}}, {"y:0"}));
  PassBudget budget;
  const PassContext context{imported.library, world_.ops, world_.kernels, world_.allocator, budget};
  Graph graph = *imported.graph;
  StopFlag stop;
  stop.Cancel();
  const StopScope scope(&stop);
  EXPECT_THAT(RunPasses(graph, {PartialShape()}, context), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace formwork::testing
