// Reference variables as variables behind handles: the order of reads, what stays as it is.

#include "core/graph/lower_references.h"

#include "tests/support/graph_world.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LowerReferencesTest : public ::testing::Test {
 protected:
  std::string Imported(absl::string_view text, std::vector<std::string> fetches,
                       std::vector<std::string> targets = {},
                       std::vector<std::pair<std::string, DType>> feeds = {}) {
    const absl::StatusOr<ImportedGraph> imported =
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets));
    return imported.ok() ? ToText(*imported->graph) : imported.status().ToString();
  }
  GraphWorld world_;
};

TEST_F(LowerReferencesTest, AnOpIsItsFormOnHandlesAndGivesItsValue) {
  EXPECT_EQ(Imported(R"(
    v = VariableV2 dtype=float shape=shape:[2]
    x = Const float[2] 1 2
    a = Assign(v, x) T=float
    b = AssignAdd(a, x) T=float
  )",
                     {"b:0"}),
            "v#handle = VarHandleOp shared_name=\"v\" shape=[2]\n"
            "x = Const float32[2] 1 2\n"
            "a = AssignVariableOp(v#handle, x) validate_shape=true\n"
            "b = AssignAddVariableOp(v#handle, x)\n"
            "b#value = ReadVariableOp(v#handle)\n"
            "-> b#value\n");
}

TEST_F(LowerReferencesTest, AValueIsReadWhereTheNodeThatUsesItCouldRun) {
  // Also behind what the node waits for by other inputs, as TensorFlow's kernels look.
  EXPECT_EQ(Imported(R"(
    y = Sub(v, b, ^c) T=float
    z = Neg(v) T=float
    v = Variable dtype=float shape=shape:[2]
    one = Const float[2] 1 1
    a = Assign(v, one, ^z) T=float
    b = Identity(a) T=float
    c = AssignSub(v, one, ^b) T=float
  )",
                     {"y:0"}),
            "z#before = NoOp\n"
            "v#handle = VarHandleOp shared_name=\"v\" shape=[2]\n"
            "z#0 = ReadVariableOp(v#handle)\n"
            "z = Neg(z#0)\n"
            "one = Const float32[2] 1 1\n"
            "a = AssignVariableOp(v#handle, one) validate_shape=true\n"
            "b#before = NoOp\n"
            "b#0 = ReadVariableOp(v#handle)\n"
            "b = Identity(b#0)\n"
            "c = AssignSubVariableOp(v#handle, one)\n"
            "y#before = NoOp\n"
            "y#0 = ReadVariableOp(v#handle)\n"
            "y = Sub(y#0, b)\n"
            "-> y\n");
}

TEST_F(LowerReferencesTest, WhatIsFedIsNoReference) {
  EXPECT_EQ(Imported("v = VariableV2 dtype=float shape=shape:[]\ny = Neg(v) T=float",
                     {"y:0", "v:0"}, {}, {{"v:0", DType::kFloat}}),
            "v:0 = Arg float32\n"
            "y = Neg(v:0)\n"
            "-> y, v:0\n");
}

TEST_F(LowerReferencesTest, AReferenceIsGivenOn) {
  EXPECT_EQ(Imported(R"(
    v = VariableV2 dtype=int32 shape=shape:[]
    one = Const int32[] 1
    a = Assign(v, one) T=int32
    r = RefIdentity(v, ^a) T=int32
    n = CountUpTo(r) T=int32 limit=3
    i = IsVariableInitialized(v, ^n) dtype=int32
  )",
                     {"n:0", "i:0", "r:0"}),
            "v#handle = VarHandleOp shared_name=\"v\" shape=[]\n"
            "one = Const int32[] 1\n"
            "a = AssignVariableOp(v#handle, one) validate_shape=true\n"
            "r = NoOp\n"
            "r#value = ReadVariableOp(v#handle)\n"
            "n = ResourceCountUpTo(v#handle) limit=3\n"
            "i = VarIsInitializedOp(v#handle)\n"
            "-> n, i, r#value\n");
}

TEST_F(LowerReferencesTest, ATypeOfAReferenceIsThatOfWhatItRefersTo) {
  ASSERT_OK_AND_ASSIGN(tf::GraphDef graph, ParseGraph("x = Placeholder dtype=float"));
  auto& dtype = (*graph.mutable_node(0)->mutable_attr())["dtype"];
  dtype.set_type(static_cast<tf::DataType>(100 + dtype.type()));
  const Cut cut = {{{"x:0", DType::kFloat}}, {"x:0"}, {}};
  EXPECT_OK(ImportGraph(graph, cut, world_.ops, world_.allocator, nullptr).status());
}

TEST_F(LowerReferencesTest, WhatPassesReferencesOnInOtherWaysIsMissing) {
  EXPECT_THAT(world_
                  .Import(R"(
    v = VariableV2 dtype=float shape=shape:[]
    i = Const int32[] 0
    s = RefSelect(i, v) T=float N=1
    one = Const float[] 1
    a = Assign(s, one) T=float
  )",
                          {}, {"a:0"})
                  .status(),
              StatusIs(StatusCode::kUnimplemented, AllOf(HasSubstr("RefSelect"))));
}

TEST_F(LowerReferencesTest, OpsWithWrongInputsAreRefused) {
  constexpr absl::string_view kVariable =
      "v = VariableV2 dtype=float shape=shape:[]\none = Const float[] 1\n";
  for (absl::string_view text :
       {"a = Assign(v) T=float", "a = Assign() T=float", "a = Assign(v, one, one) T=float",
        "a = Assign(v, a) T=float", "a = Assign(v:1, one) T=float", "a = Assign(one, one) T=float",
        "a = Assign(v, one)", "a = ApplyMomentum(v, one, one, one, one) T=float",
        "a = Assign(v, one) T=int32"}) {
    EXPECT_FALSE(world_.Import(absl::StrCat(kVariable, text), {}, {"a:0"}).ok()) << text;
  }
}

}  // namespace
}  // namespace formwork::testing
