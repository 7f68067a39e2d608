#include "core/kernels/image/gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

absl::string_view ErrorText(int code) {
  const char* text = GifErrorString(code);
  return text == nullptr ? "Gif error code: unknown" : text;
}

int ReadBytes(GifFileType* gif, GifByteType* to, int count) {
  auto* left = static_cast<absl::string_view*>(gif->UserData);
  const size_t bytes = std::min(left->size(), static_cast<size_t>(count));
  std::memcpy(to, left->data(), bytes);
  left->remove_prefix(bytes);
  return static_cast<int>(bytes);
}

// One walk through a file.
class GifReader {
 public:
  explicit GifReader(absl::string_view file) : file_(file), left_(file) {}
  ~GifReader() {
    if (gif_ != nullptr) DGifCloseFile(gif_, nullptr);
  }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  absl::Status Open() {
    int code = D_GIF_SUCCEEDED;
    gif_ = DGifOpen(&left_, ReadBytes, &code);
    if (gif_ != nullptr) return absl::OkStatus();
    return Invalid("failed to open gif file: ", ErrorText(code));
  }

  // To the next frame. False: the file ends, or is damaged.
  bool Next() {
    transparent_ = NO_TRANSPARENT_COLOR;
    bool controlled = false;
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      if (WorkIsCut() || DGifGetRecordType(gif_, &type) != GIF_OK) return false;
      if (type == TERMINATE_RECORD_TYPE) return false;
      if (type == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(gif_) == GIF_OK;
      if (type == EXTENSION_RECORD_TYPE && !SkipExtension(controlled)) return false;
    }
  }

  // Of the frame that Next() went to.
  const GifImageDesc& frame() const { return gif_->Image; }
  const ColorMapObject* colors() const {
    return frame().ColorMap != nullptr ? frame().ColorMap : gif_->SColorMap;
  }
  int transparent() const { return transparent_; }

  // Calls use(row, its pixels) for each row of the frame, in the order of the file. False: it is
  // damaged.
  bool ReadRows(absl::FunctionRef<void(int64_t row, const GifPixelType* pixels)> use) {
    const GifImageDesc& image = frame();
    line_.resize(static_cast<size_t>(image.Width));
    constexpr int kFirst[] = {0, 4, 2, 1};
    constexpr int kStep[] = {8, 8, 4, 2};
    const int passes = image.Interlace ? 4 : 1;
    for (int pass = 0; pass < passes; ++pass) {
      const int step = image.Interlace ? kStep[pass] : 1;
      for (int row = image.Interlace ? kFirst[pass] : 0; row < image.Height; row += step) {
        if (WorkIsCut() || DGifGetLine(gif_, line_.data(), image.Width) != GIF_OK) return false;
        use(row, line_.data());
      }
    }
    return true;
  }

  absl::string_view error() const { return ErrorText(gif_->Error); }

  template <typename... Args>
  absl::Status Invalid(const Args&... args) const {
    return InvalidArgument("Invalid GIF data (size ", file_.size(), "), ", args...);
  }

 private:
  // The first graphics control before a frame says which colour is none.
  bool SkipExtension(bool& controlled) {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif_, &code, &block) != GIF_OK) return false;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr && !controlled) {
      controlled = true;
      GraphicsControlBlock control;
      if (DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent_ = control.TransparentColor;
      }
    }
    while (block != nullptr) {
      if (WorkIsCut() || DGifGetExtensionNext(gif_, &block) != GIF_OK) return false;
    }
    return true;
  }

  const absl::string_view file_;
  absl::string_view left_;
  GifFileType* gif_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
  std::vector<GifPixelType> line_;
};

}  // namespace

absl::StatusOr<GifSizes> MeasureGif(absl::string_view file) {
  GifReader reader(file);
  FORMWORK_RETURN_IF_ERROR(reader.Open());
  GifSizes sizes;
  while (reader.Next()) {
    const GifImageDesc& frame = reader.frame();
    if (frame.Width <= 0 || frame.Height <= 0 ||
        frame.Width > std::numeric_limits<int>::max() / frame.Height) {
      break;
    }
    const int64_t rows = frame.Height;
    const int64_t cols = frame.Width;
    if (!reader.ReadRows([](int64_t, const GifPixelType*) {})) break;
    ++sizes.frames;
    sizes.rows = std::max(sizes.rows, rows);
    sizes.cols = std::max(sizes.cols, cols);
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (sizes.frames == 0) {
    return reader.Invalid("failed to slurp gif file: ", reader.error());
  }
  return sizes;
}

absl::Status DecodeGif(absl::string_view file, const GifSizes& sizes, int64_t frames, uint8_t* to) {
  constexpr int64_t kChannels = 3;
  const int64_t image_bytes = sizes.rows * sizes.cols * kChannels;
  GifReader reader(file);
  FORMWORK_RETURN_IF_ERROR(reader.Open());
  for (int64_t k = 0; k < frames; ++k, to += image_bytes) {
    // Has been read before.
    if (!reader.Next()) return WorkStatus();
    const GifImageDesc& frame = reader.frame();
    const int64_t left = frame.Left;
    const int64_t top = frame.Top;
    const bool whole =
        left == 0 && top == 0 && frame.Width == sizes.cols && frame.Height == sizes.rows;
    const uint8_t* before = k == 0 ? nullptr : to - image_bytes;
    if (before != nullptr && !whole) {
      std::memcpy(to, before, static_cast<size_t>(image_bytes));
    } else if (!whole) {
      std::memset(to, 0, static_cast<size_t>(image_bytes));
    }
    const ColorMapObject* colors = reader.colors();
    if (colors == nullptr) return reader.Invalid("missing color map for frame ", k);
    int wrong = -1;
    const int64_t cols = std::min<int64_t>(frame.Width, sizes.cols - left);
    if (!reader.ReadRows([&](int64_t row, const GifPixelType* pixels) {
          if (row + top >= sizes.rows) return;
          const int64_t at = ((row + top) * sizes.cols + left) * kChannels;
          for (int64_t i = 0; i < cols; ++i) {
            uint8_t* pixel = to + at + i * kChannels;
            if (pixels[i] == reader.transparent()) {
              for (int64_t c = 0; c < kChannels; ++c) {
                pixel[c] = before == nullptr ? 0 : before[at + i * kChannels + c];
              }
            } else if (pixels[i] < colors->ColorCount) {
              const GifColorType& color = colors->Colors[pixels[i]];
              pixel[0] = color.Red;
              pixel[1] = color.Green;
              pixel[2] = color.Blue;
            } else {
              wrong = pixels[i];
            }
          }
        })) {
      return WorkStatus();
    }
    if (wrong >= 0) {
      return reader.Invalid("found color index ", wrong, " outside of color map range ",
                            colors->ColorCount);
    }
  }
  return absl::OkStatus();
}

}  // namespace formwork
