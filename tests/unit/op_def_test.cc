#include "core/ops/op_def.h"

#include "core/ops/register_ops.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Ne;

TEST(OpSpecTest, ReadsArgsOfEveryKind) {
  ASSERT_OK_AND_ASSIGN(OpDef op,
                       ParseOpSpec("Mix(a: T, b: float, c: N*T, d: N*int32, e: Tin, f: Ref(T)) -> "
                                   "(out: T); T: type; N: int >= 1; Tin: list(type) >= 0"));
  EXPECT_EQ(op.name, "Mix");
  ASSERT_EQ(op.inputs.size(), 6u);
  EXPECT_EQ(op.inputs[0].type_attr, "T");
  EXPECT_EQ(op.inputs[0].type, DType::kInvalid);
  EXPECT_EQ(op.inputs[1].type, DType::kFloat);
  EXPECT_EQ(op.inputs[1].type_attr, "");
  EXPECT_EQ(op.inputs[2].number_attr, "N");
  EXPECT_EQ(op.inputs[2].type_attr, "T");
  EXPECT_EQ(op.inputs[3].number_attr, "N");
  EXPECT_EQ(op.inputs[3].type, DType::kInt32);
  EXPECT_EQ(op.inputs[4].type_attr, "Tin");
  EXPECT_TRUE(op.FindAttr("Tin")->is_list);
  EXPECT_EQ(op.inputs[5].type_attr, "T");
  EXPECT_EQ(op.FindAttr("N")->minimum, 1);
  EXPECT_EQ(op.FindAttr("none"), nullptr);
}

TEST(OpSpecTest, ReadsWhatIsWantedInHostMemory) {
  ASSERT_OK_AND_ASSIGN(OpDef op, ParseOpSpec("Mix(a: T, b: host int32, hosts: N*T, c: host N*T) -> "
                                             "(n: host int32); T: type; N: int"));
  EXPECT_FALSE(op.inputs[0].host);
  EXPECT_TRUE(op.inputs[1].host);
  EXPECT_EQ(op.inputs[1].type, DType::kInt32);
  EXPECT_FALSE(op.inputs[2].host);
  EXPECT_TRUE(op.inputs[3].host);
  EXPECT_EQ(op.inputs[3].number_attr, "N");
  EXPECT_TRUE(op.outputs[0].host);
}

TEST(OpSpecTest, ReadsDefaultsOfEveryKind) {
  ASSERT_OK_AND_ASSIGN(
      OpDef op, ParseOpSpec("D() -> (); i: int = -3; f: float = 1e-05; b: bool = true; s: string = "
                            "\"a\\\"\\\\\\n\"; t: type = half; h: shape = ?; g: shape = [1,-1]; "
                            "v: tensor = float(1.5); u: func = \"\"; li: list(int) = [1, 2]; "
                            "ls: list(string) = [\"x\", \"y\"]; lh: list(shape) = [[2], ?]; "
                            "lt: list(type) = []; inf: float = inf"));
  auto value = [&](absl::string_view name) { return *op.FindAttr(name)->default_value; };
  EXPECT_EQ(std::get<int64_t>(value("i")), -3);
  EXPECT_FLOAT_EQ(std::get<float>(value("f")), 1e-05f);
  EXPECT_TRUE(std::get<bool>(value("b")));
  EXPECT_EQ(std::get<std::string>(value("s")), "a\"\\\n");
  EXPECT_EQ(std::get<DType>(value("t")), DType::kHalf);
  EXPECT_FALSE(std::get<PartialShape>(value("h")).known_rank());
  EXPECT_EQ(std::get<PartialShape>(value("g")).ToString(), "[1,?]");
  EXPECT_EQ(std::get<Tensor>(value("v")).scalar<float>(), 1.5f);
  EXPECT_EQ(std::get<FuncAttr>(value("u")).name, "");
  EXPECT_THAT(std::get<std::vector<int64_t>>(value("li")), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<std::string>>(value("ls")), ElementsAre("x", "y"));
  EXPECT_EQ(std::get<std::vector<PartialShape>>(value("lh")).size(), 2u);
  EXPECT_TRUE(std::get<std::vector<DType>>(value("lt")).empty());
  EXPECT_TRUE(std::isinf(std::get<float>(value("inf"))));
}

