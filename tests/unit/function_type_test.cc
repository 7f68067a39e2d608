#include "core/function/function_type.h"

#include "core/function/dispatch.h"
#include "core/function/literal.h"
#include "core/function/type_messages.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;

PartialShape S(std::vector<int64_t> dims) { return PartialShape::Trusted(dims); }
TypeNode Float(std::vector<int64_t> dims) { return TypeNode::Tensor(DType::kFloat, S(dims)); }
TypeNode Int(const char* json) { return TypeNode::Literal("int", json); }

FunctionType Of(std::vector<TypeNode> types) {
  std::vector<Parameter> parameters;
  for (TypeNode& type : types) {
    parameters.push_back({absl::StrCat("p", parameters.size()), ParameterKind::kPositionalOrKeyword,
                          false, std::move(type)});
  }
  return FunctionType(std::move(parameters));
}

void ExpectEqual(const TypeNode& a, const TypeNode& b) {
  EXPECT_TRUE(a == b) << a.ToString() << " " << b.ToString();
  EXPECT_EQ(a.Hash(), b.Hash()) << a.ToString() << " " << b.ToString();
  EXPECT_TRUE(a.IsSubtypeOf(b) && b.IsSubtypeOf(a));
}

TEST(LiteralTest, EqualsAsPythonDoes) {
  ExpectEqual(Int("1"), TypeNode::Literal("bool", "true"));
  ExpectEqual(Int("1"), TypeNode::Literal("float", "1.0"));
  ExpectEqual(Int("0"), TypeNode::Literal("float", "-0.0"));
  ExpectEqual(Int("1000000000000000000000"), TypeNode::Literal("float", "1e21"));
  ExpectEqual(TypeNode::Literal("float", "NaN"), TypeNode::Literal("float", "NaN"));
  ExpectEqual(TypeNode::Literal("str", "\"\\u00e9\""), TypeNode::Literal("str", "\"\xC3\xA9\""));
  // 1e23 is the double 99999999999999991611392.
  EXPECT_FALSE(Int("100000000000000000000000") == TypeNode::Literal("float", "1e23"));
  EXPECT_FALSE(Int("1") == TypeNode::Literal("str", "\"1\""));
  EXPECT_FALSE(Int("1") == Int("2"));
  EXPECT_FALSE(TypeNode::Literal("NoneType", "null") == TypeNode::Literal("str", "\"None\""));
}

TEST(LiteralTest, PrintsAsPythonDoes) {
  EXPECT_EQ(LiteralRepr("NoneType", "null"), "None");
  EXPECT_EQ(LiteralRepr("bool", "true"), "True");
  EXPECT_EQ(LiteralRepr("float", "3.5"), "3.5");
  EXPECT_EQ(LiteralRepr("str", "\"it's\\n\""), "\"it's\\n\"");
  EXPECT_EQ(LiteralRepr("str", "\"both ' and \\\"\""), "'both \\' and \"'");
  EXPECT_EQ(LiteralRepr("list_iterator", "\"<list_iterator object>\""), "<list_iterator object>");
}

TEST(LiteralTest, AnyTextIsTakenForWhatItIs) {
  for (const char* json : {"", "\"", "\"\\", "\"\\u12\"", "\"\\uD800\"", "[1,", "--1", "1e999"}) {
    ExpectEqual(TypeNode::Literal("str", json), TypeNode::Literal("str", json));
    ExpectEqual(Int(json), Int(json));
    LiteralRepr("str", json);
  }
}

