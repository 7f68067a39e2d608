#pragma once

// FunctionType <-> formwork.v1.FunctionType.

#include "absl/status/statusor.h"
#include "core/engine.h"
#include "formwork/v1/types.pb.h"

namespace formwork::server {

void ToMessage(const TypeNode& node, v1::Type* message);
void ToMessage(const FunctionType& type, v1::FunctionType* message);

/// Errors: kInvalidArgument naming the parameter that is malformed.
absl::StatusOr<FunctionType> FunctionTypeFrom(const v1::FunctionType& message);

}  // namespace formwork::server
