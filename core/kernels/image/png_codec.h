#pragma once

// PNG by libpng. Errors of the library end the call that they are met in, its messages go nowhere,
// and a deadline is seen while it runs.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"

namespace formwork {

/// One file. Not thread-safe. `file` must outlive it.
class PngDecoder {
 public:
  explicit PngDecoder(absl::string_view file);
  ~PngDecoder();

  /// Reads what comes before the pixels. `channels` 0: as many as the file has. `wide`: 16 bits for
  /// each, else 8. False where that is damaged.
  bool Open(int64_t channels, bool wide);
  int64_t rows() const;
  int64_t cols() const;
  int64_t channels() const;
  /// Fills rows() * cols() * channels() elements. Once, after Open(). False where the data is
  /// damaged, or the work is cut.
  bool Read(void* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `image` is [rows, cols, channels], of 1 to 4 channels. Errors: kInvalidArgument for sizes that a
/// PNG cannot have; those of the allocator.
absl::StatusOr<std::string> EncodePng(int64_t compression, bool wide, int64_t rows, int64_t cols,
                                      int64_t channels, const void* image, Allocator& allocator);

}  // namespace formwork
