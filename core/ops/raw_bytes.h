#pragma once

// Strings as the bytes of elements, on every device: DecodeRaw, DecodePaddedRaw. Errors are
// kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// How many elements of `dtype` each of `texts` is, which are all of one length.
absl::StatusOr<int64_t> PrepareDecodeRaw(const Tensor& texts, DType dtype);
/// How many `fixed_length` bytes are.
absl::StatusOr<int64_t> PrepareDecodePaddedRaw(const Tensor& fixed_length, DType dtype);

/// DecodeCompressed: "", "ZLIB" or "GZIP".
absl::Status CheckCompressionType(absl::string_view type);

}  // namespace formwork
