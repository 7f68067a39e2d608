// Loops and branches of older graphs as While and If.

#include "core/graph/lower_control_flow.h"

#include <algorithm>

#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class LowerControlFlowTest : public ::testing::Test {
 protected:
  // The main graph, and behind it the functions that were made.
  std::string Imported(absl::string_view text, std::vector<std::pair<std::string, DType>> feeds,
                       std::vector<std::string> fetches, std::vector<std::string> targets = {}) {
    const absl::StatusOr<ImportedGraph> imported =
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets));
    if (!imported.ok()) return imported.status().ToString();
    std::string all = ToText(*imported->graph);
    std::vector<std::string> names = imported->order;
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      absl::StrAppend(&all, name, ":\n", ToText(*imported->library.at(name)));
    }
    return all;
  }
  GraphWorld world_;
  const std::vector<std::pair<std::string, DType>> feeds_ = {{"x", DType::kFloat},
                                                             {"p", DType::kBool}};
  const std::string inputs_ = "x = Placeholder dtype=float\np = Placeholder dtype=bool\n";
};

TEST_F(LowerControlFlowTest, MergesOfOnePredicateAreOneIf) {
  EXPECT_EQ(
      Imported(inputs_ + R"(
    sp = Switch(p, p) T=bool
    t = Identity(sp:1) T=bool
    id = Identity(p) T=bool
    sx = Switch(x, id) T=float
    one = Const(^t) float[] 1
    a = AddV2(sx:1, one) T=float
    b = Neg(sx) T=float
    m = Merge(b, a) T=float N=2
    n = Merge(sx, one) T=float N=2
    y = Sub(m, n) T=float
  )",
               feeds_, {"y"}),
      "x = Arg float32\n"
      "p = Arg bool\n"
      "m#branch = StatelessIf(p, x, p) then_branch=@m#branch#then else_branch=@m#branch#else\n"
      "m = Identity(m#branch)\n"
      "n = Identity(m#branch:1)\n"
      "y = Sub(m, n)\n"
      "-> y\n"
      "m#branch#else:\n"
      "#0 = Arg float32\n"
      "#1 = Arg bool\n"
      "b = Neg(#0)\n"
      "-> b, #0\n"
      "m#branch#then:\n"
      "#0 = Arg float32\n"
      "#1 = Arg bool\n"
      "t = Identity(#1)\n"
      "one = Const float32[] 1\n"
      "a = AddV2(#0, one)\n"
      "-> a, one\n");
}

TEST_F(LowerControlFlowTest, WhatNeedsAMergeIsInAnIfBehindIt) {
  EXPECT_EQ(Imported(inputs_ + R"(
    s = Switch(x, p) T=float
    a = Neg(s:1) T=float
    m = Merge(s, a) T=float N=2
    z = Switch(m, p) T=float
    b = Exp(z) T=float
    n = Merge(b, z:1) T=float N=2
  )",
                     feeds_, {"n"}),
            "x = Arg float32\n"
            "p = Arg bool\n"
            "m#branch = StatelessIf(p, x) then_branch=@m#branch#then else_branch=@m#branch#else\n"
            "m = Identity(m#branch)\n"
            "n#branch = StatelessIf(p, m) then_branch=@n#branch#then else_branch=@n#branch#else\n"
            "n = Identity(n#branch)\n"
            "-> n\n"
            "m#branch#else:\n"
            "#0 = Arg float32\n"
            "-> #0\n"
            "m#branch#then:\n"
            "#0 = Arg float32\n"
            "a = Neg(#0)\n"
            "-> a\n"
            "n#branch#else:\n"
            "#0 = Arg float32\n"
            "b = Exp(#0)\n"
            "-> b\n"
            "n#branch#then:\n"
            "#0 = Arg float32\n"
            "-> #0\n");
}

TEST_F(LowerControlFlowTest, EffectsOfABranchRunWhereTheBranchDoes) {
  EXPECT_EQ(Imported(inputs_ + R"(
    v = VarHandleOp dtype=float shape=shape:[] shared_name="v"
    sv = Switch(v, p) T=resource
    sx = Switch(x, p) T=float
    a = AssignVariableOp(sv:1, sx:1) dtype=float
    b = AssignVariableOp(sv, sx) dtype=float
  )",
                     feeds_, {}, {"a", "b"}),
            "x = Arg float32\n"
            "p = Arg bool\n"
            "v = VarHandleOp shared_name=\"v\" shape=[]\n"
            "b#branch = If(p, v, x) then_branch=@b#branch#then else_branch=@b#branch#else\n"
            "-> \n"
            "b#branch#else:\n"
            "#0 = Arg resource\n"
            "#1 = Arg float32\n"
            "b = AssignVariableOp(#0, #1)\n"
            "-> \n"
            "b#branch#then:\n"
            "#0 = Arg resource\n"
            "#1 = Arg float32\n"
            "a = AssignVariableOp(#0, #1)\n"
            "-> \n");
}

