// What a lossless image takes depends on how many groups of prefix codes it has: libwebp makes
// tables for each, up to 20 KB for 4x4 pixels. The format says that behind the small images of its
// transforms, which are skipped here. Images that are not lossless take a few rows, and a plane for
// what is transparent, which may be a lossless image of its own.

#include "core/kernels/image/webp_memory.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

using absl::string_view;

constexpr int kLiterals = 256;
constexpr int kLengths = 24;
constexpr int kDistances = 40;
constexpr int kMostCodeBits = 15;

uint8_t ByteAt(string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

uint32_t Uint32At(string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i > 0; --i) value = value << 8 | ByteAt(bytes, at + i - 1);
  return value;
}

// Of a lossless image; the lowest of a byte come first.
class Bits {
 public:
  explicit Bits(string_view bytes) : bytes_(bytes) {}

  // Up to 24 of them; 0 behind the end.
  uint32_t Read(int count) {
    while (held_ < count) {
      if (next_ == bytes_.size()) {
        ended_ = true;
        return 0;
      }
      value_ |= uint32_t{ByteAt(bytes_, next_++)} << held_;
      held_ += 8;
    }
    const uint32_t read = value_ & ((uint32_t{1} << count) - 1);
    value_ >>= count;
    held_ -= count;
    return read;
  }
  bool ended() const { return ended_; }

 private:
  const string_view bytes_;
  size_t next_ = 0;
  uint32_t value_ = 0;
  int held_ = 0;
  bool ended_ = false;
};

class PrefixCode {
 public:
  // False: the lengths are not those of a code.
  bool Set(absl::Span<const uint8_t> lengths) {
    counts_.fill(0);
    for (const uint8_t length : lengths) ++counts_[length];
    counts_[0] = 0;
    symbols_.clear();
    for (int length = 1; length <= kMostCodeBits; ++length) {
      if (counts_[length] == 0) continue;
      for (size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] == length) symbols_.push_back(static_cast<uint16_t>(i));
      }
    }
    if (symbols_.size() < 2) return !symbols_.empty();
    int open = 1;
    for (int length = 1; length <= kMostCodeBits; ++length) {
      open = 2 * open - counts_[length];
      if (open < 0) return false;
    }
    return open == 0;
  }

  int Next(Bits& bits) const {
    if (symbols_.size() == 1) return symbols_[0];  // Takes no bits.
    int code = 0;
    int first = 0;  // Code of the length, and its symbol.
    int index = 0;
    for (int length = 1; length < kMostCodeBits; ++length) {
      code |= static_cast<int>(bits.Read(1));
      const int count = counts_[length];
      if (code - first < count) return symbols_[index + code - first];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    code |= static_cast<int>(bits.Read(1));
    return symbols_[index + code - first];
  }

 private:
  std::array<int, kMostCodeBits + 1> counts_;
  std::vector<uint16_t> symbols_;  // By length, then by value.
};

// The lengths of a code's symbols, themselves coded.
bool ReadLengths(Bits& bits, absl::Span<uint8_t> lengths) {
  constexpr std::array<uint8_t, 19> kOrder = {17, 18, 0, 1,  2,  3,  4,  5,  16, 6,
                                              7,  8,  9, 10, 11, 12, 13, 14, 15};
  std::array<uint8_t, 19> of_lengths = {};
  const auto count = static_cast<int>(bits.Read(4)) + 4;
  for (int i = 0; i < count; ++i) of_lengths[kOrder[i]] = static_cast<uint8_t>(bits.Read(3));
  PrefixCode code;
  if (!code.Set(of_lengths)) return false;
  size_t most = lengths.size();  // Symbols that are read.
  if (bits.Read(1) != 0) {
    const int width = 2 + 2 * static_cast<int>(bits.Read(3));
    most = 2 + bits.Read(width);
    if (most > lengths.size()) return false;
  }
  uint8_t before = 8;
  for (size_t at = 0; at < lengths.size() && most > 0; --most) {
    const int symbol = code.Next(bits);
    if (symbol < 16) {
      lengths[at++] = static_cast<uint8_t>(symbol);
      if (symbol != 0) before = static_cast<uint8_t>(symbol);
      continue;
    }
    const size_t repeats = symbol == 16   ? 3 + bits.Read(2)
                           : symbol == 17 ? 3 + bits.Read(3)
                                          : 11 + bits.Read(7);
    if (repeats > lengths.size() - at) return false;
    std::fill_n(lengths.begin() + at, repeats, symbol == 16 ? before : uint8_t{0});
    at += repeats;
  }
  return true;
}

