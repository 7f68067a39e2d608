#pragma once

// Hash tables for code that operator new may throw in (memory_budget.h). An insert that throws
// leaves one of these as it was; Abseil's tables are of no use afterwards, not even to be
// destroyed.

#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "core/base/memory_budget.h"

namespace formwork {

/// Of a string by its characters, so that a string_view finds it.
struct StringHash {
  using is_transparent = void;
  size_t operator()(absl::string_view text) const { return absl::HashOf(text); }
};
struct StringEqual {
  using is_transparent = void;
  bool operator()(absl::string_view a, absl::string_view b) const { return a == b; }
};

/// References to elements stay valid until they are erased.
template <typename K, typename V>
using HashMap = std::conditional_t<std::is_same_v<K, std::string>,
                                   std::unordered_map<K, V, StringHash, StringEqual>,
                                   std::unordered_map<K, V, absl::Hash<K>>>;
template <typename K>
using HashSet = std::conditional_t<std::is_same_v<K, std::string>,
                                   std::unordered_set<K, StringHash, StringEqual>,
                                   std::unordered_set<K, absl::Hash<K>>>;

/// For Abseil's tables where one is worth it: what it takes is counted, and never refused.
template <typename T>
struct UnrefusedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UnrefusedAllocator<U>;
  };
  UnrefusedAllocator() = default;
  template <typename U>
  UnrefusedAllocator(const UnrefusedAllocator<U>&) {}  // NOLINT
  T* allocate(size_t n) {
    const HeapScope unlimited(nullptr);
    return std::allocator<T>::allocate(n);
  }
};

}  // namespace formwork
