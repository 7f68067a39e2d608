// What libwebp is said to take, for lossless images written bit by bit. That it takes no more was
// measured for them by counting its allocations.

#include "core/kernels/image/webp_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace formwork {
namespace {

// A lossless image in a file.
class Lossless {
 public:
  Lossless(int cols, int rows) { Put(0x2f, 8).Put(cols - 1, 14).Put(rows - 1, 14).Put(0, 4); }
  Lossless& Put(int value, int bits) {
    for (int i = 0; i < bits; ++i, ++count_) {
      if (count_ % 8 == 0) bytes_.push_back('\0');
      bytes_.back() = static_cast<char>(bytes_.back() | (value >> i & 1) << count_ % 8);
    }
    return *this;
  }
  // Codes of one symbol each, which take no bits.
  Lossless& Codes(int groups = 1) {
    for (int i = 0; i < 5 * groups; ++i) Put(0b101, 3).Put(7, 8);
    return *this;
  }
  // A colour everywhere, without colours seen last.
  Lossless& Plain() { return Put(0, 1).Codes(); }
  // Which group a tile of 2^bits pixels has.
  Lossless& Groups(int bits) { return Put(1, 1).Put(bits - 2, 3).Plain(); }
  Lossless& NoTransform() { return Put(0, 1); }

  std::string File() const {
    const std::string chunk = "VP8L" + Size(bytes_.size()) + bytes_;
    return "RIFF" + Size(chunk.size() + 4) + "WEBP" + chunk;
  }

 private:
  static std::string Size(size_t bytes) {
    std::string text;
    for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(bytes >> 8 * i & 0xff));
    return text;
  }

  std::string bytes_;
  int count_ = 0;
};

TEST(WebpMemory, CountsGroupsOfCodes) {
  const std::string one = Lossless(1024, 1024).NoTransform().Put(0, 2).Codes().File();
  const std::string large_tiles =
      Lossless(1024, 1024).NoTransform().Put(0, 1).Groups(9).Codes().File();
  const std::string small_tiles =
      Lossless(1024, 1024).NoTransform().Put(0, 1).Groups(2).Codes().File();
  const int64_t image = 4 << 20;
  const int64_t least = WebpDecodingBytes(one, 1024, 1024).value();
  EXPECT_GT(least, image);
  EXPECT_LT(least, 2 * image);
  EXPECT_EQ(WebpDecodingBytes(large_tiles, 1024, 1024).value() - least, 3 * 12424);
  EXPECT_EQ(WebpDecodingBytes(small_tiles, 1024, 1024).value() - least, 65535LL * 12424);
}

TEST(WebpMemory, SkipsTransforms) {
  const auto begun = [] {
    return Lossless(64, 48)
        .Put(0b001, 3)
        .Put(3, 3)
        .Plain()        // Predictors of 32x32 pixels.
        .Put(0b101, 3)  // Green is subtracted.
        .Put(0b011, 3)
        .Put(0, 3)
        .Plain()  // Colours of 4x4.
        .Put(0b111, 3)
        .Put(2, 8)
        .Plain();  // Three colours, four pixels in one.
  };
  const int64_t one =
      WebpDecodingBytes(begun().NoTransform().Put(0, 2).Codes().File(), 48, 64).value();
  // Tiles of 4x4 of 16x48 pixels.
  const int64_t tiles =
      WebpDecodingBytes(begun().NoTransform().Put(0, 1).Groups(2).Codes().File(), 48, 64).value();
  EXPECT_EQ(tiles - one, (4 * 12 - 1) * 12424);
  // The same one again.
  EXPECT_FALSE(
      WebpDecodingBytes(begun().Put(0b101, 3).NoTransform().Put(0, 2).Codes().File(), 48, 64)
          .has_value());
}

TEST(WebpMemory, NamesNothingForWhatIsNotWhole) {
  const std::string file = Lossless(1024, 1024).NoTransform().Put(0, 1).Groups(2).Codes().File();
  ASSERT_TRUE(WebpDecodingBytes(file, 1024, 1024).has_value());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(WebpDecodingBytes(file.substr(0, size), 1024, 1024).has_value()) << size;
  }
  const Lossless cut = Lossless(1024, 1024).Put(0b001, 3).Put(0, 3).Put(0, 1);
  EXPECT_FALSE(WebpDecodingBytes(cut.File(), 1024, 1024).has_value());
}

}  // namespace
}  // namespace formwork
