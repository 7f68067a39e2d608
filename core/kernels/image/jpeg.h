#pragma once

// JPEG by libjpeg-turbo. What a file says is not trusted: errors of the library end the call that
// they are met in, its messages go nowhere, what it takes itself is bounded by the allocator's
// limits, and a deadline is seen while it decodes.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/ops/image_files.h"

namespace formwork {

/// One file. Not thread-safe. `file` must outlive it.
class JpegDecoder {
 public:
  explicit JpegDecoder(absl::string_view file);
  ~JpegDecoder();

  /// Reads what comes before the pixels. False where that is damaged, or not what `how` and `crop`
  /// (null: all of it) ask for. rows() and cols() are then those of what is decoded.
  bool Open(const JpegReading& how, const CropWindow* crop);
  /// The sizes in the file, without decoding. False as above.
  bool OpenForSizes();

  int64_t rows() const;
  int64_t cols() const;
  int64_t channels() const;

  /// Fills rows() * cols() * channels() bytes. Once, after Open(). What a progressive file takes
  /// besides is reserved in `allocator` first. Errors: kInvalidArgument as TensorFlow's for damaged
  /// data; kResourceExhausted; those of work that is cut.
  absl::Status Read(Allocator& allocator, uint8_t* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// TensorFlow's words for a file that cannot be decoded.
absl::Status JpegDecodingFailed();

/// `image` is [rows, cols, channels], 1 or 3 channels. Errors: kInvalidArgument for sizes that a
/// JPEG cannot have, or metadata that is too long; those of the allocator.
absl::StatusOr<std::string> EncodeJpeg(const JpegWriting& how, int64_t rows, int64_t cols,
                                       int64_t channels, const uint8_t* image,
                                       Allocator& allocator);

}  // namespace formwork
