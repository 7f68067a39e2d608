#include "core/kernels/image/png_codec.h"

#include <png.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/tensor/tensor.h"

namespace formwork {
namespace {

void Leave(png_structp png, png_const_charp) { png_longjmp(png, 1); }
void Ignore(png_structp, png_const_charp) {}

struct Bytes {
  const char* next;
  const char* end;
};

void ReadBytes(png_structp png, png_bytep to, png_size_t count) {
  auto* bytes = static_cast<Bytes*>(png_get_io_ptr(png));
  if (static_cast<size_t>(bytes->end - bytes->next) < count) png_error(png, "end of data");
  std::memcpy(to, bytes->next, count);
  bytes->next += count;
}

}  // namespace

struct PngDecoder::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes bytes = {};
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t channels = 0;
  int passes = 1;
  bool widen = false;  // Elements of 8 bits are to be of 16.

  bool Begin(int64_t wanted, bool wide);
  bool ReadRows(uint8_t* to, int64_t row_bytes);
};

PngDecoder::PngDecoder(absl::string_view file) : state_(std::make_unique<State>()) {
  state_->bytes = {file.data(), file.data() + file.size()};
}

PngDecoder::~PngDecoder() {
  png_destroy_read_struct(&state_->png, state_->info != nullptr ? &state_->info : nullptr, nullptr);
}

int64_t PngDecoder::rows() const { return state_->rows; }
int64_t PngDecoder::cols() const { return state_->cols; }
int64_t PngDecoder::channels() const { return state_->channels; }

bool PngDecoder::Open(int64_t channels, bool wide) {
  State& s = *state_;
  s.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, Leave, Ignore);
  if (s.png == nullptr) return false;
  s.info = png_create_info_struct(s.png);
  return s.info != nullptr && s.Begin(channels, wide);
}

bool PngDecoder::State::Begin(int64_t wanted, bool wide) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, &bytes, ReadBytes);
  png_read_info(png, info);
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int depth = 0;
  int colors = 0;
  if (png_get_IHDR(png, info, &width, &height, &depth, &colors, nullptr, nullptr, nullptr) == 0) {
    return false;
  }
  rows = height;
  cols = width;
  const bool transparent = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  const bool alpha = (colors & PNG_COLOR_MASK_ALPHA) != 0;
  channels = wanted;
  if (channels == 0) {
    channels = png_get_channels(png, info);
    if (colors == PNG_COLOR_TYPE_PALETTE) channels = transparent ? 4 : 3;
  }
  const bool wants_alpha = channels % 2 == 0;
  if (wants_alpha && !alpha) {
    if (transparent) {
      png_set_tRNS_to_alpha(png);
    } else {
      // As TensorFlow: the largest of the file's depth, also where colours become wider.
      png_set_add_alpha(png, (1u << depth) - 1, PNG_FILLER_AFTER);
    }
  } else if (!wants_alpha && (alpha || transparent)) {
    png_set_strip_alpha(png);
  }
  if (depth > 8 && !wide) png_set_strip_16(png);
  widen = depth <= 8 && wide;
  png_set_packing(png);
  passes = png_set_interlace_handling(png);
  if (wide && !widen && std::endian::native == std::endian::little) png_set_swap(png);
  if (colors == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  const bool gray = (colors & PNG_COLOR_MASK_COLOR) == 0;
  if (gray && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (channels < 3 && !gray) {
    png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  } else if (channels >= 3 && gray) {
    png_set_gray_to_rgb(png);
  }
  png_read_update_info(png, info);
  // Whatever the file says, rows must fit where they go.
  const png_size_t element = wide && !widen ? 2 : 1;
  return png_get_rowbytes(png, info) == width * static_cast<png_size_t>(channels) * element;
}

bool PngDecoder::State::ReadRows(uint8_t* to, int64_t row_bytes) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t row = 0; row < rows; ++row) {
      if (WorkIsCut()) return false;
      png_read_row(png, to + row * row_bytes, nullptr);
    }
  }
  png_read_end(png, nullptr);
  return true;
}

bool PngDecoder::Read(void* to) {
  const State& s = *state_;
  const auto row_bytes = static_cast<int64_t>(png_get_rowbytes(s.png, s.info));
  auto* bytes = static_cast<uint8_t*>(to);
  if (!s.widen) return state_->ReadRows(bytes, row_bytes);
  // Into the second half, which widening from the front reaches last.
  if (!state_->ReadRows(bytes + s.rows * row_bytes, row_bytes)) return false;
  auto* elements = static_cast<uint16_t*>(to);
  const uint8_t* from = bytes + s.rows * row_bytes;
  for (int64_t row = 0; row < s.rows; ++row) {
    if (WorkIsCut()) return false;
    for (int64_t i = row * row_bytes; i < (row + 1) * row_bytes; ++i) {
      elements[i] = static_cast<uint16_t>(from[i] * 0x101);
    }
  }
  return true;
}

namespace {

struct Room {
  uint8_t* next;
  uint8_t* end;
};

void WriteBytes(png_structp png, png_bytep from, png_size_t count) {
  auto* room = static_cast<Room*>(png_get_io_ptr(png));
  if (static_cast<size_t>(room->end - room->next) < count) png_error(png, "no room");
  std::memcpy(room->next, from, count);
  room->next += count;
}

struct Encoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Encoder() { png_destroy_write_struct(&png, info != nullptr ? &info : nullptr); }

  bool Write(int64_t compression, bool wide, int64_t rows, int64_t cols, int64_t channels,
             const uint8_t* image, Room& room);
};

bool Encoder::Write(int64_t compression, bool wide, int64_t rows, int64_t cols, int64_t channels,
                    const uint8_t* image, Room& room) {
  constexpr int kColors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                             PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &room, WriteBytes, [](png_structp) {});
  png_set_compression_level(png, static_cast<int>(compression));
  png_set_compression_mem_level(png, 9);
  png_set_IHDR(png, info, static_cast<png_uint_32>(cols), static_cast<png_uint_32>(rows),
               wide ? 16 : 8, kColors[channels - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  if (wide && std::endian::native == std::endian::little) png_set_swap(png);
  const int64_t row_bytes = cols * channels * (wide ? 2 : 1);
  for (int64_t row = 0; row < rows; ++row) {
    if (WorkIsCut()) return false;
    png_write_row(png, image + row * row_bytes);
  }
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(int64_t compression, bool wide, int64_t rows, int64_t cols,
                                      int64_t channels, const void* image, Allocator& allocator) {
  Encoder encoder;
  encoder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, Leave, Ignore);
  if (encoder.png != nullptr) encoder.info = png_create_info_struct(encoder.png);
  if (encoder.info == nullptr) return ResourceExhausted("PNG encoding: no memory");
  // What does not become smaller becomes some bytes larger: blocks of zlib, chunks of 8192 bytes.
  const int64_t plain = (cols * channels * (wide ? 2 : 1) + 1) * rows;
  const int64_t most = plain + plain / 8 + plain / 64;
  const int64_t room_bytes = most + most / 8192 * 12 + 4096;
  FORMWORK_ASSIGN_OR_RETURN(Tensor bytes,
                            Tensor::Allocate(allocator, DType::kUint8, Shape({room_bytes})));
  auto* begin = bytes.mutable_data<uint8_t>();
  Room room = {begin, begin + room_bytes};
  const bool written = encoder.Write(compression, wide, rows, cols, channels,
                                     static_cast<const uint8_t*>(image), room);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (!written) return InvalidArgument("PNG encoding failed");
  return std::string(reinterpret_cast<const char*>(begin), static_cast<size_t>(room.next - begin));
}

}  // namespace formwork
