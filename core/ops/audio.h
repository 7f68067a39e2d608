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
/// The same of one clip of AudioSummaryV2.
absl::Status CheckWav(int64_t frames, int64_t channels);

/// AudioSummaryV2, of clips as [clips, frames] or [clips, frames, channels].
absl::Status CheckAudioSummary(const Tensor& tag, const Tensor& clips, const Tensor& sample_rate);

}  // namespace formwork
