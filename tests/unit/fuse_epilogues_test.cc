// What goes into a convolution or product, and what does not.

#include "core/graph/passes/pipeline.h"
#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FuseEpiloguesTest : public ::testing::Test {
 protected:
  // The whole pipeline over x, w, b, r and the rest of `text`, of which y is fetched.
  std::string After(absl::string_view text, std::vector<PartialShape> shapes,
                    std::vector<std::string> fetches = {"y:0"}) {
    std::string all;
    std::vector<std::pair<std::string, DType>> feeds;
    for (const char* name : {"x", "w", "b", "r"}) {
      absl::StrAppend(&all, name, " = Placeholder dtype=float\n");
      feeds.emplace_back(absl::StrCat(name, ":0"), DType::kFloat);
    }
    absl::StrAppend(&all, text);
    absl::StatusOr<ImportedGraph> imported = world_.Import(all, std::move(feeds), fetches);
    if (!imported.ok()) return imported.status().ToString();
    Graph graph = *imported->graph;
    PassBudget budget;
    const PassContext context{imported->library, world_.ops, world_.kernels, world_.allocator,
                              budget};
    EXPECT_OK(RunPasses(graph, shapes, context));
    std::string result = ToText(graph);
    return result.substr(result.find("r:0 = Arg float32\n") + 18);
  }

  GraphWorld world_;
};

const std::vector<PartialShape> kRows = {Shape({8, 4}), Shape({4, 6}), Shape({6}), Shape({8, 6})};
const std::vector<PartialShape> kImages = {Shape({2, 5, 5, 3}), Shape({3, 3, 3, 6}), Shape({6}),
                                           Shape({2, 5, 5, 6})};

TEST_F(FuseEpiloguesTest, BiasResidualAndActivationGoIntoAProduct) {
  EXPECT_EQ(After("p = MatMul(x, w) T=float\nq = BiasAdd(p, b) T=float\n"
                  "s = AddV2(r, q) T=float\ny = Relu(s) T=float",
                  kRows),
            "p = MatMul(x:0, w:0, b:0, r:0) _epilogue=[\"BiasAdd\",\"Add\",\"Relu\"]\n"
            "-> p\n");
}

TEST_F(FuseEpiloguesTest, TheSumOfTwoProductsAndABiasIsOneOfThem) {
  EXPECT_EQ(After("p = MatMul(x, w) T=float\nv = Neg(w) T=float\nq = MatMul(x, v) T=float\n"
                  "s = AddV2(p, q) T=float\ny = BiasAdd(s, b) T=float",
                  kRows),
            "v = Neg(w:0)\n"
            "q = MatMul(x:0, v)\n"
            "p = MatMul(x:0, w:0, b:0, q) _epilogue=[\"BiasAdd\",\"Add\"]\n"
            "-> p\n");
}

TEST_F(FuseEpiloguesTest, WhatSomebodyElseReadsStays) {
  EXPECT_EQ(After("p = MatMul(x, w) T=float\nq = BiasAdd(p, b) T=float\ny = Relu(q) T=float\n"
                  "z = Neg(q) T=float",
                  kRows, {"y:0", "z:0"}),
            "p = MatMul(x:0, w:0, b:0) _epilogue=[\"BiasAdd\"]\n"
            "y = Relu(p)\n"
            "z = Neg(p)\n"
            "-> y, z\n");
  EXPECT_THAT(After("y = MatMul(x, w) T=float\nz = Relu(y) T=float", kRows, {"y:0", "z:0"}),
              Not(HasSubstr("_epilogue")));
}

TEST_F(FuseEpiloguesTest, ABatchNormalisationGoesIntoAConvolutionWithABias) {
  EXPECT_EQ(After("c = Conv2D(x, w) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
                  "d = BiasAdd(c, b) T=float\nn = Neg(b) T=float\n"
                  "m = Mul(d, n) T=float\nt = AddV2(m, b) T=float\ny = Relu6(t) T=float",
                  kImages),
            "n = Neg(b:0)\n"
            "y = Mul(b:0, n)\n"
            "y = AddV2(y, b:0)\n"
            "c = Conv2D(x:0, w:0, n, y) strides=[1,1,1,1] padding=\"SAME\" "
            "_epilogue=[\"Mul\",\"BiasAdd\",\"Relu6\"]\n"
            "-> c\n");
}

