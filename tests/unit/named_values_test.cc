#include "core/function/named_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace formwork {
namespace {

using ::testing::ElementsAre;

const PartialShape kShape = PartialShape::Trusted({2});

TypeNode TensorAt(int flat = -1) { return TypeNode::Tensor(DType::kFloat, kShape, flat); }

Parameter Named(std::string name, TypeNode type = TensorAt(),
                ParameterKind kind = ParameterKind::kPositionalOrKeyword) {
  return {std::move(name), kind, false, std::move(type)};
}

std::vector<TensorSpec> Specs(size_t count) {
  return std::vector<TensorSpec>(count, {"node:0", DType::kFloat, kShape});
}

std::vector<std::string> NamesOf(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : specs) names.push_back(spec.name);
  return names;
}

std::vector<std::string> InputsOf(std::vector<Parameter> parameters, size_t count) {
  const auto named = NamedValuesOf(FunctionType(std::move(parameters)), Specs(count), {});
  return named == nullptr ? std::vector<std::string>{"none"} : NamesOf(named->inputs);
}

std::vector<std::string> OutputsOf(const TypeNode& result, size_t count) {
  return NamesOf(NamedValuesOf(FunctionType({}, result), {}, Specs(count))->outputs);
}

TEST(NamedValuesTest, InputsAreInTheOrderOfACall) {
  EXPECT_THAT(InputsOf({Named("b"), Named("a")}, 2), ElementsAre("b", "a"));
  EXPECT_THAT(InputsOf({Named("b", TensorAt(1)), Named("a", TensorAt(0))}, 2),
              ElementsAre("a", "b"));
  constexpr ParameterKind kKeyword = ParameterKind::kKeywordOnly;
  EXPECT_THAT(
      InputsOf({Named("z", TensorAt(), kKeyword), Named("y", TensorAt(), kKeyword), Named("x")}, 3),
      ElementsAre("x", "y", "z"));
  EXPECT_THAT(InputsOf({}, 0), ElementsAre());
  EXPECT_THAT(InputsOf({Named("v", TypeNode::Variable(DType::kFloat, kShape, true, 0))}, 1),
              ElementsAre("v"));
}

TEST(NamedValuesTest, WhatIsNotOneParameterEachHasNoNames) {
  const auto none = ElementsAre("none");
  EXPECT_THAT(InputsOf({Named("x")}, 2), none);
  EXPECT_THAT(InputsOf({Named("x"), Named("y")}, 1), none);
  EXPECT_THAT(InputsOf({Named("x"), Named("x")}, 2), none);
  EXPECT_THAT(InputsOf({Named("x", TensorAt(0)), Named("y", TensorAt(0))}, 2), none);
  EXPECT_THAT(InputsOf({Named("x", TensorAt(7))}, 1), none);
  EXPECT_THAT(InputsOf({Named("x", TypeNode::Tuple({TensorAt(), TensorAt()}))}, 2), none);
  EXPECT_THAT(InputsOf({Named("x"), Named("n", TypeNode::Literal("int", "3"))}, 1), none);
  EXPECT_THAT(InputsOf({Named("xs", TensorAt(), ParameterKind::kVarPositional)}, 1), none);
}

TEST(NamedValuesTest, OutputsHaveTheKeysOfADictOrNumbers) {
  const auto dict = [](std::vector<std::string> keys, std::vector<TypeNode> items) {
    return *TypeNode::Dict(std::move(keys), std::move(items));
  };
  EXPECT_THAT(OutputsOf(dict({"\"a b\"", "\"\\u00e9\""}, {TensorAt(), TensorAt()}), 2),
              ElementsAre("a b", "\xC3\xA9"));
  EXPECT_THAT(OutputsOf(dict({"3"}, {TensorAt()}), 1), ElementsAre("3"));
  EXPECT_THAT(OutputsOf(TensorAt(), 1), ElementsAre("output_0"));
  EXPECT_THAT(OutputsOf(TypeNode::Tuple({TensorAt(), TensorAt()}), 2),
              ElementsAre("output_0", "output_1"));
  EXPECT_THAT(OutputsOf(dict({"\"a\""}, {TypeNode::List({TensorAt(), TensorAt()})}), 2),
              ElementsAre("output_0", "output_1"));
}

}  // namespace
}  // namespace formwork
