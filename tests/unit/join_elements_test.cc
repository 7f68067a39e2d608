// What parts elementwise nodes: sums of few, and what is copied to their shape.

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/graph/passes/pipeline.h"
#include "core/kernels/widen.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFeeds[] = R"(
  x = Placeholder dtype=float
  y = Placeholder dtype=float
  m = Placeholder dtype=float
  c = Placeholder dtype=float
  times = Const int32[3] 2 5 1
  full = Const int32[3] 2 5 3
  two = Const float[] 2
)";
const Shape kFull({2, 5, 3});

// The nodes that are left of a text over x and y of shape [2,5,3], m of [1,1,3] and c of [3], of
// which z is fetched.
std::string After(absl::string_view text, PartialShape of_x = kFull,
                  const KernelRegistry* device = nullptr) {
  GraphWorld world;
  Feeds feeds;
  for (const char* name : {"x:0", "y:0", "m:0", "c:0"}) feeds.emplace_back(name, DType::kFloat);
  const ImportedGraph imported = *world.Import(absl::StrCat(kFeeds, text), feeds, {"z:0"});
  Graph graph = *imported.graph;
  PassBudget budget;
  const PassContext context{imported.library, world.ops, world.kernels,
                            world.allocator,  budget,    device};
  EXPECT_OK(RunPasses(graph, {of_x, kFull, Shape({1, 1, 3}), Shape({3})}, context));
  std::string text_of_all = ToText(graph);
  for (const Node& node : graph.nodes) {
    for (const Graph& body : node.bodies) absl::StrAppend(&text_of_all, ToText(body));
  }
  std::string left;
  for (const absl::string_view line : absl::StrSplit(text_of_all, '\n', absl::SkipEmpty())) {
    if (!absl::StrContains(line, " = Arg ") && !absl::StrContains(line, " = Const ")) {
      absl::StrAppend(&left, line, "\n");
    }
  }
  return left;
}

TEST(JoinElementsTest, ASumOfFewIsSumsOfTwo) {
  EXPECT_EQ(After("z = AddN(x, y) N=2 T=float"), "z = AddV2(x:0, y:0)\n-> z\n");
  const std::string four =
      "a = Neg(x) T=float\nb = Exp(y) T=float\nz = AddN(a, b, x, a) N=4 T=float";
  EXPECT_EQ(After(four),
            "a = Neg(x:0)\n"
            "b = Exp(y:0)\n"
            "z = AddV2(a, b)\n"
            "z = AddV2(z, x:0)\n"
            "z = AddV2(z, a)\n"
            "-> z\n");
  const std::string more = "a = Neg(x) T=float\nz = AddN(a, a, a, a, a) N=5 T=float";
  EXPECT_EQ(After(more), "a = Neg(x:0)\nz = AddN(a, a, a, a, a) N=5\n-> z\n");
  const std::string one = "z = AddN(x) N=1 T=float";
  EXPECT_THAT(After(one), HasSubstr("AddN("));
}

// Where a term may be of another shape it is to be refused, not broadcast.
TEST(JoinElementsTest, ASumOfWhatIsNotKnownStays) {
  EXPECT_THAT(After("z = AddN(x, y) N=2 T=float", PartialShape::Trusted({2, -1, 3})),
              HasSubstr("AddN("));
  EXPECT_THAT(After("z = AddN(x, m) N=2 T=float"), HasSubstr("AddN("));
}

// They may be lanes.
TEST(JoinElementsTest, ASumOfWhatIsNoElementsStaysOnTheCpu) {
  const GraphWorld world;
  const KernelRegistry device(world.ops);
  const std::string three = "a = Neg(x) T=float\nz = AddN(x, y, a) N=3 T=float";
  EXPECT_THAT(After(three), HasSubstr("AddN("));
  EXPECT_EQ(After(three, kFull, &device),
            "a = Neg(x:0)\nz = AddV2(x:0, y:0)\nz = AddV2(z, a)\n-> z\n");
}

TEST(JoinElementsTest, OfADevicesSumsThoseOfFloatsAre) {
  const GraphWorld world;
  const KernelRegistry device(world.ops);
  EXPECT_THAT(After("z = AddN(x, y) N=2 T=float", kFull, &device), HasSubstr("AddV2("));
  const std::string integers =
      "i = Cast(x) SrcT=float DstT=int32\nj = Cast(y) SrcT=float DstT=int32\n"
      "z = AddN(i, j) N=2 T=int32";
  EXPECT_THAT(After(integers, kFull, &device), HasSubstr("AddN("));
  EXPECT_THAT(After(integers), HasSubstr("AddV2("));
}