TEST_F(FuseEpiloguesTest, APadBeforeAConvolutionGoesInToo) {
  EXPECT_EQ(After("k = Const int32[4,2] 0 0 0 1 2 3 0 0\nq = Pad(x, k) T=float Tpaddings=int32\n"
                  "c = Conv2D(q, w) T=float strides=[1,1,1,1] padding=\"VALID\"\n"
                  "y = Relu(c) T=float",
                  kImages),
            "c = Conv2D(x:0, w:0) strides=[1,1,1,1] padding=\"EXPLICIT\" "
            "explicit_paddings=[0,0,0,1,2,3,0,0] _epilogue=[\"Relu\"]\n"
            "-> c\n");
}

TEST_F(FuseEpiloguesTest, OfTwoConvolutionsThatAreAddedOneTakesTheSum) {
  EXPECT_EQ(After("c = Conv2D(x, w) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
                  "v = Neg(w) T=float\n"
                  "d = Conv2D(x, v) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
                  "s = AddV2(c, d) T=float\ny = Relu(s) T=float",
                  kImages),
            "v = Neg(w:0)\n"
            "d = Conv2D(x:0, v) strides=[1,1,1,1] padding=\"SAME\"\n"
            "c = Conv2D(x:0, w:0, d) strides=[1,1,1,1] padding=\"SAME\" "
            "_epilogue=[\"Add\",\"Relu\"]\n"
            "-> c\n");
}

TEST_F(FuseEpiloguesTest, AReshapeThatKeepsTheChannelsMovesBehind) {
  EXPECT_EQ(After("p = MatMul(x, w) T=float\nk = Const int32[4] 2 4 3 2\n"
                  "q = Reshape(p, k) T=float\nl = Const int32[2] 3 2\nv = Reshape(b, l) T=float\n"
                  "y = AddV2(q, v) T=float",
                  kRows),
            "k = Const int32[4] 2 4 3 2\n"
            "l = Const int32[2] 3 2\n"
            "v = Reshape(b:0, l)\n"
            "p = MatMul(x:0, w:0, v) _epilogue=[\"BiasAdd\"]\n"
            "y = Reshape(p, k)\n"
            "-> y\n");
  EXPECT_THAT(After("p = MatMul(x, w) T=float\nk = Const int32[2] 16 3\n"
                    "q = Reshape(p, k) T=float\ny = Relu(q) T=float",
                    kRows),
              Not(HasSubstr("_epilogue")));
}

TEST_F(FuseEpiloguesTest, WeightsAreKnownUnlessTheFunctionChangesVariables) {
  const char* const kText = R"(
    h = Placeholder dtype=resource
    x = Placeholder dtype=float
    v = ReadVariableOp(h) dtype=float
    y = MatMul(x, v) T=float
    z = MatMul(x, x) T=float
    u = AssignAddVariableOp(h, x, ^y, ^z) dtype=float
  )";
  auto after = [&](std::vector<std::string> targets) {
    const ImportedGraph imported =
        *world_.Import(kText, {{"h:0", DType::kResource}, {"x:0", DType::kFloat}}, {"y:0", "z:0"},
                       std::move(targets));
    Graph graph = *imported.graph;
    PassBudget budget;
    const PassContext context{imported.library, world_.ops, world_.kernels, world_.allocator,
                              budget};
    EXPECT_OK(RunPasses(graph, {Shape({4, 4}), Shape({4, 4})}, context));
    return ToText(graph);
  };
  EXPECT_THAT(after({}), AllOf(HasSubstr("y = MatMul(x:0, v) _weights=true\n"),
                               HasSubstr("z = MatMul(x:0, x:0)\n")));
  EXPECT_THAT(after({"u"}), Not(HasSubstr("_weights")));
}