TEST(TypeNodeTest, TensorsSubtypeByShape) {
  EXPECT_TRUE(Float({2, 3}).IsSubtypeOf(Float({2, -1})));
  EXPECT_TRUE(Float({2}).IsSubtypeOf(TypeNode::Tensor(DType::kFloat, PartialShape())));
  EXPECT_FALSE(Float({2, -1}).IsSubtypeOf(Float({2, 3})));
  EXPECT_FALSE(Float({2}).IsSubtypeOf(TypeNode::Tensor(DType::kDouble, S({2}))));
  EXPECT_EQ(Float({2, 3}).CommonSupertype(Float({4, 3}))->ToString(),
            "TensorSpec(shape=(None, 3), dtype=tf.float32, name=None)");
  EXPECT_EQ(Float({2, 3}).CommonSupertype(Float({3}))->ToString(),
            "TensorSpec(shape=<unknown>, dtype=tf.float32, name=None)");
  EXPECT_FALSE(Float({2}).CommonSupertype(Int("2")).has_value());
}

TEST(TypeNodeTest, VariablesNeedTheSameAlias) {
  auto variable = [](std::vector<int64_t> dims, int64_t alias, bool trainable = true) {
    return TypeNode::Variable(DType::kFloat, S(dims), trainable, alias);
  };
  EXPECT_TRUE(variable({2}, 0).IsSubtypeOf(variable({-1}, 0)));
  EXPECT_FALSE(variable({2}, 0).IsSubtypeOf(variable({2}, 1)));
  EXPECT_FALSE(variable({2}, 0).IsSubtypeOf(variable({2}, 0, false)));
  EXPECT_FALSE(variable({2}, 0).CommonSupertype(variable({3}, 1)).has_value());
  // f(v, v) and f(v, w) are two signatures.
  const FunctionType same = Of({variable({}, 0), variable({}, 0)});
  const FunctionType other = Of({variable({}, 0), variable({}, 1)});
  EXPECT_FALSE(same.IsSubtypeOf(other));
  EXPECT_FALSE(other.IsSubtypeOf(same));
  EXPECT_EQ(same.FlatInputs().size(), 1u);
  EXPECT_EQ(other.FlatInputs().size(), 2u);
}

TEST(TypeNodeTest, StructuresNeedTheSameKindAndSize) {
  const TypeNode tuple = TypeNode::Tuple({Float({2}), Int("1")});
  const TypeNode list = TypeNode::List({Float({2}), Int("1")});
  EXPECT_FALSE(tuple.IsSubtypeOf(list));
  EXPECT_TRUE(tuple.IsSubtypeOf(TypeNode::Tuple({Float({-1}), Int("1")})));
  EXPECT_FALSE(tuple.IsSubtypeOf(TypeNode::Tuple({Float({-1}), Int("2")})));
  EXPECT_FALSE(tuple.IsSubtypeOf(TypeNode::Tuple({Float({-1})})));
  EXPECT_EQ(list.CommonSupertype(TypeNode::List({Float({3}), Int("1")}))->ToString(),
            "List[TensorSpec(shape=(None,), dtype=tf.float32, name=None), Literal[1]]");
  EXPECT_FALSE(list.CommonSupertype(TypeNode::List({Float({3}), Int("2")})).has_value());
}

