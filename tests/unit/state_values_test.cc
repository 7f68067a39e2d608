// Variables as values: which loads the passes drop, and which they must not.

#include "core/graph/passes/pipeline.h"
#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

class StateValuesTest : public ::testing::Test {
 protected:
  // What the passes leave of a graph over the variables v, w and n and the value x. `v_shape`: what
  // is known of v.
  std::string Passed(absl::string_view text, std::vector<std::string> fetches,
                     std::vector<std::string> targets, PartialShape v_shape = PartialShape()) {
    absl::StatusOr<ImportedGraph> imported = world_.Import(
        absl::StrCat("v = Placeholder dtype=resource\nw = Placeholder dtype=resource\n"
                     "n = Placeholder dtype=resource\nx = Placeholder dtype=float\n",
                     text),
        {{"v:0", DType::kResource},
         {"w:0", DType::kResource},
         {"n:0", DType::kResource},
         {"x:0", DType::kFloat}},
        std::move(fetches), std::move(targets));
    if (!imported.ok()) return imported.status().ToString();
    Graph graph = *imported->graph;
    PassBudget budget{.inlined = 1000};
    const PassContext context{imported->library, world_.ops, world_.kernels, world_.allocator,
                              budget};
    const absl::Status status =
        RunPasses(graph, {v_shape, PartialShape(), PartialShape(), PartialShape()}, context);
    if (!status.ok()) return status.ToString();
    const std::string all = ToText(graph);
    return all.substr(all.find("x:0 = Arg float32\n") + 18);
  }
  GraphWorld world_;
};

TEST_F(StateValuesTest, LoadsWithoutAStoreBetweenThemAreOne) {
  EXPECT_EQ(Passed(R"(
    a = ReadVariableOp(v) dtype=float
    b = ReadVariableOp(v, ^a) dtype=float
    p = Square(a) T=float
    q = Square(b) T=float
    y = AddV2(p, q) T=float
  )",
                   {"y:0"}, {}),
            "a = ReadVariableOp(v:0)\n"
            "p = Square(a)\n"
            "y = AddV2(p, p)\n"
            "-> y\n");
}

TEST_F(StateValuesTest, ALoadTakesWhatWasStored) {
  EXPECT_EQ(Passed(R"(
    s = AssignVariableOp(v, x) dtype=float
    a = ReadVariableOp(v, ^s) dtype=float
    y = Square(a) T=float
  )",
                   {"y:0"}, {"s"}),
            "s = AssignVariableOp(v:0, x:0)\n"
            "y = Square(x:0)\n"
            "-> y\n");
}

TEST_F(StateValuesTest, WhatTheVariableSaysOfItsShapeIsKept) {
  const char* text = R"(
    s = AssignVariableOp(v, x) dtype=float
    a = ReadVariableOp(v, ^s) dtype=float
    y = Shape(a) T=float
  )";
  EXPECT_EQ(Passed(text, {"y:0"}, {"s"}, PartialShape(Shape({2, 3}))),
            "s = AssignVariableOp(v:0, x:0)\n"
            "y = Const int32[2] 2 3\n"
            "-> y\n");
}

TEST_F(StateValuesTest, AStoreThroughAnotherHandleMayBeToTheSameVariable) {
  EXPECT_EQ(Passed(R"(
    a = ReadVariableOp(v) dtype=float
    s = AssignVariableOp(w, x, ^a) dtype=float
    b = ReadVariableOp(v, ^s) dtype=float
    y = AddV2(a, b) T=float
  )",
                   {"y:0"}, {"s"}),
            "a = ReadVariableOp(v:0)\n"
            "s = AssignVariableOp(w:0, x:0)\n"
            "b = ReadVariableOp(v:0)\n"
            "y = AddV2(a, b)\n"
            "-> y\n");
}

