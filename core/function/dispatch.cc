#include "core/function/dispatch.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace formwork {

InputsKey KeyOf(absl::Span<const InputType> inputs) {
  InputsKey key;
  for (const InputType& input : inputs) {
    // One word says how many dimensions follow, so that no two requests share a key.
    const int64_t rank = input.known_rank ? static_cast<int64_t>(input.dims.size()) : -1;
    key.push_back((rank << 16) | (static_cast<int64_t>(input.variable_dtype) << 8) |
                  static_cast<int64_t>(input.dtype));
    if (input.known_rank) key.insert(key.end(), input.dims.begin(), input.dims.end());
  }
  return key;
}

std::vector<FlatInput> FlatInputsOf(absl::Span<const InputType> inputs) {
  std::vector<FlatInput> flat;
  flat.reserve(inputs.size());
  for (const InputType& input : inputs) {
    PartialShape shape = input.known_rank ? PartialShape::Trusted(input.dims) : PartialShape();
    flat.push_back({input.dtype, std::move(shape), input.variable_dtype, -1});
  }
  return flat;
}

std::vector<FlatInput> FlatInputsOf(const ConcreteFunction& function) {
  std::vector<FlatInput> flat;
  flat.reserve(function.inputs.size());
  for (const TensorSpec& input : function.inputs) {
    flat.push_back({input.dtype, input.shape, DType::kInvalid, -1});
  }
  std::vector<FlatInput> described = function.type().FlatInputs();
  for (size_t i = 0; i < described.size(); ++i) {
    // Without places the order counts, if there are as many.
    size_t place = i;
    if (described[i].flat >= 0) {
      place = static_cast<size_t>(described[i].flat);
    } else if (described.size() != flat.size()) {
      continue;
    }
    if (place >= flat.size() || flat[place].dtype != DType::kResource) continue;
    if (described[i].variable_dtype != DType::kInvalid) flat[place] = std::move(described[i]);
  }
  return flat;
}

bool IsSubtype(absl::Span<const FlatInput> a, absl::Span<const FlatInput> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype != b[i].dtype) return false;
    if (b[i].dtype == DType::kResource && b[i].variable_dtype == DType::kInvalid) continue;
    if (a[i].variable_dtype != b[i].variable_dtype || !a[i].shape.IsSubtypeOf(b[i].shape)) {
      return false;
    }
  }
  return true;
}

FunctionType RequestType(absl::Span<const FlatInput> inputs, const FunctionType& like) {
  bool alike = like.parameters().size() == inputs.size();
  for (const Parameter& parameter : like.parameters()) {
    const TypeKind kind = parameter.type.kind();
    alike = alike && (kind == TypeKind::kTensor || kind == TypeKind::kVariable);
  }
  std::vector<Parameter> parameters;
  parameters.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Parameter parameter;
    parameter.name = absl::StrCat("arg_", i);
    parameter.kind = ParameterKind::kPositionalOnly;
    const int flat = static_cast<int>(i);
    if (alike) {
      parameter.name = like.parameters()[i].name;
      parameter.kind = like.parameters()[i].kind;
      parameter.optional = like.parameters()[i].optional;
    }
    if (alike && like.parameters()[i].type.kind() == TypeKind::kVariable) {
      const TypeNode& variable = like.parameters()[i].type;
      parameter.type = TypeNode::Variable(inputs[i].variable_dtype, inputs[i].shape,
                                          variable.trainable(), variable.alias_id(), flat);
    } else {
      parameter.type = TypeNode::Tensor(inputs[i].dtype, inputs[i].shape, flat);
    }
    parameters.push_back(std::move(parameter));
  }
  return FunctionType(std::move(parameters));
}

FunctionType Generalize(const FunctionType& request, absl::Span<const FunctionType> candidates) {
  FunctionType relaxed = request;
  for (const FunctionType& candidate : candidates) {
    if (std::optional<FunctionType> common = relaxed.CommonSupertype(candidate)) relaxed = *common;
  }
  return relaxed;
}

}  // namespace formwork
