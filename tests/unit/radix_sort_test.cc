#include "core/kernels/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/tensor/small_float.h"

namespace formwork {
namespace {

template <typename T>
auto Number(T x) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return static_cast<float>(x);
  } else {
    return x;
  }
}

// The largest first, NaN before all, of equal ones no order.
template <typename T>
bool IsBefore(T x, T y) {
  return x != x || y != y ? x != x && y == y : x > y;
}

template <typename T>
class DescendingKeyTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, half, bfloat16, int8_t, int16_t, int32_t, int64_t,
                               uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(DescendingKeyTest, Types);

TYPED_TEST(DescendingKeyTest, OrdersAsNumbersDo) {
  using T = TypeParam;
  std::vector<T> values = {T(0), T(1), T(2), T(100)};
  if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    values.insert(values.end(), {Limits::min(), T(Limits::min() + 1), T(Limits::max() - 1),
                                 Limits::max(), T(Limits::max() / 2)});
  } else {
    for (const float x : {-0.0f, -1.0f, -100.0f, 1e-40f, -1e-40f, 6e4f, -6e4f, 0.333f, INFINITY,
                          -INFINITY, NAN, -NAN}) {
      values.push_back(static_cast<T>(x));
    }
  }
  for (const T x : values) {
    for (const T y : values) {
      EXPECT_EQ(DescendingKey(x) < DescendingKey(y), IsBefore(Number(x), Number(y)))
          << +Number(x) << " and " << +Number(y);
    }
  }
}

template <typename Key>
class RadixSortTest : public ::testing::Test {};
using Keys = ::testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(RadixSortTest, Keys);

TYPED_TEST(RadixSortTest, KeepsTheOrderOfWhatHasTheSameKey) {
  using Item = Keyed<TypeParam>;
  std::mt19937_64 random(1);
  std::vector<Item> room;
  for (const size_t n : {0, 1, 2, 63, 64, 65, 1000, 70000, 200000}) {
    // Few keys, many, and those whose first or last digits are all the same.
    for (const uint64_t mask : {0x3ull, 0xffull, 0xff00ff00ull, 0xff00000000ff0000ull, ~0ull}) {
      std::vector<Item> items;
      for (size_t i = 0; i < n; ++i) {
        items.push_back(
            {static_cast<TypeParam>(random() & mask), static_cast<decltype(Item::index)>(i)});
      }
      std::vector<Item> wanted = items;
      std::stable_sort(wanted.begin(), wanted.end(),
                       [](const Item& a, const Item& b) { return a.key < b.key; });
      RadixSort(items, room);
      ASSERT_EQ(items.size(), n);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(items[i].key, wanted[i].key) << i << " of " << n;
        ASSERT_EQ(items[i].index, wanted[i].index) << i << " of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace formwork
