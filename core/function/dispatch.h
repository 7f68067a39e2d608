#pragma once

// Steps of dispatch that need no cache: flat inputs compared, requests generalised.

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/function/concrete_function.h"

namespace formwork {

/// The type of one flat input of a call by name.
struct InputType {
  DType dtype = DType::kInvalid;           ///< kResource for a handle.
  DType variable_dtype = DType::kInvalid;  ///< Of the variable behind a handle.
  bool known_rank = true;                  ///< A variable's declared shape may lack it.
  absl::Span<const int64_t> dims;          ///< Of the value; -1 is unknown.
};

/// Equal for requests of equal types.
using InputsKey = absl::InlinedVector<int64_t, 16>;
InputsKey KeyOf(absl::Span<const InputType> inputs);

std::vector<FlatInput> FlatInputsOf(absl::Span<const InputType> inputs);
/// What the function takes, with what its signature says of the variables behind handles.
std::vector<FlatInput> FlatInputsOf(const ConcreteFunction& function);

/// True where inputs of the types `a` may be passed for `b`. A handle of which `b` does not say
/// what is behind it takes any.
bool IsSubtype(absl::Span<const FlatInput> a, absl::Span<const FlatInput> b);

/// The type of a request that has flat inputs alone, in the words of `like` where that has one
/// parameter for each.
FunctionType RequestType(absl::Span<const FlatInput> inputs, const FunctionType& like);

/// The type to trace next where `request` fits none of `candidates` (TensorFlow's
/// try_generalizing_function_type).
FunctionType Generalize(const FunctionType& request, absl::Span<const FunctionType> candidates);

}  // namespace formwork