bool ReadCode(Bits& bits, int symbols, PrefixCode& code) {
  std::vector<uint8_t> lengths(std::max(symbols, kLiterals));
  const absl::Span<uint8_t> used = absl::MakeSpan(lengths).subspan(0, symbols);
  if (bits.Read(1) != 0) {
    const bool two = bits.Read(1) != 0;
    lengths[bits.Read(bits.Read(1) == 0 ? 1 : 8)] = 1;
    if (two) lengths[bits.Read(8)] = 1;
  } else if (!ReadLengths(bits, used)) {
    return false;
  }
  return !bits.ended() && code.Set(used);
}

// A length or a distance.
int64_t ReadLong(Bits& bits, int symbol) {
  if (symbol < 4) return symbol + 1;
  const int more = (symbol - 2) >> 1;
  return (int64_t{2 + (symbol & 1)} << more) + bits.Read(more) + 1;
}

// Of the colours seen last. -1: damaged.
int ReadCacheBits(Bits& bits) {
  if (bits.Read(1) == 0) return 0;
  const auto cache = static_cast<int>(bits.Read(4));
  return cache >= 1 && cache <= 11 ? cache : -1;
}

// One image of a transform. False: damaged, or work is cut.
bool SkipImage(Bits& bits, int64_t pixels) {
  const int cache = ReadCacheBits(bits);
  if (cache < 0) return false;
  const int green = kLiterals + kLengths + (cache > 0 ? 1 << cache : 0);
  std::array<PrefixCode, 5> codes;
  for (size_t i = 0; i < codes.size(); ++i) {
    const int symbols = i == 0 ? green : i == 4 ? kDistances : kLiterals;
    if (!ReadCode(bits, symbols, codes[i])) return false;
  }
  int64_t at = 0;
  for (int64_t step = 0; at < pixels; ++step) {
    if (bits.ended() || WorkIsCutAt(step)) return false;
    const int symbol = codes[0].Next(bits);
    if (symbol < kLiterals) {
      for (int i = 1; i <= 3; ++i) codes[i].Next(bits);
      ++at;
    } else if (symbol < kLiterals + kLengths) {
      at += ReadLong(bits, symbol - kLiterals);
      ReadLong(bits, codes[4].Next(bits));
    } else {
      ++at;
    }
  }
  return at == pixels && !bits.ended();
}

// How many tiles of 2^bits pixels a row has.
int64_t Tiles(int64_t pixels, int bits) { return (pixels + (int64_t{1} << bits) - 1) >> bits; }

// Of a lossless image without its header.
std::optional<int64_t> LosslessBytes(string_view data, int64_t rows, int64_t cols) {
  enum Transform { kPredictor, kColor, kSubtractGreen, kColorIndexing };
  Bits bits(data);
  int64_t coded_cols = cols;
  std::array<bool, 4> seen = {};
  while (bits.Read(1) != 0) {
    const uint32_t transform = bits.Read(2);
    if (seen[transform]) return std::nullopt;
    seen[transform] = true;
    if (transform == kPredictor || transform == kColor) {
      const int tile = static_cast<int>(bits.Read(3)) + 2;
      if (!SkipImage(bits, Tiles(coded_cols, tile) * Tiles(rows, tile))) return std::nullopt;
    } else if (transform == kColorIndexing) {
      const int64_t colors = bits.Read(8) + 1;
      if (!SkipImage(bits, colors)) return std::nullopt;
      coded_cols = Tiles(coded_cols, colors > 16 ? 0 : colors > 4 ? 1 : colors > 2 ? 2 : 3);
    }
  }
  const int cache = ReadCacheBits(bits);
  if (cache < 0) return std::nullopt;
  int64_t groups = 1;
  if (bits.Read(1) != 0) {
    const int tile = static_cast<int>(bits.Read(3)) + 2;
    groups = std::min<int64_t>(Tiles(coded_cols, tile) * Tiles(rows, tile), 65536);
  }
  if (bits.ended()) return std::nullopt;
  // Entries of the largest tables that codes of up to 15 bits need, by their first 8 bits: of
  // green, of red, blue and alpha, of distances.
  const int64_t entries = 656 + (cache > 0 ? 1 << cache : 0) + 3 * 630 + 410;
  constexpr int64_t kEntry = 4;
  constexpr int64_t kGroup = 600;
  constexpr int64_t kPixel = 4;
  constexpr int64_t kRowsHeld = 17;
  constexpr int64_t kBesides =
      512 * 1024;  // Which group is which, colours seen last, small tables.
  const int64_t transforms = 3 * Tiles(cols, 2) * Tiles(rows, 2);
  return kPixel * (cols * (rows + kRowsHeld) + transforms) + groups * (kGroup + kEntry * entries) +
         kBesides;
}