TEST(JoinElementsTest, ADevicesSumWithBiasesIsOneThatBroadcasts) {
  const GraphWorld world;
  const KernelRegistry device(world.ops);
  const std::string sum = "z = BiasAdd(x, c) T=float";
  EXPECT_EQ(After(sum, kFull, &device), "z = AddV2(x:0, c:0)\n-> z\n");
  EXPECT_EQ(After(sum), "z = BiasAdd(x:0, c:0)\n-> z\n");
  EXPECT_THAT(After(sum, PartialShape::OfRank(3), &device), HasSubstr("BiasAdd("));
  EXPECT_THAT(After("p = Const int32[3] 0 2 1\nt = Transpose(x, p) T=float Tperm=int32\n"
                    "z = BiasAdd(t, c) T=float data_format=\"NCHW\"",
                    kFull, &device),
              HasSubstr("BiasAdd("));
}

TEST(JoinElementsTest, WhatIsCopiedToTheOthersShapeIsReadAsItIs) {
  const std::string read = "z = Mul(m:0, x:0)\n-> z\n";
  EXPECT_EQ(After("t = Tile(m, times) T=float Tmultiples=int32\nz = Mul(t, x) T=float"), read);
  EXPECT_EQ(After("t = BroadcastTo(m, full) T=float Tidx=int32\nz = Mul(t, x) T=float"), read);
  EXPECT_EQ(After("t = BroadcastTo(c, full) T=float Tidx=int32\nz = Sub(x, t) T=float"),
            "z = Sub(x:0, c:0)\n-> z\n");
  EXPECT_EQ(After("t = Tile(m, times) T=float Tmultiples=int32\na = Neg(y) T=float\n"
                  "z = AddN(x, t, a) N=3 T=float"),
            "a = Neg(y:0)\nz = AddV2(x:0, m:0)\nz = AddV2(z, a)\n-> z\n");
  EXPECT_EQ(After("t = Tile(m, times) T=float Tmultiples=int32\np = Less(x, y) T=float\n"
                  "z = SelectV2(p, x, t) T=float"),
            "p = Less(x:0, y:0)\nz = SelectV2(p, x:0, m:0)\n-> z\n");
}

// As in the gradient of a mean.
TEST(JoinElementsTest, WhatIsMadeOfACopyIsCopiedWhereItIsNeeded) {
  const std::string copy = "t = Tile(m, times) T=float Tmultiples=int32\n";
  EXPECT_EQ(After(copy + "d = RealDiv(t, two) T=float\nz = Mul(d, x) T=float"),
            "d = RealDiv(m:0, two)\nz = Mul(d, x:0)\n-> z\n");
  EXPECT_EQ(After(copy + "d = RealDiv(t, c) T=float\nz = Neg(d) T=float"),
            "d = RealDiv(m:0, c:0)\nz = Neg(d)\nz = Tile(z, times)\n-> z\n");
  EXPECT_EQ(After(copy + "z = Cast(t) SrcT=float DstT=half"),
            "z = Cast(m:0)\nz = Tile(z, times)\n-> z\n");
  EXPECT_EQ(After(copy + "n = Neg(m) T=float\nu = Tile(n, times) T=float Tmultiples=int32\n"
                         "z = Mul(t, u) T=float"),
            "n = Neg(m:0)\nz = Mul(m:0, n)\nz = Tile(z, times)\n-> z\n");
  // Each reader by itself.
  EXPECT_EQ(After(copy + "a = Mul(t, x) T=float\nb = ReluGrad(t, a) T=float\n"
                         "z = Sub(b, t) T=float"),
            "t = Tile(m:0, times)\na = Mul(m:0, x:0)\nb = ReluGrad(t, a)\nz = Sub(b, m:0)\n"
            "-> z\n");
}

TEST(JoinElementsTest, WhatIsMadeOfCopiesOfConstantsIsConstant) {
  const std::string fill =
      "sizes = Const int32[1] 100000000\none = Const float[] 1\n"
      "f = Fill(sizes, one) T=float index_type=int32\n";
  EXPECT_EQ(After(fill + "z = AddV2(f, two) T=float"), "z = Fill(sizes, z)\n-> z\n");
  EXPECT_EQ(After("f = Fill(full, s) T=float index_type=int32\n"
                  "a = Const int32[3] 0 1 2\n"
                  "s = Sum(x, a) T=float Tidx=int32\nz = Mul(f, y) T=float"),
            "s = Sum(x:0, a)\nz = Mul(s, y:0)\n-> z\n");
}

