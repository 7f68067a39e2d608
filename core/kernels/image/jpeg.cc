#include "core/kernels/image/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/tensor/tensor.h"

extern "C" {
#include <jpeglib.h>
}

namespace formwork {
namespace {

// Bytes of the file that the decoder gets at once: between two it is looked whether it is to stop.
constexpr int64_t kWindow = 64 * 1024;
constexpr int64_t kMostPixels = int64_t{1} << 29;  // As TensorFlow.

// How errors of the library come back. Functions that set `jump` have no objects with destructors.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
};

[[noreturn]] void Leave(j_common_ptr codec) {
  std::longjmp(reinterpret_cast<Errors*>(codec->err)->jump, 1);
}

void SetErrors(Errors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = Leave;
  errors.base.emit_message = [](j_common_ptr, int) {};
  errors.base.output_message = [](j_common_ptr) {};
}

// Called for each row of blocks of each scan of a progressive file.
void LookAtStop(j_common_ptr codec) {
  if (WorkIsCut()) Leave(codec);
}

struct Source {
  jpeg_source_mgr base;
  const uint8_t* next;
  const uint8_t* end;
  bool fake_end;  // Where the file ends too early, say that it ends.
};

boolean FillWindow(j_decompress_ptr codec) {
  static const JOCTET kEnd[] = {0xff, JPEG_EOI};
  auto* source = reinterpret_cast<Source*>(codec->src);
  LookAtStop(reinterpret_cast<j_common_ptr>(codec));
  const int64_t left = std::min<int64_t>(kWindow, source->end - source->next);
  if (left > 0) {
    source->base.next_input_byte = source->next;
    source->base.bytes_in_buffer = static_cast<size_t>(left);
    source->next += left;
    return TRUE;
  }
  if (!source->fake_end) return FALSE;
  source->base.next_input_byte = kEnd;
  source->base.bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}

void SkipBytes(j_decompress_ptr codec, long count) {
  auto* source = reinterpret_cast<Source*>(codec->src);
  if (count <= 0) return;
  const auto bytes = static_cast<size_t>(count);
  if (bytes <= source->base.bytes_in_buffer) {
    source->base.next_input_byte += bytes;
    source->base.bytes_in_buffer -= bytes;
    return;
  }
  const size_t beyond = bytes - source->base.bytes_in_buffer;
  const auto left = static_cast<size_t>(source->end - source->next);
  source->next += std::min(beyond, left);
  source->base.bytes_in_buffer = 0;
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct codec = {};
  Errors errors = {};
  Source source = {};
  jpeg_progress_mgr progress = {};
  JpegReading how;
  bool cropped = false;
  CropWindow crop;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t channels = 0;

  bool four_inks() const { return codec.out_color_space == JCS_CMYK; }
  bool Begin();
  bool ReadRows(uint8_t* line, uint8_t* to, int64_t& rows_read);
};

JpegDecoder::JpegDecoder(absl::string_view file) : state_(std::make_unique<State>()) {
  State& s = *state_;
  SetErrors(s.errors);
  s.codec.err = &s.errors.base;
  s.source.base.init_source = [](j_decompress_ptr) {};
  s.source.base.term_source = [](j_decompress_ptr) {};
  s.source.base.fill_input_buffer = FillWindow;
  s.source.base.skip_input_data = SkipBytes;
  s.source.base.resync_to_restart = jpeg_resync_to_restart;
  s.source.next = reinterpret_cast<const uint8_t*>(file.data());
  s.source.end = s.source.next + file.size();
  s.progress.progress_monitor = LookAtStop;
}

// Of one that was never created nothing is there to be freed.
JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->codec); }

bool JpegDecoder::State::Begin() {
  jpeg_create_decompress(&codec);
  codec.src = &source.base;
  codec.progress = &progress;
  return jpeg_read_header(&codec, TRUE) == JPEG_HEADER_OK;
}

bool JpegDecoder::OpenForSizes() {
  State& s = *state_;
  if (setjmp(s.errors.jump) != 0 || !s.Begin()) return false;
  jpeg_calc_output_dimensions(&s.codec);
  s.rows = s.codec.output_height;
  s.cols = s.codec.output_width;
  s.channels = s.codec.num_components;
  return true;
}

