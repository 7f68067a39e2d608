#include "core/kernels/image/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/image/webp_memory.h"

namespace formwork {
namespace {

// Bytes of the file that the decoder gets at once: between two it is looked whether it is to stop.
constexpr size_t kPiece = 64 * 1024;
// Pixels of an image that is decoded at once, in some milliseconds: in pieces, libwebp refuses a
// few files of some pixels that it takes else.
constexpr int64_t kPixelsAtOnce = int64_t{1} << 18;

const uint8_t* Bytes(absl::string_view file) {
  return reinterpret_cast<const uint8_t*>(file.data());
}

absl::Status ImageFailed(VP8StatusCode code) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (code == VP8_STATUS_OUT_OF_MEMORY) return ResourceExhausted("WebP decoding: no memory");
  return InvalidArgument("Failed to decode WebP image.");
}

template <typename... Args>
absl::Status AnimationFailed(const Args&... args) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return InvalidArgument("Failed to decode WebP Animation: ", args...);
}

absl::StatusOr<Tensor> ReserveBytes(Allocator& allocator, int64_t bytes) {
  return Tensor::Allocate(allocator, DType::kUint8, Shape({bytes}));
}

struct DeleteDecoder {
  void operator()(WebPIDecoder* decoder) const { WebPIDelete(decoder); }
};

}  // namespace

absl::StatusOr<Webp> Webp::Open(absl::string_view file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(Bytes(file), file.size(), &features) != VP8_STATUS_OK) {
    return InvalidArgument("Failed to decode WebP header.");
  }
  Webp webp;
  webp.file = file;
  webp.rows = features.height;
  webp.cols = features.width;
  webp.channels = features.has_alpha != 0 ? 4 : 3;
  webp.animated = features.has_animation != 0;
  return webp;
}

absl::StatusOr<Tensor> Webp::Reserve(Allocator& allocator) const {
  const std::optional<int64_t> bytes = WebpDecodingBytes(file, rows, cols);
  if (!bytes.has_value()) return ImageFailed(VP8_STATUS_BITSTREAM_ERROR);
  return ReserveBytes(allocator, *bytes);
}

absl::Status Webp::Read(uint8_t* to) const {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return Internal("libwebp is of another version");
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = static_cast<int>(cols * channels);
  config.output.u.RGBA.size = static_cast<size_t>(rows * cols * channels);
  if (rows * cols <= kPixelsAtOnce) {
    if (WorkIsCut()) return WorkStatus();
    const VP8StatusCode code = WebPDecode(Bytes(file), file.size(), &config);
    return code == VP8_STATUS_OK ? absl::OkStatus() : ImageFailed(code);
  }
  const std::unique_ptr<WebPIDecoder, DeleteDecoder> decoder(WebPIDecode(nullptr, 0, &config));
  if (decoder == nullptr) return ImageFailed(VP8_STATUS_OUT_OF_MEMORY);
  size_t size = std::min(kPiece, file.size());
  for (;;) {
    if (WorkIsCut()) return WorkStatus();
    const VP8StatusCode code = WebPIUpdate(decoder.get(), Bytes(file), size);
    if (code == VP8_STATUS_OK) return absl::OkStatus();
    if (code != VP8_STATUS_SUSPENDED || size == file.size()) return ImageFailed(code);
    // What comes before the rows is read anew each time.
    int rows_read = 0;
    WebPIDecodedArea(decoder.get(), nullptr, nullptr, nullptr, &rows_read);
    size = std::min(file.size(), rows_read > 0 ? size + kPiece : 2 * size);
  }
}

void WebpAnimation::Delete::operator()(WebPAnimDecoder* decoder) const {
  WebPAnimDecoderDelete(decoder);
}

absl::StatusOr<WebpAnimation> WebpAnimation::Open(const Webp& webp, Allocator& allocator) {
  // Two frames, and what is known of each chunk and frame of the file.
  const int64_t bytes =
      2 * 4 * webp.rows * webp.cols + 4 * static_cast<int64_t>(webp.file.size()) + 4096;
  FORMWORK_ASSIGN_OR_RETURN(Tensor reserved, ReserveBytes(allocator, bytes));
  WebpAnimation animation(webp, allocator, std::move(reserved));
  const WebPData data = {Bytes(webp.file), webp.file.size()};
  animation.decoder_.reset(WebPAnimDecoderNew(&data, nullptr));
  if (animation.decoder_ == nullptr) return AnimationFailed("failed to decode WebP Animation");
  WebPAnimInfo info;
  if (WebPAnimDecoderGetInfo(animation.decoder_.get(), &info) == 0 ||
      info.canvas_height != webp.rows || info.canvas_width != webp.cols) {
    return AnimationFailed("failed to get WebP Animation Info");
  }
  animation.frames_ = info.frame_count;
  return animation;
}

absl::Status WebpAnimation::Read(int64_t frames, uint8_t* to) {
  const WebPDemuxer* demuxer = WebPAnimDecoderGetDemuxer(decoder_.get());
  for (int64_t k = 0; k < frames; ++k, to += frame_bytes_) {
    if (WorkIsCut()) return WorkStatus();
    WebPIterator frame;
    if (WebPDemuxGetFrame(demuxer, static_cast<int>(k) + 1, &frame) == 0) {
      return AnimationFailed("only read ", k, " of ", frames, " frames");
    }
    const absl::string_view chunks(reinterpret_cast<const char*>(frame.fragment.bytes),
                                   frame.fragment.size);
    const std::optional<int64_t> bytes = WebpDecodingBytes(chunks, frame.height, frame.width);
    WebPDemuxReleaseIterator(&frame);
    if (!bytes.has_value()) return AnimationFailed("failed to decode frame: ", k);
    FORMWORK_ASSIGN_OR_RETURN(const Tensor reserved, ReserveBytes(*allocator_, *bytes));
    uint8_t* canvas = nullptr;
    int timestamp = 0;
    if (WebPAnimDecoderGetNext(decoder_.get(), &canvas, &timestamp) == 0) {
      return AnimationFailed("failed to decode frame: ", k);
    }
    std::memcpy(to, canvas, static_cast<size_t>(frame_bytes_));
  }
  return absl::OkStatus();
}

}  // namespace formwork
