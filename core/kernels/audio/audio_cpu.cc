// Sound as WAV files, 16 bits a sample, uncompressed, and summaries of it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/wire_format.h"
#include "core/ops/audio.h"

namespace formwork {
namespace {

constexpr int64_t kBytesPerValue = 2;
constexpr float kFullScale = 32768.0f;
constexpr absl::string_view kSkippedChunks[] = {"JUNK", "bext", "iXML", "qlty",
                                                "mext", "levl", "link", "axml"};

// Takes a file apart from its front; numbers have their low byte first.
class WavReader {
 public:
  explicit WavReader(absl::string_view bytes) : left_(bytes) {}

  bool AtEnd() const { return left_.empty(); }
  absl::StatusOr<absl::string_view> Bytes(uint64_t n) {
    if (n > left_.size()) return InvalidArgument("Data too short when trying to read string");
    const absl::string_view taken = left_.substr(0, n);
    left_.remove_prefix(n);
    return taken;
  }
  // Of `bytes` bytes.
  absl::StatusOr<uint32_t> Number(int bytes) {
    if (static_cast<size_t>(bytes) > left_.size()) {
      return InvalidArgument("Data too short when trying to read string");
    }
    uint32_t number = 0;
    for (int i = 0; i < bytes; ++i) {
      number |= static_cast<uint32_t>(static_cast<uint8_t>(left_[static_cast<size_t>(i)]))
                << (8 * i);
    }
    left_.remove_prefix(static_cast<size_t>(bytes));
    return number;
  }
  absl::Status Expect(absl::string_view text) {
    FORMWORK_ASSIGN_OR_RETURN(const absl::string_view found, Bytes(text.size()));
    if (found == text) return absl::OkStatus();
    return InvalidArgument("Header mismatch: Expected ", text, " but found ", found);
  }
  // Behind the end of the last chunk there is nothing to miss.
  void SkipUpTo(uint64_t n) { left_.remove_prefix(std::min<uint64_t>(n, left_.size())); }