TEST(TypeNodeTest, MappingsCompareByKeyWhateverTheOrder) {
  ASSERT_OK_AND_ASSIGN(TypeNode ab, TypeNode::Dict({"\"a\"", "\"b\""}, {Float({1}), Float({2})}));
  ASSERT_OK_AND_ASSIGN(TypeNode ba, TypeNode::Dict({"\"b\"", "\"a\""}, {Float({2}), Float({1})}));
  ASSERT_OK_AND_ASSIGN(TypeNode ac, TypeNode::Dict({"\"a\"", "\"c\""}, {Float({1}), Float({2})}));
  ExpectEqual(ab, ba);
  EXPECT_FALSE(ab.IsSubtypeOf(ac));
  EXPECT_EQ(ab.ToString(),
            "Dict[['a', TensorSpec(shape=(1,), dtype=tf.float32, name=None)], "
            "['b', TensorSpec(shape=(2,), dtype=tf.float32, name=None)]]");
  EXPECT_THAT(TypeNode::Dict({"1", "true"}, {Float({}), Float({})}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TypeNode::Dict({"1"}, {}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TypeNodeTest, NamedTuplesNeedTheSameClassAndFields) {
  auto point = [](std::string name, std::vector<std::string> fields) {
    return *TypeNode::NamedTuple(std::move(name), std::move(fields), {Float({}), Float({})});
  };
  ExpectEqual(point("P", {"x", "y"}), point("P", {"x", "y"}));
  EXPECT_FALSE(point("P", {"x", "y"}).IsSubtypeOf(point("Q", {"x", "y"})));
  EXPECT_FALSE(point("P", {"x", "y"}).IsSubtypeOf(point("P", {"y", "x"})));
  ASSERT_OK_AND_ASSIGN(TypeNode attrs, TypeNode::Attrs("P", {"x", "y"}, {Float({}), Float({})}));
  EXPECT_FALSE(attrs.IsSubtypeOf(point("P", {"x", "y"})));
  EXPECT_FALSE(TypeNode::Attrs("P", {"x"}, {}).ok());
}

TEST(TypeNodeTest, RaggedTensorsSubtypeByShapeOthersBySpec) {
  auto ragged = [](std::vector<int64_t> dims) {
    TypeNode::ByShape by_shape{DType::kInt32, S(dims), 1, DType::kInt64};
    return TypeNode::Composite(
        "RaggedTensorSpec", "",
        {{DType::kInt32, S({-1}), -1}, {DType::kInt64, S({dims[0] + 1}), -1}}, by_shape);
  };
  EXPECT_TRUE(ragged({3, -1}).IsSubtypeOf(ragged({-1, -1})));
  EXPECT_FALSE(ragged({-1, -1}).IsSubtypeOf(ragged({3, -1})));
  const TypeNode common = *ragged({3, -1}).CommonSupertype(ragged({4, -1}));
  EXPECT_EQ(common.ToString(),
            "RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)");
  EXPECT_EQ(common.components()[1].shape.ToString(), "[?]");
  const TypeNode a = TypeNode::Composite("Masked", "Masked(2)", {});
  const TypeNode b = TypeNode::Composite("Masked", "Masked(3)", {});
  ExpectEqual(a, a);
  EXPECT_FALSE(a.IsSubtypeOf(b));
  EXPECT_FALSE(a.CommonSupertype(b).has_value());
}

TEST(TypeNodeTest, ObjectsAreEqualByClientAndCounter) {
  ExpectEqual(TypeNode::Object("Adam", "c", 1), TypeNode::Object("Adam", "c", 1));
  EXPECT_FALSE(TypeNode::Object("Adam", "c", 1) == TypeNode::Object("Adam", "c", 2));
  EXPECT_FALSE(TypeNode::Object("Adam", "c", 1) == TypeNode::Object("Adam", "d", 1));
}

TEST(FunctionTypeTest, ParametersNeedTheSameNamesAndKinds) {
  const FunctionType a({{"x", ParameterKind::kPositionalOrKeyword, false, Float({})}});
  const FunctionType b({{"y", ParameterKind::kPositionalOrKeyword, false, Float({})}});
  const FunctionType c({{"x", ParameterKind::kKeywordOnly, false, Float({})}});
  EXPECT_FALSE(a.IsSubtypeOf(b));
  EXPECT_FALSE(a.IsSubtypeOf(c));
  EXPECT_NE(a, b);
  EXPECT_EQ(a, FunctionType(a.parameters(), Float({1})));  // The result does not count.
}

TEST(FunctionTypeTest, FlatInputsSortKeywordOnlyParameters) {
  const FunctionType type({{"x", ParameterKind::kPositionalOrKeyword, false, Float({1})},
                           {"z", ParameterKind::kKeywordOnly, false, Float({3})},
                           {"y", ParameterKind::kKeywordOnly, false, Float({2})}});
  const std::vector<FlatInput> flat = type.FlatInputs();
  ASSERT_EQ(flat.size(), 3u);
  EXPECT_EQ(flat[1].shape.ToString(), "[2]");
  EXPECT_EQ(flat[2].shape.ToString(), "[3]");
}

TEST(FunctionTypeTest, PrintsAsTensorFlowDoes) {
  const FunctionType type({{"x", ParameterKind::kPositionalOrKeyword, false, Float({-1, 3})},
                           {"n", ParameterKind::kKeywordOnly, false, Int("3")}},
                          TypeNode::Tuple({Float({})}));
  EXPECT_EQ(
      type.ToString(),
      "Input Parameters:\n"
      "  x (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(None, 3), dtype=tf.float32, name=None)\n"
      "  n (KEYWORD_ONLY): Literal[3]\n"
      "Output Type:\n"
      "  Tuple[TensorSpec(shape=(), dtype=tf.float32, name=None)]\n"
      "Captures:\n"
      "  None");
  const TensorSpec capture{"w:0", DType::kResource, S({})};
  EXPECT_THAT(type.ToString({capture}),
              ::testing::EndsWith("Captures:\n  <capture 0>: "
                                  "TensorSpec(shape=(), dtype=tf.resource, name=None)"));
}

TEST(FunctionTypeTest, NamesParametersAfterFlatInputs) {
  const FunctionType type = FunctionType::FromInputs({{"x:0", DType::kFloat, S({})},
                                                      {"a/b_1:0", DType::kInt32, S({2})},
                                                      {"0:0", DType::kBool, {}}});
  EXPECT_EQ(type.parameters()[0].name, "x");
  EXPECT_EQ(type.parameters()[1].name, "a_b_1");
  EXPECT_EQ(type.parameters()[2].name, "arg_0");
}

TEST(GeneralizeTest, RelaxesShapesAlongTheCandidates) {
  const FunctionType general =
      Generalize(Of({Float({2, 3})}), {Of({Float({4, 3})}), Of({Int("1")}), Of({Float({4, 5})})});
  EXPECT_EQ(general, Of({Float({-1, -1})}));
  EXPECT_EQ(Generalize(Of({Int("2")}), {Of({Int("1")})}), Of({Int("2")}));
  EXPECT_EQ(Generalize(Of({Float({2})}), {Of({})}), Of({Float({2})}));
}

TEST(FunctionTypeTest, ParametersAreOfTheSameKindInMessages) {
  const std::pair<ParameterKind, v1::Parameter::Kind> kinds[] = {
      {ParameterKind::kPositionalOrKeyword, v1::Parameter::KIND_POSITIONAL_OR_KEYWORD},
      {ParameterKind::kPositionalOnly, v1::Parameter::KIND_POSITIONAL_ONLY},
      {ParameterKind::kVarPositional, v1::Parameter::KIND_VAR_POSITIONAL},
      {ParameterKind::kKeywordOnly, v1::Parameter::KIND_KEYWORD_ONLY},
      {ParameterKind::kVarKeyword, v1::Parameter::KIND_VAR_KEYWORD}};
  for (const auto& [kind, in_message] : kinds) {
    v1::FunctionType message;
    ToMessage(FunctionType({{"x", kind, false, Float({})}}), &message);
    EXPECT_EQ(message.parameters(0).kind(), in_message);
    ASSERT_OK_AND_ASSIGN(const FunctionType read, FunctionTypeFrom(message));
    EXPECT_EQ(read.parameters()[0].kind, kind);
    if (kind != ParameterKind::kPositionalOrKeyword) continue;
    message.mutable_parameters(0)->clear_kind();
    ASSERT_OK_AND_ASSIGN(const FunctionType by_default, FunctionTypeFrom(message));
    EXPECT_EQ(by_default.parameters()[0].kind, kind);
  }
}

}  // namespace
}  // namespace formwork