TEST(OpSpecTest, ReadsAllowedValues) {
  ASSERT_OK_AND_ASSIGN(
      OpDef op, ParseOpSpec("A(x: T) -> (); T: {half, float} = float; L: list({int32, int64}) >= 1;"
                            " align: {\"LEFT\", \"RIGHT\"} = \"LEFT\""));
  EXPECT_THAT(op.FindAttr("T")->allowed_types, ElementsAre(DType::kHalf, DType::kFloat));
  EXPECT_TRUE(op.FindAttr("L")->is_list);
  EXPECT_EQ(op.FindAttr("L")->kind, AttrKind::kType);
  EXPECT_EQ(op.FindAttr("align")->kind, AttrKind::kString);
  EXPECT_THAT(op.FindAttr("align")->allowed_strings, ElementsAre("LEFT", "RIGHT"));
}

TEST(OpSpecTest, ReadsNamedSetsOfDTypes) {
  ASSERT_OK_AND_ASSIGN(OpDef op,
                       ParseOpSpec("A(x: T) -> (); T: indextype = int32; U: {floattype, string}; "
                                   "V: list(complextype) >= 1; R: realnumbertype; N: numbertype"));
  auto types = [&](absl::string_view name) {
    EXPECT_EQ(op.FindAttr(name)->kind, AttrKind::kType);
    return op.FindAttr(name)->allowed_types;
  };
  EXPECT_THAT(types("T"), ElementsAre(DType::kInt32, DType::kInt64));
  EXPECT_EQ(std::get<DType>(*op.FindAttr("T")->default_value), DType::kInt32);
  EXPECT_THAT(types("U"), ElementsAre(DType::kHalf, DType::kBfloat16, DType::kFloat, DType::kDouble,
                                      DType::kString));
  EXPECT_THAT(types("V"), ElementsAre(DType::kComplex64, DType::kComplex128));
  EXPECT_TRUE(op.FindAttr("V")->is_list);
  EXPECT_EQ(types("R").size(), 12u);
  EXPECT_EQ(types("N").size(), 19u);
  EXPECT_THAT(types("N"), Each(Ne(DType::kInvalid)));
}

class BrokenSpecTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BrokenSpecTest, IsRefused) {
  EXPECT_THAT(ParseOpSpec(GetParam()), StatusIs(absl::StatusCode::kInvalidArgument));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BrokenSpecTest,
    ::testing::Values("", "A", "A(", "A() ->", "A() -> (", "A() -> (); ", "A(x: T) -> ()",
                      "A(x: N*float) -> ()", "A() -> (); T: kind", "A() -> (); T: half",
                      "A() -> (); T: {nothing}", "A() -> (); T: {nothingtype}",
                      "A() -> (); T: {half, \"x\"}", "A() -> (); i: int = x",
                      "A() -> (); s: string = \"open", "A() -> (); s: string = \"open\\",
                      "A() -> (); b: bool >= 1", "A() -> (); i: int; i: int",
                      "A(x: i) -> (); i: int", "A() -> (); l: list(list(int))",
                      "A(x: N*L) -> (); N: int; L: list(type)", "A() -> () T: type"));

TEST(OpRegistryTest, HoldsEveryFamily) {
  OpRegistry registry;
  RegisterOps(registry);
  ASSERT_NE(registry.Find("MatMul"), nullptr);
  EXPECT_EQ(registry.Find("MatMul")->inputs.size(), 2u);
  EXPECT_EQ(registry.Find("NoSuchOp"), nullptr);
  const std::vector<const OpDef*> all = registry.All();
  EXPECT_GT(all.size(), 150u);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1]->name, all[i]->name);
}

TEST(OpRegistryDeathTest, BrokenDeclarationsEndTheProcess) {
  OpRegistry registry;
  EXPECT_DEATH(registry.Add("Broken("), "broken op declaration");
  registry.Add("Twice() -> ()");
  EXPECT_DEATH(registry.Add("Twice(x: int32) -> ()"), "declared twice\n *in: Twice");
}

TEST(AttrMapTest, FindsByNameAndType) {
  AttrMap attrs;
  attrs.Set("n", int64_t{3});
  attrs.Set("n", int64_t{4});
  EXPECT_EQ(attrs.entries().size(), 1u);
  EXPECT_EQ(*attrs.Get<int64_t>("n"), 4);
  EXPECT_THAT(attrs.Get<float>("n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another type")));
  EXPECT_THAT(attrs.Get<float>("m"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("missing")));
  EXPECT_EQ(attrs.GetOr<float>("m", 2.0f), 2.0f);
}

}  // namespace
}  // namespace formwork
