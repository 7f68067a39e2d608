#include "core/ops/audio.h"

#include <limits>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<DecodeWavAttrs> DecodeWavAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const DecodeWavAttrs read,
      ReadAttrs<DecodeWavAttrs>(attrs, "desired_channels", &DecodeWavAttrs::desired_channels,
                                "desired_samples", &DecodeWavAttrs::desired_samples));
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (read.desired_channels < -1 || read.desired_channels > kMost) {
    return InvalidArgument("desired_channels must be >= -1, got ", read.desired_channels);
  }
  if (read.desired_samples < -1 || read.desired_samples > kMost) {
    return InvalidArgument("desired_samples must be >= -1, got ", read.desired_samples);
  }
  return read;
}

absl::Status CheckEncodeWav(const Tensor& audio, const Tensor& sample_rate) {
  if (audio.rank() != 2) {
    return InvalidArgument("audio must be 2-dimensional, got shape ", audio.shape().ToString());
  }
  if (sample_rate.rank() != 0) {
    return InvalidArgument("sample_rate should be a scalar, got shape ",
                           sample_rate.shape().ToString());
  }
  const int32_t rate = sample_rate.scalar<int32_t>();
  if (rate <= 0) return InvalidArgument("sample_rate must be in (0, 2^32), got: ", rate);
  return CheckWav(audio.dim(0), audio.dim(1));
}

absl::Status CheckWav(int64_t frames, int64_t channels) {
  if (channels == 0 || channels > std::numeric_limits<uint16_t>::max()) {
    return InvalidArgument("num_channels must be in (0, 2^16), got: ", channels);
  }
  constexpr int64_t kHeaderBytes = 44;
  constexpr int64_t kMostBytes = std::numeric_limits<uint32_t>::max();
  if (frames > (kMostBytes - kHeaderBytes) / 2 / channels) {
    return InvalidArgument("Provided channels and frames cannot be encoded as a WAV.");
  }
  return absl::OkStatus();
}

absl::Status CheckAudioSummary(const Tensor& tag, const Tensor& clips, const Tensor& sample_rate) {
  if (tag.rank() != 0) return InvalidArgument("Tag must be a scalar");
  if (clips.rank() != 2 && clips.rank() != 3) {
    return InvalidArgument("Tensor must be 3-D or 2-D, got: ", clips.shape().ToString());
  }
  if (sample_rate.num_elements() != 1) {
    return InvalidArgument("sample_rate must be a scalar, got shape ",
                           sample_rate.shape().ToString());
  }
  const float rate = sample_rate.scalar<float>();
  if (!(rate > 0)) return InvalidArgument("sample_rate must be > 0");
  if (rate >= 4294967296.0f) {
    return InvalidArgument("sample_rate must be in (0, 2^32), got: ", rate);
  }
  return absl::OkStatus();
}

namespace {

absl::Status DecodeWavShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const DecodeWavAttrs attrs, DecodeWavAttrs::FromAttrs(c.attrs()));
  c.set_output(1, Shape());
  return array_shapes::SetOutput(c, 0, {attrs.desired_samples, attrs.desired_channels});
}

}  // namespace

void RegisterAudioOps(OpRegistry& registry) {
  registry.Add(
      "DecodeWav(contents: string) -> (audio: float, sample_rate: int32); desired_channels: int = "
      "-1; desired_samples: int = -1",
      {.shape_fn = DecodeWavShape, .sized_by_value = true});
  registry.Add("EncodeWav(audio: float, sample_rate: int32) -> (contents: string)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "AudioSummaryV2(tag: string, tensor: float, sample_rate: float) -> (summary: string); "
      "max_outputs: int >= 1 = 3",
      {.shape_fn = shapes::Scalar});
}

}  // namespace formwork
