// The products of recurrent cells as one node: what becomes one, what does not, and what it gives.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/graph/passes/pipeline.h"
#include "tests/support/graph_world.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FuseGatesTest : public ::testing::Test {
 protected:
  // Of x [rows, 8], h [rows, 12], the variables w [8, 64], u [12, 64] and b [64], and the rest of
  // `text`, of which `fetches` are fetched.
  std::string After(absl::string_view text, std::vector<std::string> fetches = {"y:0"},
                    PartialShape rows = Shape({5})) {
    const std::vector<std::pair<std::string, DType>> feeds = {{"x:0", DType::kFloat},
                                                              {"h:0", DType::kFloat},
                                                              {"vw:0", DType::kResource},
                                                              {"vu:0", DType::kResource},
                                                              {"vb:0", DType::kResource}};
    const std::string all = absl::StrCat(
        "x = Placeholder dtype=float\nh = Placeholder dtype=float\n"
        "vw = Placeholder dtype=resource\nvu = Placeholder dtype=resource\n"
        "vb = Placeholder dtype=resource\nw = ReadVariableOp(vw) dtype=float\n"
        "u = ReadVariableOp(vu) dtype=float\nb = ReadVariableOp(vb) dtype=float\n",
        text);
    absl::StatusOr<ImportedGraph> imported = world_.Import(all, feeds, fetches);
    if (!imported.ok()) return imported.status().ToString();
    Graph graph = *imported->graph;
    PassBudget budget;
    const PassContext context{imported->library, world_.ops, world_.kernels, world_.allocator,
                              budget};
    const int64_t m = rows.dim(0);
    InlineCalls(graph, context);
    EXPECT_OK(Simplify(graph,
                       {PartialShape::Trusted({m, 8}), PartialShape::Trusted({m, 12}),
                        Shape({8, 64}), Shape({12, 64}), Shape({64})},
                       context));
    Prune(graph);
    FuseEpilogues(graph, context);
    Prune(graph);
    FuseGates(graph, context);
    Prune(graph);
    std::string result = ToText(graph);
    for (const Node& node : graph.nodes) {
      for (const Graph& body : node.bodies) absl::StrAppend(&result, ToText(body));
    }
    return result.substr(result.find("vb:0 = Arg resource\n") + 20);
  }

  GraphWorld world_;
};

constexpr char kLoads[] =
    "w = ReadVariableOp(vw:0)\nu = ReadVariableOp(vu:0)\nb = ReadVariableOp(vb:0)\n";
constexpr char kSum[] =
    "p = MatMul(x, w) T=float\nq = MatMul(h, u) T=float\ns = AddV2(p, q) T=float\n"
    "t = BiasAdd(s, b) T=float\n";

TEST_F(FuseGatesTest, TheStepOfAnLstmIsOneProduct) {
  EXPECT_EQ(
      After(absl::StrCat(kSum, "one = Const int32[] 1\ny = Split(one, t) num_split=4 T=float"),
            {"y:0", "y:3"}),
      absl::StrCat(kLoads, "y = _GateMatMul(x:0, h:0, w, u, b) N=2 num_parts=4\n-> y, y:3\n"));
}

TEST_F(FuseGatesTest, SoAreTwoProductsWithoutASplitAndOneWithIt) {
  EXPECT_THAT(After(absl::StrCat(kSum, "y = Tanh(t) T=float")),
              HasSubstr("p = _GateMatMul(x:0, h:0, w, u, b) N=2 num_parts=1\ny = Tanh(p)\n"));
  EXPECT_THAT(After("p = MatMul(x, w) T=float\nt = BiasAdd(p, b) T=float\n"
                    "one = Const int32[] -1\ny = Split(one, t) num_split=2 T=float"),
              HasSubstr("y = _GateMatMul(x:0, w, b) N=1 num_parts=2\n"));
}

TEST_F(FuseGatesTest, SoAreThoseOfALoopsBody) {
  EXPECT_THAT(
      After(R"(
    k = Const int32[] 3
    l = While(k, x, h, vw, vu, vb) cond=@more body=@step T=[int32,float,float,resource,resource,resource]
    y = Identity(l:2) T=float
    function more(i: int32, x: float, h: float, vw: resource, vu: resource, vb: resource) -> (r: bool = g:z:0)
      zero = Const int32[] 0
      g = Greater(i, zero:output:0) T=int32
    end
    function step(i: int32, x: float, h: float, vw: resource, vu: resource, vb: resource) -> (j: int32 = d:z:0, x2: float = x, h2: float = m:product:0, w2: resource = vw, u2: resource = vu, b2: resource = vb)
      w = ReadVariableOp(vw) dtype=float
      u = ReadVariableOp(vu) dtype=float
      b = ReadVariableOp(vb) dtype=float
      p = MatMul(x, w:value:0) T=float
      q = MatMul(h, u:value:0) T=float
      s = AddV2(p:product:0, q:product:0) T=float
      t = BiasAdd(s:z:0, b:value:0) T=float
      one = Const int32[] 1
      c = Split(one:output:0, t:output:0) num_split=4 T=float
      e = Mul(c:output:0, c:output:3) T=float
      k = Const float[12,16] ones
      m = MatMul(e:z:0, k:output:0) T=float transpose_b=true
      n = Const int32[] 1
      d = Sub(i, n:output:0) T=int32
    end
  )"),
      AllOf(HasSubstr("= _GateMatMul("), HasSubstr("N=2 num_parts=4"), Not(HasSubstr("Split("))));
}