// What is decoded of a file, or of a frame.
struct Payload {
  bool lossless = false;
  string_view image;  // Up to the end of the file.
  string_view alpha;  // Empty: there is none.
};

constexpr size_t kChunkHeader = 8;

std::optional<Payload> FindPayload(string_view bytes) {
  constexpr size_t kFileHeader = 12;
  constexpr size_t kExtendedBytes = kChunkHeader + 10;
  if (bytes.size() < kFileHeader) return std::nullopt;
  bool has_chunks = false;  // Before the image.
  if (absl::StartsWith(bytes, "RIFF")) {
    if (Uint32At(bytes, 4) > bytes.size() - kChunkHeader) return std::nullopt;
    bytes.remove_prefix(kFileHeader);
    if (absl::StartsWith(bytes, "VP8X")) {
      if (bytes.size() < kExtendedBytes) return std::nullopt;
      bytes.remove_prefix(kExtendedBytes);
      has_chunks = true;
    }
  } else {
    has_chunks = absl::StartsWith(bytes, "ALPH");
  }
  Payload found;
  for (;;) {
    if (bytes.size() < kChunkHeader) return std::nullopt;
    const size_t chunk = Uint32At(bytes, 4);
    const bool lossy = absl::StartsWith(bytes, "VP8 ");
    found.lossless = absl::StartsWith(bytes, "VP8L");
    if (lossy || found.lossless) {
      if (chunk > bytes.size() - kChunkHeader) return std::nullopt;
      found.image = bytes.substr(kChunkHeader);
      return found;
    }
    if (!has_chunks) break;
    const size_t whole = kChunkHeader + chunk + chunk % 2;
    if (whole > bytes.size()) return std::nullopt;
    if (absl::StartsWith(bytes, "ALPH")) found.alpha = bytes.substr(kChunkHeader, chunk);
    bytes.remove_prefix(whole);
  }
  // libwebp takes an image without a chunk around it.
  found.lossless = ByteAt(bytes, 0) == 0x2f && ByteAt(bytes, 4) >> 5 == 0;
  found.image = bytes;
  return found;
}

}  // namespace

std::optional<int64_t> WebpDecodingBytes(string_view image, int64_t rows, int64_t cols) {
  constexpr size_t kLosslessHeader = 5;
  const std::optional<Payload> payload = FindPayload(image);
  if (!payload.has_value()) return std::nullopt;
  if (payload->lossless) {
    if (payload->image.size() < kLosslessHeader) return std::nullopt;
    return LosslessBytes(payload->image.substr(kLosslessHeader), rows, cols);
  }
  constexpr size_t kLossyHeader = 10;
  if (payload->image.size() < kLossyHeader) return std::nullopt;
  // Some rows of blocks of 16x16 pixels: samples, coefficients, how they are filtered.
  constexpr int64_t kBlock = 4096;
  int64_t bytes = Tiles(cols, 4) * kBlock + 64 * 1024;
  if (payload->alpha.empty()) return bytes;
  bytes += 2 * rows * cols;
  constexpr int kCompressed = 1;
  if ((ByteAt(payload->alpha, 0) & 3) == kCompressed) {
    const std::optional<int64_t> alpha = LosslessBytes(payload->alpha.substr(1), rows, cols);
    if (!alpha.has_value()) return std::nullopt;
    bytes += *alpha;
  }
  return bytes;
}

}  // namespace formwork
