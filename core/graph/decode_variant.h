#pragma once

// Constants of dtype variant: what the graph of a dataset has of ragged and sparse tensors.

#include <vector>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/tensor/tensor.h"
#include "formwork/tf/tensor.pb.h"

namespace formwork {

/// The variant that `proto` is; null where it has no type.
/// Errors: kUnimplemented for another type than that of ragged tensors and of tensors, and for
/// variants within; kInvalidArgument if there are not as many tensors as the type has; those of
/// DecodeTensor.
absl::StatusOr<Variant> DecodeVariant(const tf::VariantTensorDataProto& proto,
                                      Allocator& allocator);

/// What is inside a variant that DecodeVariant has made; it lives as long as that.
std::vector<const Tensor*> TensorsInside(const Variant& variant);

}  // namespace formwork
