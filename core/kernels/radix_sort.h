#pragma once

// Sorting by keys that are unsigned integers, digit by digit from the last one: the same time for
// any order, and items with the same key stay in theirs.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/tensor/small_float.h"

namespace formwork {

/// Of 32 or 64 bits: of numbers of T, half and bfloat16 as floats.
template <typename T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// An integer that orders as numbers do, the largest first: NaN before all, and -0 is 0.
template <typename T>
KeyOf<T> DescendingKey(T x) {
  using Key = KeyOf<T>;
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return DescendingKey(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr Key kSign = Key{1} << (8 * sizeof(T) - 1);
    if (x != x) return 0;
    const Key bits = x == 0 ? Key{0} : std::bit_cast<Key>(x);
    return (bits & kSign) != 0 ? bits : static_cast<Key>(~(bits | kSign));
  } else {
    constexpr auto kMost = std::numeric_limits<T>::max();
    return static_cast<Key>(static_cast<Key>(kMost) - static_cast<Key>(x));
  }
}

template <typename Key>
struct Keyed {
  Key key;
  std::conditional_t<sizeof(Key) == 4, uint32_t, uint64_t> index;
};

/// Sorts `items`, at most as many as indices tell apart, whose indices ascend, by key. `room`:
/// becomes as long. Unfinished where the work is stopped.
template <typename Key>
void RadixSort(std::vector<Keyed<Key>>& items, std::vector<Keyed<Key>>& room) {
  constexpr size_t kFew = 64;  // Fewer are compared: each digit has 256 counts.
  if (items.size() < kFew) {
    return std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
      return a.key != b.key ? a.key < b.key : a.index < b.index;
    });
  }
  constexpr int kDigits = sizeof(Key);
  constexpr size_t kBlock = 1 << 16;  // Items between two looks at the StopFlag.
  room.resize(items.size());
  std::array<std::array<size_t, 256>, kDigits> counts{};
  const auto digit = [](Key key, int d) { return static_cast<uint8_t>(key >> (8 * d)); };
  const auto for_blocks = [](const std::vector<Keyed<Key>>& all, auto take) {
    for (size_t begin = 0; begin < all.size() && !WorkIsCut(); begin += kBlock) {
      const size_t end = std::min(begin + kBlock, all.size());
      for (size_t i = begin; i < end; ++i) take(all[i]);
    }
  };
  for_blocks(items, [&](const Keyed<Key>& item) {
    for (int d = 0; d < kDigits; ++d) ++counts[d][digit(item.key, d)];
  });
  for (int d = 0; d < kDigits && !WorkIsCut(); ++d) {
    std::array<size_t, 256>& places = counts[d];
    if (places[digit(items[0].key, d)] == items.size()) continue;  // All have the same.
    size_t before = 0;
    for (size_t& place : places) before += std::exchange(place, before);
    for_blocks(items, [&](const Keyed<Key>& item) { room[places[digit(item.key, d)]++] = item; });
    items.swap(room);
  }
}

}  // namespace formwork
