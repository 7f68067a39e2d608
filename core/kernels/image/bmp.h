#pragma once

// BMP: uncompressed rows of 8 (grey), 24 or 32 bits for each pixel, as TensorFlow reads them.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace formwork {

struct Bmp {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t channels = 0;  ///< The file's: 1, 3 or 4.
  bool top_down = false;
  absl::string_view pixels;  ///< Of the file: rows of a multiple of 4 bytes.

  /// Errors: kInvalidArgument in TensorFlow's words for a file that is not as it says.
  static absl::StatusOr<Bmp> Open(absl::string_view file);
  /// Fills rows * cols * wanted bytes. `wanted`: 1, of a grey image; 3; or 4.
  void Read(int64_t wanted, uint8_t* to) const;
};

}  // namespace formwork