bool JpegDecoder::Open(const JpegReading& how, const CropWindow* crop) {
  State& s = *state_;
  s.how = how;
  s.source.fake_end = how.try_recover_truncated;
  if (crop != nullptr) {
    s.cropped = true;
    s.crop = *crop;
  }
  if (setjmp(s.errors.jump) != 0 || !s.Begin()) return false;
  jpeg_decompress_struct& codec = s.codec;
  s.channels = how.channels > 0 ? how.channels : std::min(codec.num_components, 3);
  if (s.channels == 1) {
    codec.out_color_space = JCS_GRAYSCALE;
  } else if (s.channels == 3) {
    // The library knows no way from four inks to three colours.
    const bool inks = codec.jpeg_color_space == JCS_CMYK || codec.jpeg_color_space == JCS_YCCK;
    codec.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  } else {
    return false;
  }
  codec.do_fancy_upsampling = how.fancy_upscaling ? TRUE : FALSE;
  codec.scale_num = 1;
  codec.scale_denom = static_cast<unsigned>(how.ratio);
  codec.dct_method = how.accurate_dct ? JDCT_ISLOW : JDCT_IFAST;
  jpeg_calc_output_dimensions(&codec);
  s.rows = codec.output_height;
  s.cols = codec.output_width;
  if (s.rows * s.cols >= kMostPixels) return false;
  if (crop == nullptr) return true;
  if (crop->rows <= 0 || crop->cols <= 0 || crop->row < 0 || crop->col < 0 ||
      crop->row + crop->rows > s.rows || crop->col + crop->cols > s.cols) {
    return false;
  }
  s.rows = crop->rows;
  s.cols = crop->cols;
  return true;
}

int64_t JpegDecoder::rows() const { return state_->rows; }
int64_t JpegDecoder::cols() const { return state_->cols; }
int64_t JpegDecoder::channels() const { return state_->channels; }

// `line` has room for a row of the file.
bool JpegDecoder::State::ReadRows(uint8_t* line, uint8_t* to, int64_t& rows_read) {
  if (setjmp(errors.jump) != 0) return false;
  if (!jpeg_start_decompress(&codec)) return true;
  int64_t before = 0;  // Pixels of a row that come before the window.
  if (cropped) {
    // Whole blocks are decoded: the first of them may begin before the window.
    auto first = static_cast<JDIMENSION>(crop.col);
    auto count = static_cast<JDIMENSION>(crop.cols);
    jpeg_crop_scanline(&codec, &first, &count);
    before = static_cast<int64_t>(count) - crop.cols;
    const auto above = static_cast<JDIMENSION>(crop.row);
    if (above > 0 && jpeg_skip_scanlines(&codec, above) != above) return false;
  }
  const int64_t bytes = cols * channels;
  const bool by_line = cropped || four_inks();
  for (; rows_read < rows; ++rows_read) {
    if (WorkIsCut()) return false;
    uint8_t* out = to + rows_read * bytes;
    JSAMPROW row = by_line ? line : out;
    if (jpeg_read_scanlines(&codec, &row, 1) == 0) return true;
    if (four_inks()) {
      const uint8_t* in = line + 4 * before;
      for (int64_t i = 0; i < cols; ++i, in += 4, out += 3) {
        for (int c = 0; c < 3; ++c) {
          // Adobe's files have them inverted.
          const int ink = codec.saw_Adobe_marker ? in[c] * in[3] : (255 - in[c]) * (255 - in[3]);
          out[c] = static_cast<uint8_t>(ink / 255);
        }
      }
    } else if (cropped) {
      std::memcpy(out, line + before * channels, static_cast<size_t>(bytes));
    }
  }
  if (codec.output_scanline == codec.output_height) jpeg_finish_decompress(&codec);
  return true;
}