 private:
  absl::string_view left_;
};

struct Wav {
  uint32_t sample_rate = 0;
  int64_t channels = 0;
  int64_t frames = 0;
  absl::string_view samples;  // [frames, channels] of kBytesPerValue.
};

absl::Status ReadFormat(WavReader& file, Wav& wav) {
  while (true) {
    FORMWORK_ASSIGN_OR_RETURN(const absl::string_view chunk, file.Bytes(4));
    if (chunk == "fmt ") break;
    if (std::find(std::begin(kSkippedChunks), std::end(kSkippedChunks), chunk) ==
        std::end(kSkippedChunks)) {
      return InvalidArgument("Unexpected field ", chunk);
    }
    FORMWORK_ASSIGN_OR_RETURN(const uint32_t size, file.Number(4));
    FORMWORK_RETURN_IF_ERROR(file.Bytes(size).status());
  }
  FORMWORK_ASSIGN_OR_RETURN(const uint32_t chunk_size, file.Number(4));
  if (chunk_size != 16 && chunk_size != 18) {
    return InvalidArgument("Bad format chunk size for WAV: Expected 16 or 18, but got", chunk_size);
  }
  FORMWORK_ASSIGN_OR_RETURN(const uint32_t format, file.Number(2));
  if (format != 1) {
    return InvalidArgument("Bad audio format for WAV: Expected 1 (PCM), but got", format);
  }
  FORMWORK_ASSIGN_OR_RETURN(wav.channels, file.Number(2));
  if (wav.channels < 1) {
    return InvalidArgument("Bad number of channels for WAV: Expected at least 1, but got ",
                           wav.channels);
  }
  FORMWORK_ASSIGN_OR_RETURN(wav.sample_rate, file.Number(4));
  FORMWORK_ASSIGN_OR_RETURN(const uint32_t bytes_per_second, file.Number(4));
  FORMWORK_ASSIGN_OR_RETURN(const uint32_t bytes_per_frame, file.Number(2));
  FORMWORK_ASSIGN_OR_RETURN(const uint32_t bits, file.Number(2));
  if (bits != 8 * kBytesPerValue) {
    return InvalidArgument("Can only read 16-bit WAV files, but received ", bits);
  }
  if (bytes_per_frame != kBytesPerValue * wav.channels) {
    return InvalidArgument("Bad bytes per sample in WAV header: Expected ",
                           kBytesPerValue * wav.channels, " but got ", bytes_per_frame);
  }
  const uint64_t expected = uint64_t{bytes_per_frame} * wav.sample_rate;
  if (bytes_per_second != expected) {
    return InvalidArgument("Bad bytes per second in WAV header: Expected ", expected, " but got ",
                           bytes_per_second, " (sample_rate=", wav.sample_rate,
                           ", bytes_per_sample=", bytes_per_frame, ")");
  }
  if (chunk_size == 18) file.SkipUpTo(2);
  return absl::OkStatus();
}

absl::StatusOr<Wav> ReadWav(absl::string_view bytes) {
  WavReader file(bytes);
  Wav wav;
  FORMWORK_RETURN_IF_ERROR(file.Expect("RIFF"));
  FORMWORK_RETURN_IF_ERROR(file.Number(4).status());
  FORMWORK_RETURN_IF_ERROR(file.Expect("WAVE"));
  FORMWORK_RETURN_IF_ERROR(ReadFormat(file, wav));
  bool found = false;
  for (int64_t chunks = 0; !file.AtEnd(); ++chunks) {
    if (WorkIsCutAt(chunks)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const absl::string_view chunk, file.Bytes(4));
    FORMWORK_ASSIGN_OR_RETURN(const uint32_t size, file.Number(4));
    if (size > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("WAV data chunk '", chunk, "' is too large: ", size,
                             " bytes, but the limit is ", std::numeric_limits<int32_t>::max());
    }
    if (chunk != "data") {
      file.SkipUpTo(size);
      continue;
    }
    if (found) return InvalidArgument("More than one data chunk found in WAV");
    found = true;
    const int64_t bytes_per_frame = kBytesPerValue * wav.channels;
    wav.frames = size / bytes_per_frame;
    FORMWORK_ASSIGN_OR_RETURN(wav.samples,
                              file.Bytes(static_cast<uint64_t>(wav.frames * bytes_per_frame)));
  }
  if (!found) return InvalidArgument("No data chunk found in WAV");
  return wav;
}

float SampleAt(const char* at) {
  const auto low = static_cast<uint8_t>(at[0]);
  const auto high = static_cast<uint8_t>(at[1]);
  return static_cast<float>(static_cast<int16_t>(low | (high << 8))) / kFullScale;
}

absl::Status DecodeWav(KernelContext& ctx, const DecodeWavAttrs& attrs) {
  const Tensor contents = ctx.input(0);
  if (contents.rank() != 0) {
    return InvalidArgument("contents must be scalar, got shape ", contents.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Wav wav, ReadWav(contents.scalar<std::string>()));
  const int64_t frames = attrs.desired_samples < 0 ? wav.frames : attrs.desired_samples;
  const int64_t channels = attrs.desired_channels < 0 ? wav.channels : attrs.desired_channels;
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({frames, channels}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * audio, ctx.AllocateOutput(0, DType::kFloat, shape));
  float* out = audio->mutable_data<float>();
  // Missing frames are silent, missing channels are the last one.
  ForBlocks(shape.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t frame = i / channels;
      const int64_t channel = std::min(i % channels, wav.channels - 1);
      out[i] =
          frame < wav.frames
              ? SampleAt(wav.samples.data() + (frame * wav.channels + channel) * kBytesPerValue)
              : 0.0f;
    }
  });
  ctx.SetOutput(1, Tensor::Scalar(static_cast<int32_t>(wav.sample_rate)));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDecodeWav(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DecodeWavAttrs attrs, DecodeWavAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) { return DecodeWav(ctx, attrs); });
}

void AppendNumber(uint32_t number, int bytes, std::string& to) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(number >> (8 * i)));
}

// NaN is silence.
int16_t SampleOf(float value) {
  const float scaled = std::round(value * kFullScale);
  if (std::isnan(scaled)) return 0;
  return static_cast<int16_t>(std::min(std::max(scaled, -kFullScale), kFullScale - 1));
}

