#include "core/kernels/image/bmp.h"

#include <cstdlib>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kHeaderBytes = 32;  // As much of it as is read.
constexpr int64_t kMostBytes = int64_t{1} << 30;

// The int32 at `at`; the file is little-endian.
int64_t Int32At(absl::string_view file, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i > 0; --i) value = value << 8 | static_cast<uint8_t>(file[at + i - 1]);
  return static_cast<int32_t>(value);
}

int64_t RowBytes(int64_t cols, int64_t channels) { return (cols * channels + 3) / 4 * 4; }

}  // namespace

absl::StatusOr<Bmp> Bmp::Open(absl::string_view file) {
  if (file.size() < kHeaderBytes) {
    return InvalidArgument(
        "Incomplete bmp content, requires at least 32 bytes to find the header size, width, "
        "height, and bpp, got ",
        file.size(), " bytes");
  }
  const int64_t header = Int32At(file, 10);
  if (header < 0) return InvalidArgument("header size must be nonnegative");
  Bmp bmp;
  bmp.cols = Int32At(file, 18);
  const int64_t height = Int32At(file, 22);
  bmp.rows = std::abs(height);
  bmp.top_down = height < 0;
  bmp.channels = static_cast<int16_t>(Int32At(file, 28) & 0xffff) / 8;
  if (bmp.channels != 1 && bmp.channels != 3 && bmp.channels != 4) {
    return InvalidArgument("Number of channels inherent in the image must be 1, 3 or 4, was ",
                           bmp.channels);
  }
  if (bmp.cols <= 0) return InvalidArgument("Width must be positive");
  if (bmp.rows == 0) return InvalidArgument("Height must be nonzero");
  if (bmp.rows > kMostBytes / 4 / bmp.cols) {
    return InvalidArgument("Total possible pixel bytes must be less than 2^30");
  }
  const int64_t difference =
      static_cast<int64_t>(file.size()) - header - RowBytes(bmp.cols, bmp.channels) * bmp.rows;
  if (difference != 0) {
    return InvalidArgument(
        "Input size should match (header_size + row_size * abs_height) but they differ by ",
        difference);
  }
  bmp.pixels = file.substr(static_cast<size_t>(header));
  return bmp;
}

void Bmp::Read(int64_t wanted, uint8_t* to) const {
  const auto* from = reinterpret_cast<const uint8_t*>(pixels.data());
  ForBlocks(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* in = from + (top_down ? row : rows - 1 - row) * RowBytes(cols, channels);
      uint8_t* out = to + row * cols * wanted;
      for (int64_t i = 0; i < cols; ++i, in += channels, out += wanted) {
        // Blue comes first.
        for (int64_t c = 0; c < wanted && c < 3; ++c) out[c] = in[channels == 1 ? 0 : 2 - c];
        if (wanted == 4) out[3] = channels == 4 ? in[3] : 255;
      }
    }
  });
}

}  // namespace formwork