TEST_F(FuseGatesTest, WhatOthersReadIsCutAlongRowsOrIntoSmallPartsStays) {
  // Somebody else reads a product, or the sum.
  EXPECT_THAT(After(absl::StrCat(kSum, "y = Tanh(t) T=float\nz = Neg(q) T=float"), {"y:0", "z:0"}),
              Not(HasSubstr("_GateMatMul")));
  EXPECT_THAT(After(absl::StrCat(kSum,
                                 "one = Const int32[] 1\n"
                                 "y = Split(one, t) num_split=4 T=float"),
                    {"y:0", "t:0"}),
              AllOf(HasSubstr("num_parts=1"), HasSubstr("= Split(")));
  for (const char* split : {"one = Const int32[] 0\ny = Split(one, t) num_split=5 T=float",
                            "one = Const int32[] 1\ny = Split(one, t) num_split=8 T=float"}) {
    EXPECT_THAT(After(absl::StrCat(kSum, split)),
                AllOf(HasSubstr("num_parts=1"), HasSubstr("= Split(")));
  }
}

TEST_F(FuseGatesTest, RowsMayBeUnknown) {
  const PartialShape unknown = PartialShape::Trusted({-1});
  const std::string split = "one = Const int32[] 1\ny = Split(one, t) num_split=4 T=float";
  const std::string lstm =
      absl::StrCat(kLoads, "y = _GateMatMul(x:0, h:0, w, u, b) N=2 num_parts=4\n-> y\n");
  EXPECT_EQ(After(absl::StrCat(kSum, split), {"y:0"}, unknown), lstm);
  constexpr char kProducts[] = "p = MatMul(x, w) T=float\nq = MatMul(h, u) T=float\n";
  for (const char* sum : {
           "s = AddV2(p, q) T=float\nt = AddV2(s, b) T=float\n",
           "s = AddV2(p, q) T=float\nt = AddV2(b, s) T=float\n",
           "s = BiasAdd(p, b) T=float\nt = AddV2(s, q) T=float\n",
           "s = AddV2(q, b) T=float\nt = AddV2(p, s) T=float\n",
       }) {
    EXPECT_EQ(After(absl::StrCat(kProducts, sum, split), {"y:0"}, unknown), lstm) << sum;
  }
  EXPECT_THAT(After("p = MatMul(x, w) T=float\nt = BiasAdd(p, b) T=float\n"
                    "one = Const int32[] -1\ny = Split(one, t) num_split=2 T=float",
                    {"y:0"}, unknown),
              HasSubstr("y = _GateMatMul(x:0, w, b) N=1 num_parts=2\n"));
  EXPECT_THAT(
      After(absl::StrCat(kSum, "y = Tanh(t) T=float\nz = Neg(s) T=float"), {"y:0", "z:0"}, unknown),
      Not(HasSubstr("_GateMatMul")))
      << "the sum has another reader";
  EXPECT_THAT(After(absl::StrCat(kProducts,
                                 "s = AddV2(p, q) T=float\nc = Const float[64,1] ones\n"
                                 "o = MatMul(s, c) T=float\nt = AddV2(s, o) T=float\n"
                                 "y = AddV2(t, b) T=float"),
                    {"y:0"}, unknown),
              Not(HasSubstr("_GateMatMul")));
}

TEST_F(FuseGatesTest, WhatHasNoBiasFewRowsOrNoWeightsStays) {
  EXPECT_THAT(After("p = MatMul(x, w) T=float\nq = MatMul(h, u) T=float\n"
                    "y = AddV2(p, q) T=float"),
              Not(HasSubstr("_GateMatMul")));
  const std::string tanh = absl::StrCat(kSum, "y = Tanh(t) T=float\n");
  EXPECT_THAT(After(tanh, {"y:0"}, Shape({2})), Not(HasSubstr("_GateMatMul")));
  EXPECT_THAT(After("p = MatMul(x, w) T=float\nv = Tanh(u) T=float\nq = MatMul(h, v) T=float\n"
                    "s = AddV2(p, q) T=float\nt = BiasAdd(s, b) T=float\ny = Tanh(t) T=float"),
              HasSubstr("_GateMatMul"))
      << "what follows from variables alone is weights";
  EXPECT_THAT(After("a = Const int32[2] 0 1\nm = Max(x, a) T=float Tidx=int32\n"
                    "v = Mul(w, m) T=float\np = MatMul(x, v) T=float\n"
                    "t = BiasAdd(p, b) T=float\none = Const int32[] 1\n"
                    "y = Split(one, t) num_split=2 T=float"),
              Not(HasSubstr("_GateMatMul")));
}

