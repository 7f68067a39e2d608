// What Simplify learns of shapes beyond the shape functions: from sizes that are computed, of
// lists' items, and through loops and branches. TensorFlow's shapes of real graphs:
// tests/python/test_function.py.

#include "core/graph/passes/pipeline.h"
#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;

class InferredShapesTest : public ::testing::Test {
 protected:
  // Of a text over x, of which y is fetched.
  Graph Simplified(absl::string_view text, PartialShape x, DType dtype = DType::kFloat) {
    const char* const type = dtype == DType::kVariant ? "variant" : "float";
    absl::StatusOr<ImportedGraph> imported = world_.Import(
        absl::StrCat("x = Placeholder dtype=", type, "\n", text), {{"x:0", dtype}}, {"y:0"});
    EXPECT_OK(imported.status());
    if (!imported.ok()) return {};
    Graph graph = *imported->graph;
    PassBudget budget;
    const PassContext context{imported->library, world_.ops, world_.kernels, world_.allocator,
                              budget};
    InlineCalls(graph, context);
    EXPECT_OK(Simplify(graph, {std::move(x)}, context));
    return graph;
  }
  std::string ShapeOf(absl::string_view text, PartialShape x, DType dtype = DType::kFloat) {
    const Graph graph = Simplified(text, std::move(x), dtype);
    return graph.results.empty() ? "" : graph.shape(graph.results[0]).ToString();
  }
  GraphWorld world_;
};

PartialShape S(std::initializer_list<int64_t> dims) { return PartialShape::Trusted(dims); }

// n: the first dimension of x; m: the second.
constexpr char kDims[] = R"(
  s = Shape(x) T=float out_type=int32
  zero = Const int32[1] 0
  one = Const int32[1] 1
  two = Const int32[1] 2
  n = StridedSlice(s, zero, one, one) T=int32 Index=int32 shrink_axis_mask=1
  m = StridedSlice(s, one, two, one) T=int32 Index=int32 shrink_axis_mask=1
  k = Const int32[] 24
  v = Const float[] 1
)";

TEST_F(InferredShapesTest, SizesThatAreComputedAreKnownAsFarAsDimensionsAre) {
  const auto shape = [&](absl::string_view text, PartialShape x) {
    return ShapeOf(absl::StrCat(kDims, text), std::move(x));
  };
  const char kReshape[] = "p = Pack(n, k) N=2 T=int32\ny = Reshape(x, p) T=float Tshape=int32";
  EXPECT_EQ(shape(kReshape, S({-1, 4, 6})), "[?,24]");
  EXPECT_EQ(shape(kReshape, S({2, 4, -1})), "[2,24]");
  EXPECT_EQ(shape(kReshape, PartialShape()), "[?,24]");
  const char kFill[] = "p = Pack(m, n, k) N=3 T=int32\ny = Fill(p, v) T=float index_type=int32";
  EXPECT_EQ(shape(kFill, S({-1, 4, 6})), "[4,?,24]");
  const char kJoined[] =
      "t = StridedSlice(s, one, zero, one) T=int32 Index=int32 end_mask=1\n"
      "a = Const int32[] 0\nj = ConcatV2(t, two, a) N=2 T=int32 Tidx=int32\n"
      "w = Cast(j) SrcT=int32 DstT=int64\ny = BroadcastTo(v, w) T=float Tidx=int64";
  EXPECT_EQ(shape(kJoined, S({-1, 4, -1})), "[4,?,2]");
  EXPECT_EQ(
      shape("q = Pack(k, m) N=2 T=int32\ny = Tile(x, q) T=float Tmultiples=int32", S({-1, 4})),
      "[?,16]");
}

TEST_F(InferredShapesTest, ADimensionThatIsKnownIsAConstant) {
  const std::string text = absl::StrCat(kDims, "y = AddV2(m, k) T=int32");
  EXPECT_THAT(ToText(Simplified(text, S({-1, 4, -1}))), HasSubstr("Const int32[] 28\n-> y"));
  EXPECT_THAT(ToText(Simplified(text, S({4, -1, 4}))), HasSubstr("AddV2(m, k)"));
}

TEST_F(InferredShapesTest, TheSizeBesideAZeroIsNotKnown) {
  const char kReshape[] =
      "z = Const int32[] 0\np = Pack(n, z) N=2 T=int32\ny = Reshape(x, p) T=float Tshape=int32";
  EXPECT_EQ(ShapeOf(absl::StrCat(kDims, kReshape), S({-1, 0})), "[?,0]");
}

constexpr char kLoop[] = R"(
  function cond(i: int32, l: variant) -> (r: bool = g:z:0)
    n = Const int32[] 3
    g = Less(i, n) T=int32
  end
  function body(i: int32, l: variant) -> (j: int32 = a:z:0, m: variant = p:output_handle:0)
    one = Const int32[] 1
    a = AddV2(i, one) T=int32
    t = Const float[5] 1 2 3 4 5
    p = TensorListPushBack(l, t) element_dtype=float
  end
)";

TEST_F(InferredShapesTest, AListsItemsAreKnownBehindALoop) {
  const auto popped = [&](absl::string_view shape) {
    return ShapeOf(
        absl::StrCat("i = Const int32[] 0\nany = Const int32[] -1\nshape = Const ", shape,
                     "\nl = EmptyTensorList(shape, any) element_dtype=float "
                     "shape_type=int32\n"
                     "w = StatelessWhile(i, l) T=[int32, variant] cond=@cond body=@body\n"
                     "q = TensorListPopBack(w:1, any) element_dtype=float\n"
                     "y = Neg(q:1) T=float",
                     kLoop),
        S({}));
  };
  EXPECT_EQ(popped("int32[1] 5"), "[5]");
  EXPECT_EQ(popped("int32[1] -1"), "[?]");
  EXPECT_EQ(popped("int32[] -1"), "<unknown>");
}

TEST_F(InferredShapesTest, TheShapesThatTracingRecordsOfALoopsVariablesAreKnown) {
  const char kItems[] = R"(
    i = Const int32[] 0
    v = Const float[2] 1 2
    w = StatelessWhile(i, v, x) T=[int32, float, variant] cond=@cond body=@body output_shapes=[shape:[], shape:[2], shape:[]]
    y = Neg(w:1) T=float
    function cond(i: int32, v: float, l: variant) -> (r: bool = g:z:0)
      n = Const int32[] 3
      g = Less(i, n) T=int32
    end
    function body(i: int32, v: float, l: variant) -> (j: int32 = a:z:0, u: float = t:item:0, m: variant = l)
      one = Const int32[] 1
      any = Const int32[] -1
      a = AddV2(i, one) T=int32
      t = TensorListGetItem(l, i, any) element_dtype=float
    end
  )";
  EXPECT_EQ(ShapeOf(kItems, S({}), DType::kVariant), "[2]");
}

}  // namespace
}  // namespace formwork::testing