absl::Status JpegDecoder::Read(Allocator& allocator, uint8_t* to) {
  State& s = *state_;
  const jpeg_decompress_struct& codec = s.codec;
  const int64_t line_bytes = (int64_t{codec.image_width} + 64) * 4;
  // Of a file with several scans the library keeps all coefficients.
  int64_t kept = 0;
  if (codec.progressive_mode || jpeg_has_multiple_scans(&s.codec)) {
    for (int i = 0; i < codec.num_components; ++i) {
      const jpeg_component_info& c = codec.comp_info[i];
      kept += (int64_t{c.width_in_blocks} + c.h_samp_factor) *
              (int64_t{c.height_in_blocks} + c.v_samp_factor) *
              static_cast<int64_t>(sizeof(JBLOCK));
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor line,
                            Tensor::Allocate(allocator, DType::kUint8, Shape({line_bytes})));
  // Counted, and never touched.
  FORMWORK_ASSIGN_OR_RETURN(
      const Tensor reserved,
      Tensor::Allocate(allocator, DType::kUint8, Shape({std::max<int64_t>(kept, 1)})));
  int64_t rows_read = 0;
  const bool whole = s.ReadRows(line.mutable_data<uint8_t>(), to, rows_read);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (!whole) return JpegDecodingFailed();
  if (rows_read < s.rows) {
    const int64_t bytes = s.cols * s.channels;
    uint8_t* rest = to + rows_read * bytes;
    if (s.how.try_recover_truncated) {
      // As the last row that is there.
      for (; rows_read < s.rows; ++rows_read, rest += bytes) {
        if (rows_read == 0) {
          std::memset(rest, 0, static_cast<size_t>(bytes));
        } else {
          std::memcpy(rest, rest - bytes, static_cast<size_t>(bytes));
        }
      }
      return absl::OkStatus();
    }
    const float fraction = static_cast<float>(rows_read) / static_cast<float>(s.rows);
    if (fraction < std::min(1.0f, s.how.acceptable_fraction)) return JpegDecodingFailed();
    std::memset(rest, 0, static_cast<size_t>((s.rows - rows_read) * bytes));
  }
  return absl::OkStatus();
}

absl::Status JpegDecodingFailed() {
  return InvalidArgument("jpeg::Uncompress failed. Invalid JPEG data or crop window.");
}

namespace {

constexpr absl::string_view kXmpName("http://ns.adobe.com/xap/1.0/\0", 29);

struct Sink {
  jpeg_destination_mgr base;
};

struct Encoder {
  jpeg_compress_struct codec = {};
  Errors errors = {};
  Sink sink = {};
  ~Encoder() { jpeg_destroy_compress(&codec); }

  // The bytes written, or -1.
  int64_t Run(const JpegWriting& how, int64_t rows, int64_t cols, int64_t channels,
              const uint8_t* image, const uint8_t* xmp, int64_t xmp_bytes, uint8_t* to,
              int64_t room);
};

int64_t Encoder::Run(const JpegWriting& how, int64_t rows, int64_t cols, int64_t channels,
                     const uint8_t* image, const uint8_t* xmp, int64_t xmp_bytes, uint8_t* to,
                     int64_t room) {
  SetErrors(errors);
  codec.err = &errors.base;
  if (setjmp(errors.jump) != 0) return -1;
  jpeg_create_compress(&codec);
  sink.base.init_destination = [](j_compress_ptr) {};
  sink.base.term_destination = [](j_compress_ptr) {};
  // There is room for the largest that it can be.
  sink.base.empty_output_buffer = [](j_compress_ptr c) -> boolean {
    Leave(reinterpret_cast<j_common_ptr>(c));
  };
  sink.base.next_output_byte = to;
  sink.base.free_in_buffer = static_cast<size_t>(room);
  codec.dest = &sink.base;
  codec.image_width = static_cast<JDIMENSION>(cols);
  codec.image_height = static_cast<JDIMENSION>(rows);
  codec.input_components = static_cast<int>(channels);
  codec.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&codec);
  if (how.optimize_size) codec.optimize_coding = TRUE;
  codec.density_unit = how.per_inch ? 1 : 2;
  codec.X_density = static_cast<UINT16>(how.x_density);
  codec.Y_density = static_cast<UINT16>(how.y_density);
  jpeg_set_quality(&codec, static_cast<int>(how.quality), TRUE);
  if (how.progressive) jpeg_simple_progression(&codec);
  if (!how.chroma_downsampling) {
    for (int i = 0; i < codec.num_components; ++i) {
      codec.comp_info[i].h_samp_factor = 1;
      codec.comp_info[i].v_samp_factor = 1;
    }
  }
  jpeg_start_compress(&codec, TRUE);
  if (xmp_bytes > 0) {
    jpeg_write_marker(&codec, JPEG_APP0 + 1, xmp, static_cast<unsigned>(xmp_bytes));
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (WorkIsCut()) return -1;
    // The library only reads it.
    JSAMPROW line = const_cast<uint8_t*>(image + row * cols * channels);
    jpeg_write_scanlines(&codec, &line, 1);
  }
  jpeg_finish_compress(&codec);
  return room - static_cast<int64_t>(sink.base.free_in_buffer);
}

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(const JpegWriting& how, int64_t rows, int64_t cols,
                                       int64_t channels, const uint8_t* image,
                                       Allocator& allocator) {
  std::string xmp;
  if (!how.xmp_metadata.empty()) xmp = absl::StrCat(kXmpName, how.xmp_metadata);
  constexpr int64_t kLongestMarker = 65533;
  if (rows < 1 || cols < 1 || rows > JPEG_MAX_DIMENSION || cols > JPEG_MAX_DIMENSION ||
      static_cast<int64_t>(xmp.size()) > kLongestMarker) {
    return InvalidArgument("JPEG encoding failed");
  }
  // A coefficient takes at most 2 bytes and some bits of Huffman code, and stuffing doubles it.
  const int64_t padded = (rows + 15) / 16 * 16 * ((cols + 15) / 16 * 16);
  const int64_t room = padded * channels * 4 + 65536 + static_cast<int64_t>(xmp.size());
  // What the library keeps for a progressive file, or to choose Huffman codes by.
  const int64_t kept = how.progressive || how.optimize_size ? padded * channels * 2 : 1;
  FORMWORK_ASSIGN_OR_RETURN(Tensor bytes,
                            Tensor::Allocate(allocator, DType::kUint8, Shape({room})));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor reserved,
                            Tensor::Allocate(allocator, DType::kUint8, Shape({kept})));
  auto encoder = std::make_unique<Encoder>();
  auto* to = bytes.mutable_data<uint8_t>();
  const int64_t written =
      encoder->Run(how, rows, cols, channels, image, reinterpret_cast<const uint8_t*>(xmp.data()),
                   static_cast<int64_t>(xmp.size()), to, room);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (written < 0) return InvalidArgument("JPEG encoding failed");
  return std::string(reinterpret_cast<const char*>(to), static_cast<size_t>(written));
}

}  // namespace formwork