std::vector<float> Values(int64_t n, uint32_t state) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

// By panels, by none because parts are cut otherwise or rows are few, of more than two products,
// and where one product has a single row.
TEST(GateMatMulTest, AddsProductsAndCutsThem) {
  struct Case {
    int64_t m, part;
    int parts;
    std::vector<int64_t> depths;
    size_t of_one_row = 3;
  };
  KernelRunner run;
  for (const Case& c :
       {Case{5, 16, 4, {8, 12}}, Case{40, 32, 1, {20}}, Case{3, 5, 3, {7, 9}},
        Case{6, 16, 2, {4, 30, 8}}, Case{0, 16, 2, {4, 5}}, Case{2, 16, 4, {8, 12}},
        Case{5, 16, 2, {8, 12}, 0}, Case{5, 16, 2, {8, 12}, 1}, Case{0, 16, 2, {8, 12}, 0}}) {
    const int64_t n = c.part * c.parts;
    std::vector<Tensor> inputs;
    std::vector<std::vector<float>> a, b;
    for (size_t i = 0; i < c.depths.size(); ++i) {
      const int64_t rows = i == c.of_one_row ? 1 : c.m;
      a.push_back(Values(rows * c.depths[i], 1 + static_cast<uint32_t>(i)));
      inputs.push_back(TensorOf<float>(Shape({rows, c.depths[i]}), a.back()));
    }
    for (size_t i = 0; i < c.depths.size(); ++i) {
      b.push_back(Values(c.depths[i] * n, 11 + static_cast<uint32_t>(i)));
      inputs.push_back(TensorOf<float>(Shape({c.depths[i], n}), b.back()));
    }
    const std::vector<float> bias = Values(n, 21);
    inputs.push_back(TensorOf<float>(Shape({n}), bias));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                         run.Op("_GateMatMul",
                                {{"T", DType::kFloat},
                                 {"N", static_cast<int64_t>(c.depths.size())},
                                 {"num_parts", int64_t{c.parts}}},
                                inputs));
    ASSERT_EQ(got.size(), static_cast<size_t>(c.parts));
    for (int64_t j = 0; j < n; ++j) {
      const Tensor& part = got[static_cast<size_t>(j / c.part)];
      EXPECT_EQ(part.shape(), Shape({c.m, c.part}));
      for (int64_t r = 0; r < c.m; ++r) {
        double want = bias[j];
        for (size_t i = 0; i < a.size(); ++i) {
          const int64_t k = c.depths[i], row = i == c.of_one_row ? 0 : r;
          for (int64_t p = 0; p < k; ++p) {
            want += double{a[i][row * k + p]} * double{b[i][p * n + j]};
          }
        }
        ASSERT_NEAR(part.data<float>()[r * c.part + j % c.part], want, 2e-5);
      }
    }
  }
}

TEST(GateMatMulTest, RefusesWhatDoesNotFit) {
  KernelRunner run;
  auto status = [&run](std::vector<Shape> shapes, int64_t parts) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) {
      inputs.push_back(TensorOf<float>(shape, Values(shape.num_elements(), 1)));
    }
    return run
        .Op("_GateMatMul",
            {{"T", DType::kFloat},
             {"N", static_cast<int64_t>(shapes.size() / 2)},
             {"num_parts", parts}},
            inputs)
        .status();
  };
  EXPECT_OK(status({Shape({2, 3}), Shape({3, 4}), Shape({4})}, 2));
  const auto invalid = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status({Shape({2, 3}), Shape({3, 4}), Shape({4})}, 3), invalid);
  EXPECT_THAT(status({Shape({2, 3}), Shape({3, 4}), Shape({5})}, 1), invalid);
  EXPECT_THAT(status({Shape({2, 3}), Shape({4, 4}), Shape({4})}, 1), invalid);
  EXPECT_THAT(status({Shape({2, 3}), Shape({3, 4}), Shape({4, 1})}, 1), invalid);
  EXPECT_THAT(status({Shape({2, 3}), Shape({4, 3}), Shape({3, 4}), Shape({3, 4}), Shape({4})}, 1),
              invalid);
}

}  // namespace
}  // namespace formwork::testing