// Of sound that CheckWav has passed, [frames, channels].
absl::StatusOr<std::string> WavOf(const float* values, int64_t frames, int64_t channels,
                                  uint32_t rate) {
  const int64_t bytes = frames * channels * kBytesPerValue;
  if (bytes > kMaxTextBytes) {
    return ResourceExhausted("the sound is too long: bytes=", bytes, " limit=", kMaxTextBytes);
  }
  const auto data_bytes = static_cast<uint32_t>(bytes);
  const auto bytes_per_frame = static_cast<uint32_t>(kBytesPerValue * channels);
  std::string file;
  file.reserve(44 + data_bytes);
  file += "RIFF";
  AppendNumber(36 + data_bytes, 4, file);
  file += "WAVEfmt ";
  AppendNumber(16, 4, file);
  AppendNumber(1, 2, file);
  AppendNumber(static_cast<uint32_t>(channels), 2, file);
  AppendNumber(rate, 4, file);
  AppendNumber(rate * bytes_per_frame, 4, file);
  AppendNumber(bytes_per_frame, 2, file);
  AppendNumber(8 * kBytesPerValue, 2, file);
  file += "data";
  AppendNumber(data_bytes, 4, file);
  ForBlocks(frames * channels, kDearItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      AppendNumber(static_cast<uint16_t>(SampleOf(values[i])), kBytesPerValue, file);
    }
  });
  return file;
}

absl::Status EncodeWav(KernelContext& ctx) {
  const Tensor audio = ctx.input(0);
  const Tensor sample_rate = ctx.input(1);
  FORMWORK_RETURN_IF_ERROR(CheckEncodeWav(audio, sample_rate));
  FORMWORK_ASSIGN_OR_RETURN(std::string file,
                            WavOf(audio.data<float>(), audio.dim(0), audio.dim(1),
                                  static_cast<uint32_t>(sample_rate.scalar<int32_t>())));
  ctx.SetOutput(0, Tensor::StringScalar(std::move(file)));
  return absl::OkStatus();
}

// --- AudioSummaryV2 -----------------------------------------------------------------------------

// Fields of Summary, of its values, and of their Audio.
constexpr uint32_t kValue = 1, kTag = 1, kAudio = 6;
constexpr uint32_t kSampleRate = 1, kChannels = 2, kFrames = 3, kEncoded = 4, kContentType = 5;

absl::Status Summarize(KernelContext& ctx, int64_t max_outputs) {
  const Tensor tag = ctx.input(0), clips = ctx.input(1), sample_rate = ctx.input(2);
  FORMWORK_RETURN_IF_ERROR(CheckAudioSummary(tag, clips, sample_rate));
  const int64_t frames = clips.dim(1), channels = clips.rank() == 2 ? 1 : clips.dim(2);
  const float rate = sample_rate.scalar<float>();
  std::string summary;
  for (int64_t i = 0; i < std::min(max_outputs, clips.dim(0)); ++i) {
    if (WorkIsCut()) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(CheckWav(frames, channels));
    FORMWORK_ASSIGN_OR_RETURN(const std::string wav,
                              WavOf(clips.data<float>() + i * frames * channels, frames, channels,
                                    static_cast<uint32_t>(rate)));
    std::string audio, value;
    AppendFixed(kSampleRate, rate, audio);
    AppendVarint(kChannels << 3 | kVarint, audio);
    AppendVarint(static_cast<uint64_t>(channels), audio);
    if (frames > 0) {  // Messages say nothing of what is 0.
      AppendVarint(kFrames << 3 | kVarint, audio);
      AppendVarint(static_cast<uint64_t>(frames), audio);
    }
    AppendBytes(kEncoded, wav, audio);
    AppendBytes(kContentType, "audio/wav", audio);
    // Numbered by how many are asked for, not by how many there are.
    const std::string number = max_outputs > 1 ? absl::StrCat("/", i) : "";
    AppendBytes(kTag, absl::StrCat(tag.scalar<std::string>(), "/audio", number), value);
    AppendBytes(kAudio, audio, value);
    AppendBytes(kValue, value, summary);
    if (static_cast<int64_t>(summary.size()) > kMaxTextBytes) {
      return ResourceExhausted("the summary is too long: limit=", kMaxTextBytes);
    }
  }
  ctx.SetOutput(0, Tensor::StringScalar(std::move(summary)));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSummarize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t max_outputs, init.attrs().Get<int64_t>("max_outputs"));
  return KernelFn([max_outputs](KernelContext& ctx) { return Summarize(ctx, max_outputs); });
}

absl::StatusOr<KernelFn> MakeEncodeWav(KernelInit&) { return KernelFn(&EncodeWav); }

}  // namespace

void RegisterAudioCpuKernels(KernelRegistry& registry) {
  registry.Add("DecodeWav", MakeDecodeWav);
  registry.Add("EncodeWav", MakeEncodeWav);
  registry.Add("AudioSummaryV2", MakeSummarize);
}

}  // namespace formwork