TEST_F(LowerControlFlowTest, ALoopTakesItsVariablesAndWhatItSeesAroundIt) {
  EXPECT_EQ(Imported(inputs_ + R"(
    zero = Const int32[] 0
    i0 = Enter(zero) T=int32 frame_name="l"
    a0 = Enter(x) T=float frame_name="l"
    i = Merge(i0, ni) T=int32 N=2
    a = Merge(a0, na) T=float N=2
    ten = Const(^i) int32[] 10
    less = Less(i, ten) T=int32
    c = LoopCond(less)
    si = Switch(i, c) T=int32
    sa = Switch(a, c) T=float
    one = Const(^si) int32[] 1
    i1 = AddV2(si:1, one) T=int32
    k = Enter(x) T=float frame_name="l" is_constant=true
    a1 = Mul(sa:1, k) T=float
    ni = NextIteration(i1) T=int32
    na = NextIteration(a1) T=float
    y = Exit(sa) T=float
  )",
                     feeds_, {"y"}),
            "x = Arg float32\n"
            "p = Arg bool\n"
            "zero = Const int32[] 0\n"
            "c#loop = StatelessWhile(zero, x, x) cond=@c#cond body=@c#body\n"
            "y = Identity(c#loop:1)\n"
            "-> y\n"
            "c#body:\n"
            "#0 = Arg int32\n"
            "#1 = Arg float32\n"
            "#2 = Arg float32\n"
            "one = Const int32[] 1\n"
            "i1 = AddV2(#0, one)\n"
            "a1 = Mul(#1, #2)\n"
            "-> i1, a1, #2\n"
            "c#cond:\n"
            "#0 = Arg int32\n"
            "#1 = Arg float32\n"
            "#2 = Arg float32\n"
            "ten = Const int32[] 10\n"
            "less = Less(#0, ten)\n"
            "-> less\n");
}

TEST_F(LowerControlFlowTest, NamesOfFunctionsThatAreThereAreNotTaken) {
  const std::string text = Imported(inputs_ + R"(
    s = Switch(x, p) T=float
    a = Neg(s:1) T=float
    m = Merge(s, a) T=float N=2
    function m#branch#then(a: float) -> (r: float = n:y:0)
      n = Neg(a) T=float
  )",
                                    feeds_, {"m"});
  EXPECT_THAT(text, HasSubstr("then_branch=@m#branch#then_1"));
}

TEST_F(LowerControlFlowTest, OutputsThatAreNotThereAreRefused) {
  for (const std::string output : {"-1", "2", "99999999999", "-2147483648"}) {
    const std::string nodes =
        absl::StrCat(inputs_, "s = Switch(x, p) T=float\n", "a = Assert(p, s:", output,
                     ") T=[float]\n", "b = Assert(p, t:", output, ") T=[float]\n",
                     "zero = Const int32[] 0\n", "t = TensorArrayV3(zero) dtype=float\n");
    for (const char* const target : {"a", "b"}) {
      EXPECT_THAT(world_.Import(nodes, feeds_, {}, {target}).status(),
                  StatusIs(StatusCode::kInvalidArgument))
          << target << " " << output;
    }
  }
}

TEST_F(LowerControlFlowTest, NamesOfWhatIsMadeMayBeInUse) {
  const std::string loop = absl::StrCat(inputs_, R"(
    e = Enter(x) T=float frame_name="l"
    m = Merge(e, n) T=float N=2
    less = Less(m, m) T=float
    c = LoopCond(less)
    s = Switch(m, c) T=float
    c#loop = Neg(s:1) T=float
    n = NextIteration(c#loop) T=float
    y = Exit(s) T=float
  )");
  EXPECT_THAT(Imported(loop, feeds_, {"y"}, {"c#loop", "n", "less"}),
              HasSubstr("c#loop = StatelessWhile(x) cond=@c#cond body=@c#body\n"));
}

TEST_F(LowerControlFlowTest, ATensorArrayIsAList) {
  EXPECT_EQ(Imported(inputs_ + R"(
    two = Const int32[] 2
    zero = Const int32[] 0
    t = TensorArrayV3(two) dtype=float element_shape=shape:[] dynamic_size=true
    w = TensorArrayWriteV3(t, zero, x, t:1) T=float
    f = Identity(w) T=float
    r = TensorArrayReadV3(t, zero, f) dtype=float
    n = TensorArraySizeV3(t, f)
    c = TensorArrayCloseV3(t, ^r)
  )",
                     feeds_, {"r", "n"}, {"c"}),
            "x = Arg float32\n"
            "p = Arg bool\n"
            "two = Const int32[] 2\n"
            "zero = Const int32[] 0\n"
            "t#shape = Const int32[0] \n"
            "t = TensorListReserve(t#shape, two)\n"
            "w = TensorListSetItem(t, zero, x) resize_if_index_out_of_bounds=true\n"
            "f = Identity(w)\n"
            "n = TensorListLength(f)\n"
            "r#shape = Const int32[0] \n"
            "r = TensorListGetItem(f, zero, r#shape)\n"
            "c = NoOp\n"
            "-> r, n\n");
}

TEST_F(LowerControlFlowTest, WhatIsNoBranchOrLoopIsRefusedByName) {
  const auto refused = [&](absl::string_view nodes, StatusCode code, absl::string_view text) {
    EXPECT_THAT(world_.Import(absl::StrCat(inputs_, nodes), feeds_, {"y"}).status(),
                StatusIs(code, HasSubstr(std::string(text))))
        << nodes;
  };
  refused("y = Merge(x, x) T=float N=2", StatusCode::kUnimplemented, "node 'y': Merge: its inputs");
  refused("s = Switch(x, p) T=float\ny = Merge(s, s:1, s) T=float N=3", StatusCode::kUnimplemented,
          "node 'y': Merge: its inputs");
  refused("s = Switch(x, p)\ny = Merge(s, s:1) T=float N=2", StatusCode::kInvalidArgument,
          "node 's': Switch: attr 'T' is missing");
  refused("y = Exit(x) T=float", StatusCode::kInvalidArgument,
          "node 'y': Exit: it stands in no loop");
  refused("e = Enter(x) T=float frame_name=\"l\"\ny = Exit(e) T=float",
          StatusCode::kInvalidArgument, "node 'e': Enter: it leads into a loop without LoopCond");
}

}  // namespace
}  // namespace formwork::testing