TEST(JoinElementsTest, WhatDoesNotBroadcastNeedsTheCopy) {
  const std::string copy = "t = Tile(m, times) T=float Tmultiples=int32\n";
  for (const char* node : {"z = ReluGrad(t, x) T=float", "z = ReluGrad(x, t) T=float",
                           "z = ClipByValue(t, x, y) T=float",
                           "p = Less(x, y) T=float\nz = Select(p, t, x) T=float"}) {
    EXPECT_THAT(After(copy + node), HasSubstr("Tile(m:0, times)")) << node;
  }
  // Without it the result would be of another shape, which is no operand's.
  EXPECT_THAT(After("r = Const int32[3] 0 1 1\nb = Const int32[3] 2 1 3\n"
                    "s = Slice(x, r, b) T=float Index=int32\n" +
                    copy + "z = Mul(t, s) T=float"),
              HasSubstr("Tile("));
}

TEST(JoinElementsTest, RepeatedDimensionsNeedTheCopy) {
  EXPECT_EQ(After("twice = Const int32[3] 1 2 1\n"
                  "t = Tile(x, twice) T=float Tmultiples=int32\nz = Neg(t) T=float"),
            "t = Tile(x:0, twice)\nz = Neg(t)\n-> z\n");
}

TEST(JoinElementsTest, WhatIsNotKnownNeedsTheCopy) {
  EXPECT_THAT(After("t = Tile(m, times) T=float Tmultiples=int32\nz = Mul(t, x) T=float",
                    PartialShape::Trusted({2, -1, 3})),
              HasSubstr("Tile("));
  EXPECT_THAT(After("s = Shape(x) T=float\nt = BroadcastTo(m, s) T=float Tidx=int32\n"
                    "z = Mul(t, x) T=float",
                    PartialShape::OfRank(3)),
              HasSubstr("BroadcastTo("));
}

TEST(JoinElementsTest, BodiesAreJoinedToo) {
  const std::string text = R"(
    nought = Const float[] 0
    all = Const int32[3] 0 1 2
    s = Sum(x, all) T=float Tidx=int32
    p = Greater(s, nought) T=float
    z = StatelessIf(p, x, y) Tcond=bool Tin=[float,float] Tout=[float] then_branch=@sum else_branch=@first
    function sum(a: float, b: float) -> (r: float = n:sum:0)
      n = AddN(a, b) N=2 T=float
    end
    function first(a: float, b: float) -> (r: float = a)
    end
  )";
  EXPECT_THAT(After(text), AllOf(HasSubstr("AddV2("), Not(HasSubstr("AddN("))));
}

// What is known of the shapes decides whether nodes are joined, and nothing of the result.
class JoinedBitsTest : public PlanFixture, public ::testing::WithParamInterface<DType> {};

TEST_P(JoinedBitsTest, AreThoseOfTheNodesAsTheyCame) {
  const Shape shape({3, 7, 5});
  const std::string text = absl::StrCat("T=", DTypeName(GetParam()), "\n");
  Tensor terms[3];
  for (int k = 0; k < 3; ++k) {
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    uint32_t seed = 11 + static_cast<uint32_t>(k);
    for (float& value : values) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-28f;
    }
    terms[k] = *Tensor::Allocate(ProcessAllocator(), GetParam(), shape);
    NarrowTo(GetParam(), values.data(), shape.num_elements(), terms[k].mutable_raw());
  }
  std::string graph;
  for (const char* name : {"x", "y", "w"}) {
    absl::StrAppend(&graph, name, " = Placeholder dtype=", DTypeName(GetParam()), "\n");
  }
  absl::StrAppend(&graph, R"(
    axes = Const int32[2] 0 1
    times = Const int32[3] 3 7 1
  )",
                  "s = Mean(x, axes) Tidx=int32 keep_dims=true ", text,
                  "t = Tile(s, times) Tmultiples=int32 ", text, "d = RealDiv(t, x) ", text,
                  "e = Square(t) ", text, "f = Mul(e, y) ", text, "g = AddN(d, f, w, t) N=4 ", text,
                  "h = AddN(g, e) N=2 ", text);
  std::vector<std::vector<Tensor>> results;
  for (const PartialShape& known : {PartialShape(shape), PartialShape()}) {
    Make(graph, {{"x:0", GetParam()}, {"y:0", GetParam()}, {"w:0", GetParam()}},
         {"g:0", "h:0", "e:0"}, known);
    ASSERT_OK_AND_ASSIGN(results.emplace_back(), Run(Owned(terms[0], terms[1], terms[2])));
    EXPECT_EQ(absl::StrContains(Text(), "AddN("), !known.known_rank());
  }
  for (size_t k = 0; k < results[0].size(); ++k) {
    ASSERT_EQ(results[0][k].shape(), results[1][k].shape());
    EXPECT_EQ(std::memcmp(results[0][k].raw(), results[1][k].raw(), results[0][k].bytes()), 0) << k;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, JoinedBitsTest,
                         ::testing::Values(DType::kFloat, DType::kHalf, DType::kBfloat16));

}  // namespace
}  // namespace formwork::testing
