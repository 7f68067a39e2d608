#pragma once

// Dtypes, shapes, specs and signatures <-> their messages, as clients send them and snapshots keep
// them.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/function/function_type.h"
#include "formwork/v1/types.pb.h"

namespace formwork {

void ToMessage(const PartialShape& shape, v1::Shape* message);
void ToMessage(const TensorSpec& spec, v1::TensorSpec* message);
void ToMessage(const TypeNode& node, v1::Type* message);
void ToMessage(const FunctionType& type, v1::FunctionType* message);

/// Errors of these: kInvalidArgument naming what is out of its domain.
absl::StatusOr<PartialShape> ShapeFrom(const v1::Shape& message);
absl::StatusOr<DType> DTypeFrom(int32_t dtype);
absl::StatusOr<TensorSpec> TensorSpecFrom(const v1::TensorSpec& message);
/// Errors: kInvalidArgument naming the parameter that is malformed.
absl::StatusOr<FunctionType> FunctionTypeFrom(const v1::FunctionType& message);

}  // namespace formwork
