#pragma once

// inference.InferTensorContents: elements in the field of their datatype.

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"
#include "server/wire_format.h"

namespace formwork::server {

/// The tensor whose elements are in `contents`, messages that are merged as protobuf does. No more
/// memory is asked for than elements were sent for. Errors: kInvalidArgument where they are
/// malformed, are elsewhere than in the dtype's field, do not fit it, or are not as many as the
/// shape has; the allocator's.
absl::StatusOr<Tensor> ReadInferContents(absl::Span<const WireReader> contents, DType dtype,
                                         absl::Span<const int64_t> dims, Allocator& allocator);

}  // namespace formwork::server
