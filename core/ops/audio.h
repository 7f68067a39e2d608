#pragma once

// Sound as WAV files, on every device. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// DecodeWav's attrs; -1: as many as the file has.
struct DecodeWavAttrs {
  int64_t desired_channels = -1;
  int64_t desired_samples = -1;
  static absl::StatusOr<DecodeWavAttrs> FromAttrs(const AttrMap& attrs);
};

/// Whether EncodeWav takes that: [frames, channels] and a rate in Hz, and the file's sizes fit into
/// 32 bits.
absl::Status CheckEncodeWav(const Tensor& audio, const Tensor& sample_rate);

}  // namespace formwork
