// Conversions of half by the machine's instructions against those of small_float.h.

#include "core/kernels/widen.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace formwork {
namespace {

TEST(WidenTest, HalvesAreTheFloatsThatTheyStandFor) {
  std::vector<half> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  WidenRun(halves.data(), 65533, floats.data());  // No whole number of vectors.
  for (size_t i = 0; i < 65533; ++i) {
    const float want = static_cast<float>(halves[i]);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(floats[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(want)) << i;
    }
  }
}

TEST(WidenTest, FloatsAreRoundedToTheNearestHalf) {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 4093) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  // Halfway between two halves, and beside it; the largest, and those that round beyond it.
  for (float x : {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1p-25f, 0x1.8p-25f, 0x1p-14f - 0x1p-25f,
                  65504.0f, 65519.99f, 65520.0f, -65520.0f, -0.0f}) {
    for (float beside : {std::nextafter(x, -1e9f), x, std::nextafter(x, 1e9f)}) {
      floats.push_back(beside);
    }
  }
  std::vector<half> halves(floats.size());
  NarrowRun(floats.data(), static_cast<int64_t>(floats.size()), halves.data());
  for (size_t i = 0; i < floats.size(); ++i) {
    const half want(floats[i]);
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(static_cast<float>(halves[i]))) << floats[i];
    } else {
      ASSERT_EQ(halves[i].bits, want.bits) << floats[i];
    }
  }
}

TEST(WidenTest, ALargeCopyNeedsNoStopFlag) {
  std::vector<float> from(200'001), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  NarrowTo(DType::kFloat, from.data(), static_cast<int64_t>(from.size()), to.data());
  EXPECT_EQ(from, to);
}

}  // namespace
}  // namespace formwork