TEST_F(StateValuesTest, AStoreOfAnotherDTypeIsToAnotherVariable) {
  EXPECT_EQ(Passed(R"(
    a = ReadVariableOp(v) dtype=float
    one = Const int64[] 1
    s = AssignVariableOp(n, one, ^a) dtype=int64
    b = ReadVariableOp(v, ^s) dtype=float
    y = AddV2(a, b) T=float
  )",
                   {"y:0"}, {"s"}),
            "a = ReadVariableOp(v:0)\n"
            "one = Const int64[] 1\n"
            "s = AssignVariableOp(n:0, one)\n"
            "y = AddV2(a, a)\n"
            "-> y\n");
}

TEST_F(StateValuesTest, AnUpdateByWhatIsComputedByElementsIsAStoreOfTheSum) {
  const char* const kText = R"(
    a = ReadVariableOp(v) dtype=float
    d = Square(a) T=float
    s = AssignSubVariableOp(v, d) dtype=float
    b = ReadVariableOp(v, ^s) dtype=float
    y = Neg(b) T=float
  )";
  const PartialShape large(Shape({32, 32}));
  EXPECT_EQ(Passed(kText, {"y:0"}, {"s"}, large),
            "a = ReadVariableOp(v:0)\n"
            "d = Square(a)\n"
            "s = Sub(a, d)\n"
            "s = AssignVariableOp(v:0, s)\n"
            "y = Neg(s)\n"
            "-> y\n");
  // What has been stored since may be the same variable's value.
  EXPECT_THAT(Passed(R"(
    a = ReadVariableOp(v) dtype=float
    d = Square(a) T=float
    t = AssignVariableOp(w, x, ^a) dtype=float
    s = AssignAddVariableOp(v, d, ^t) dtype=float
  )",
                     {}, {"s", "t"}, large),
              ::testing::HasSubstr("t = AssignVariableOp(w:0, x:0)\n"
                                   "s = ReadVariableOp(v:0)\n"
                                   "s = AddV2(s, d)\n"));
  // Small ones, and those whose shapes are not known to fit, stay as they are.
  for (const PartialShape& shape : {PartialShape(Shape({2, 2})), PartialShape()}) {
    EXPECT_THAT(Passed(kText, {"y:0"}, {"s"}, shape),
                ::testing::HasSubstr("s = AssignSubVariableOp(v:0, d)\n"));
  }
}

TEST_F(StateValuesTest, AnUpdateAndACallThatMayWriteMakeItUnknown) {
  EXPECT_EQ(Passed(R"(
    a = ReadVariableOp(v) dtype=float
    s = AssignAddVariableOp(v, x, ^a) dtype=float
    b = ReadVariableOp(v, ^s) dtype=float
    i = If(c, v, x, ^b) Tcond=bool Tin=[resource, float] Tout=[] then_branch=@store else_branch=@store
    c = Greater(x, a) T=float
    d = ReadVariableOp(v, ^i) dtype=float
    y = AddN(a, b, d) T=float N=3
    function store(r: resource, t: float) -> () runs(s)
      s = AssignVariableOp(r, t) dtype=float
    end
  )",
                   {"y:0"}, {"s", "i"}),
            "a = ReadVariableOp(v:0)\n"
            "s = AssignAddVariableOp(v:0, x:0)\n"
            "b = ReadVariableOp(v:0)\n"
            "c = Greater(x:0, a)\n"
            "i = If(c, v:0, x:0) then_branch=@store else_branch=@store\n"
            "d = ReadVariableOp(v:0)\n"
            "y = AddN(a, b, d) N=3\n"
            "-> y\n");
}

TEST_F(StateValuesTest, APrintChangesNothing) {
  EXPECT_EQ(Passed(R"(
    a = ReadVariableOp(v) dtype=float
    text = Const string[] "hello"
    p = PrintV2(text, ^a)
    b = ReadVariableOp(v, ^p) dtype=float
    y = AddV2(a, b) T=float
  )",
                   {"y:0"}, {"p"}),
            "a = ReadVariableOp(v:0)\n"
            "text = Const string[] hello\n"
            "p = PrintV2(text)\n"
            "y = AddV2(a, a)\n"
            "-> y\n");
}

}  // namespace
}  // namespace formwork::testing
