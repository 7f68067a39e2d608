#pragma once

// The engine's descriptions (variables, functions, specs) <-> their messages.

#include "absl/status/statusor.h"
#include "core/engine.h"
#include "formwork/v1/graph_service.pb.h"

namespace formwork::server {

void ToMessage(const PartialShape& shape, v1::Shape* message);
void ToMessage(const TensorSpec& spec, v1::TensorSpec* message);
void ToMessage(const VariableInfo& variable, v1::VariableInfo* message);
void ToMessage(const FunctionInfo& function, v1::ConcreteFunctionInfo* message);

/// Errors of these: kInvalidArgument naming what is out of its domain.
absl::StatusOr<PartialShape> ShapeFrom(const v1::Shape& message);
absl::StatusOr<DType> DTypeFrom(int32_t dtype);

/// `registration.graph_def` points into `request`.
/// Errors: also kResourceExhausted if there is no memory for a capture's value.
absl::StatusOr<Registration> RegistrationFrom(const v1::RegisterRequest& request,
                                              Allocator& allocator);

}  // namespace formwork::server