TEST_F(FuseEpiloguesTest, WeightsOfABodyAreWeightsThatALoopDoesNotChange) {
  const char* const kText = R"(
    h = Placeholder dtype=resource
    x = Placeholder dtype=float
    v = ReadVariableOp(h) dtype=float
    n = Neg(v) T=float
    l = StatelessWhile(x, v, n) T=[float,float,float] cond=@more body=@step
    y = MatMul(l, l:1) T=float
    function more(x: float, v: float, n: float) -> (go: bool = l:z:0)
      k = Const float[] 9
      i = Const int32[2] 0 1
      s = Sum(x, i:output:0) T=float Tidx=int32
      l = Less(s:output:0, k:output:0) T=float
    end
    function step(x: float, v: float, n: float) -> (p: float = b:product:0, w: float = v, m: float = c:product:0)
      a = MatMul(x, v) T=float
      b = MatMul(a:product:0, x) T=float
      c = MatMul(x, n) T=float
    end
  )";
  const ImportedGraph imported =
      *world_.Import(kText, {{"h:0", DType::kResource}, {"x:0", DType::kFloat}}, {"y:0"}, {});
  Graph graph = *imported.graph;
  PassBudget budget;
  const PassContext context{imported.library, world_.ops, world_.kernels, world_.allocator, budget};
  EXPECT_OK(RunPasses(graph, {Shape({4, 4}), Shape({4, 4})}, context));
  std::string body;
  for (const Node& node : graph.nodes) {
    if (!node.bodies.empty()) body = ToText(node.bodies[1]);
  }
  EXPECT_THAT(body, HasSubstr("_weights=true"));
  EXPECT_EQ(body.find("_weights=true"), body.rfind("_weights=true")) << body;
  EXPECT_THAT(body, HasSubstr("/v) _weights=true\n"));
}

TEST_F(FuseEpiloguesTest, WhatMightBroadcastStays) {
  const std::vector<PartialShape> unknown = {PartialShape::OfRank(2), Shape({4, 6}),
                                             PartialShape::OfRank(1), PartialShape::OfRank(2)};
  EXPECT_THAT(After("p = MatMul(x, w) T=float\ny = AddV2(p, r) T=float", unknown),
              Not(HasSubstr("_epilogue")));
  EXPECT_THAT(After("p = MatMul(x, w) T=float\ny = BiasAdd(p, b) T=float", unknown),
              Not(HasSubstr("_epilogue")));
  const std::vector<PartialShape> column = {Shape({8, 4}), Shape({4, 6}), Shape({6, 1, 1}),
                                            Shape({8, 1})};
  EXPECT_THAT(After("p = MatMul(x, w) T=float\ny = AddV2(p, b) T=float", column),
              Not(HasSubstr("_epilogue")));
  EXPECT_THAT(After("p = MatMul(x, w) T=float\ny = AddV2(p, r) T=float", column),
              Not(HasSubstr("_epilogue")));
}

TEST_F(FuseEpiloguesTest, AGeluGoesInHoweverItIsWritten) {
  const char* const kHalf = "h = Const float[] 0.5\ng = Mul(h, q) T=float\n";
  const char* const kForms[] = {
      "n = Neg(q) T=float\nc = Const float[] 0.70710678\nm = Mul(n, c) T=float\n"
      "e = Erfc(m) T=float\n",
      "c = Const float[] 0.70710678\nm = Mul(c, q) T=float\nf = Erf(m) T=float\n"
      "o = Const float[] 1\ne = AddV2(o, f) T=float\n",
      "c = Const float[] 1.41421356\nm = RealDiv(q, c) T=float\nf = Erf(m) T=float\n"
      "o = Const float[] 1\ne = AddV2(f, o) T=float\n",
  };
  for (const char* form : kForms) {
    const std::string after = After(absl::StrCat("p = MatMul(x, w) T=float\n"
                                                 "q = BiasAdd(p, b) T=float\n",
                                                 kHalf, form, "y = Mul(g, e) T=float"),
                                    kRows);
    EXPECT_THAT(after, HasSubstr("_epilogue=[\"BiasAdd\",\"Gelu\"]\n-> p\n"));
  }
  // Of half the value.
  EXPECT_THAT(After(absl::StrCat("p = MatMul(x, w) T=float\nq = BiasAdd(p, b) T=float\n",
                                 "h = Const float[] 0.5\ng = Mul(h, q) T=float\n"
                                 "c = Const float[] 0.5\nm = Mul(c, q) T=float\n"
                                 "f = Erf(m) T=float\no = Const float[] 1\n"
                                 "e = AddV2(o, f) T=float\ny = Mul(g, e) T=float"),
                    kRows),
              Not(HasSubstr("Gelu")));
}

}  // namespace
}  // namespace formwork::testing
