#pragma once

// WebP by libwebp. What it takes itself is reserved in the call's allocator beforehand. A deadline
// is seen between pieces of a file and frames of an animation: where few bytes say much, a piece
// may be a whole image of 16383x16383 pixels.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/tensor/tensor.h"

struct WebPAnimDecoder;

namespace formwork {

/// One file, as its header says it is. `file` must outlive it.
struct Webp {
  absl::string_view file;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t channels = 0;  ///< 3 or 4.
  bool animated = false;

  /// Errors: kInvalidArgument in TensorFlow's words.
  static absl::StatusOr<Webp> Open(absl::string_view file);
  /// Of one that is not animated: what is to be held while it is read. Errors: kInvalidArgument in
  /// TensorFlow's words where the image is not there; kResourceExhausted; those of work that is
  /// cut.
  absl::StatusOr<Tensor> Reserve(Allocator& allocator) const;
  /// Fills rows * cols * channels bytes. Errors: kInvalidArgument in TensorFlow's words;
  /// kResourceExhausted; those of work that is cut.
  absl::Status Read(uint8_t* to) const;
};

/// The frames of an animated file, each painted over the one before.
class WebpAnimation {
 public:
  /// Errors: kInvalidArgument in TensorFlow's words; kResourceExhausted.
  static absl::StatusOr<WebpAnimation> Open(const Webp& webp, Allocator& allocator);

  int64_t frames() const { return frames_; }
  /// Fills the first `frames` frames of rows * cols * 4 bytes. Once. Errors: as Open; those of work
  /// that is cut.
  absl::Status Read(int64_t frames, uint8_t* to);

 private:
  struct Delete {
    void operator()(WebPAnimDecoder* decoder) const;
  };

  WebpAnimation(const Webp& webp, Allocator& allocator, Tensor reserved)
      : frame_bytes_(webp.rows * webp.cols * 4), allocator_(&allocator), reserved_(reserved) {}

  int64_t frame_bytes_;
  int64_t frames_ = 0;
  Allocator* allocator_;
  Tensor reserved_;  // Counted, and never touched.
  std::unique_ptr<WebPAnimDecoder, Delete> decoder_;
};

}  // namespace formwork
