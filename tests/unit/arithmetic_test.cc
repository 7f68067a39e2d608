#include "core/kernels/arithmetic.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace formwork {
namespace {

// Evaluated by the compiler, which refuses an overflow of int.
static_assert(math::Mul<uint16_t>(65535, 65535) == 1);
static_assert(math::Mul<int16_t>(-32768, -32768) == 0);
static_assert(math::Mul<uint8_t>(255, 255) == 1);
static_assert(math::Mul<int32_t>(std::numeric_limits<int32_t>::max(), 2) == -2);
static_assert(math::Mul<int64_t>(std::numeric_limits<int64_t>::min(), -1) ==
              std::numeric_limits<int64_t>::min());
static_assert(math::Add<uint16_t>(65535, 1) == 0);
static_assert(math::Add<int8_t>(127, 1) == -128);
static_assert(math::Add<int64_t>(std::numeric_limits<int64_t>::max(), 1) ==
              std::numeric_limits<int64_t>::min());
static_assert(math::Sub<uint32_t>(0, 1) == std::numeric_limits<uint32_t>::max());
static_assert(math::Sub<int32_t>(0, std::numeric_limits<int32_t>::min()) ==
              std::numeric_limits<int32_t>::min());

TEST(Arithmetic, SmallFloatsAreRoundedOnce) {
  EXPECT_EQ(static_cast<float>(math::Add(half(2048.0f), half(1.0f))), 2048.0f);
  EXPECT_EQ(static_cast<float>(math::Mul(bfloat16(3.0f), bfloat16(0.5f))), 1.5f);
}

}  // namespace
}  // namespace formwork
