#pragma once

// TensorFlow's distributions over Philox: each fills `out` with the values that TensorFlow's CPU
// kernels draw from the same generator.

#include <cstdint>

#include "absl/status/status.h"
#include "core/kernels/random/philox.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace formwork {

enum class Distribution : uint8_t { kUniform, kNormal, kTruncatedNormal, kFullInt };

/// Generator groups that a legacy random op sets aside for each of its output's elements.
inline constexpr uint64_t kReservedGroups = 256;

using RandomFillFn = void (*)(const Philox& philox, Tensor& out);

/// Null where the distribution has no such dtype: floating ones for the first three, int32, int64,
/// uint32 and uint64 for kFullInt.
RandomFillFn RandomFillFor(Distribution distribution, DType dtype);

/// Integers in [minval, maxval), which are scalars of `out`'s dtype.
/// Errors: kInvalidArgument unless minval < maxval.
absl::Status FillUniformInt(const Philox& philox, const Tensor& minval, const Tensor& maxval,
                            Tensor& out);

}  // namespace formwork
