// When two graphs are the same.

#include "core/graph/fingerprint.h"

#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

class FingerprintTest : public ::testing::Test {
 protected:
  std::string Of(absl::string_view text, std::vector<std::string> fetches = {"y:0"},
                 std::vector<std::string> targets = {},
                 std::vector<std::pair<std::string, DType>> feeds = {{"x:0", DType::kFloat}}) {
    absl::StatusOr<ImportedGraph> imported =
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets));
    EXPECT_OK(imported);
    return imported.ok() ? Fingerprint(*imported) : "";
  }
  GraphWorld world_;
};

constexpr char kPlain[] = R"(
  x = Placeholder dtype=float
  c = Const float[2] 1 2
  m = AddV2(x, c) T=float
  y = Squeeze(m) T=float squeeze_dims=[0]
)";

TEST_F(FingerprintTest, NamesOfNodesAndWhatNobodyAsksForDoNotMatter) {
  const std::string plain = Of(kPlain);
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(Of(R"(
    a = Placeholder dtype=float
    unused = Neg(a) T=float
    b = Const float[2] 1 2
    d = AddV2(a, b) T=float _output_shapes=[shape:?] _hint="h"
    e = Squeeze(d) T=float squeeze_dims=[0]
  )",
               {"e:0"}, {}, {{"a:0", DType::kFloat}}),
            plain);
}

TEST_F(FingerprintTest, ADefaultThatIsSentIsTheSameAsOneThatIsNot) {
  EXPECT_EQ(Of("x = Placeholder dtype=float\ny = MatMul(x, x) T=float"),
            Of("x = Placeholder dtype=float\ny = MatMul(x, x) T=float transpose_a=false "
               "transpose_b=false"));
}

class DifferenceTest : public FingerprintTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(DifferenceTest, Matters) { EXPECT_NE(Of(GetParam()), Of(kPlain)); }

INSTANTIATE_TEST_SUITE_P(
    Graphs, DifferenceTest,
    ::testing::Values(
        "x = Placeholder dtype=float\nc = Const float[2] 1 3\nm = AddV2(x, c) T=float\n"
        "y = Squeeze(m) T=float squeeze_dims=[0]",
        "x = Placeholder dtype=float\nc = Const float[1,2] 1 2\nm = AddV2(x, c) T=float\n"
        "y = Squeeze(m) T=float squeeze_dims=[0]",
        "x = Placeholder dtype=float\nc = Const float[2] 1 2\nm = AddV2(c, x) T=float\n"
        "y = Squeeze(m) T=float squeeze_dims=[0]",
        "x = Placeholder dtype=float\nc = Const float[2] 1 2\nm = Mul(x, c) T=float\n"
        "y = Squeeze(m) T=float squeeze_dims=[0]",
        "x = Placeholder dtype=float\nc = Const float[2] 1 2\nm = AddV2(x, c) T=float\n"
        "y = Squeeze(m) T=float squeeze_dims=[1]",
        "x = Placeholder dtype=float\nc = Const float[2] 1 2\nm = AddV2(x, c) T=float\n"
        "y = Squeeze(m) T=float",
        "x = Placeholder dtype=float\nc = Const float[2] 1 2\nm = AddV2(x, c) T=float\n"
        "y = Identity(m) T=float"));

TEST_F(FingerprintTest, TheOrderOfResultsMatters) {
  EXPECT_NE(Of(kPlain, {"m:0", "y:0"}), Of(kPlain, {"y:0", "m:0"}));
}

TEST_F(FingerprintTest, WhatIsFedMatters) {
  EXPECT_NE(Of(kPlain, {"m:0"}),
            Of(kPlain, {"m:0"}, {}, {{"x:0", DType::kFloat}, {"c:0", DType::kFloat}}));
}

TEST_F(FingerprintTest, TheOrderOfEffectsMatters) {
  auto of = [&](absl::string_view first, absl::string_view second) {
    return Of(absl::StrCat("h = Placeholder dtype=resource\nc = Const float[] 1\n",
                           "a = AssignAddVariableOp(h, c", first, ") dtype=float\n",
                           "b = AssignVariableOp(h, c", second, ") dtype=float\n"),
              {}, {"a", "b"}, {{"h:0", DType::kResource}});
  };
  EXPECT_EQ(of("", ""), of("", ", ^a"));
  EXPECT_NE(of("", ", ^a"), of(", ^b", ""));
}

TEST_F(FingerprintTest, FunctionsCountByWhatTheyDo) {
  auto of = [&](absl::string_view name, absl::string_view op, absl::string_view argument) {
    return Of(absl::StrCat("x = Placeholder dtype=float\n", "y = PartitionedCall(x) f=@outer",
                           " Tin=[float] Tout=[float]\n",
                           "function outer(a: float) -> (r: float = c:output:0)\n",
                           "  c = PartitionedCall(a) f=@", name, " Tin=[float] Tout=[float]\nend\n",
                           "function ", name, "(", argument, ": float) -> (out: float = n:y:0)\n",
                           "  n = ", op, "(", argument, ") T=float\nend\n"));
  };
  EXPECT_EQ(of("f", "Neg", "a"), of("__inference_f_4711", "Neg", "b"));
  EXPECT_NE(of("f", "Neg", "a"), of("f", "Exp", "a"));
}

TEST_F(FingerprintTest, AVariableIsWhatItsNodeCallsIt) {
  auto of = [&](absl::string_view node, absl::string_view attrs) {
    return Of(absl::StrCat("x = Placeholder dtype=float\n", node,
                           " = VarHandleOp dtype=float shape=shape:[] ", attrs,
                           "\ny = ReadVariableOp(", node, ") dtype=float"));
  };
  EXPECT_NE(of("v", ""), of("w", ""));
  EXPECT_NE(of("v", "shared_name=\"a\""), of("v", "shared_name=\"b\""));
  EXPECT_NE(of("v", "shared_name=\"a\""), of("v", "shared_name=\"a\" container=\"c\""));
}

TEST_F(FingerprintTest, Sha256IsTheWellKnownOne) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace formwork::testing
