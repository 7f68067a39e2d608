#pragma once

// Elements as data movement sees them: by width, not by dtype. Strings and variants are objects,
// everything else is bytes.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/parallel.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace formwork {

// Words that may alias the real element types.
struct __attribute__((may_alias)) Word1 {
  uint8_t bits;
};
struct __attribute__((may_alias)) Word2 {
  uint16_t bits;
};
struct __attribute__((may_alias)) Word4 {
  uint32_t bits;
};
struct __attribute__((may_alias)) Word8 {
  uint64_t bits;
};
struct __attribute__((may_alias)) Word16 {
  uint64_t bits[2];
};

template <typename E>
struct ElementTag {
  using type = E;
};

/// Calls f(ElementTag<E>()) with the type that moves elements of `dtype`.
template <typename F>
auto ByElement(DType dtype, F&& f) {
  if (dtype == DType::kString) return f(ElementTag<std::string>());
  if (dtype == DType::kVariant) return f(ElementTag<Variant>());
  switch (DTypeSize(dtype)) {
    case 1:
      return f(ElementTag<Word1>());
    case 2:
      return f(ElementTag<Word2>());
    case 4:
      return f(ElementTag<Word4>());
    case 8:
      return f(ElementTag<Word8>());
    default:
      return f(ElementTag<Word16>());
  }
}

/// Elements that are worth a task of their own when they are only moved.
template <typename E>
constexpr int64_t MoveGrain() {
  return std::is_trivially_copyable_v<E> ? int64_t{256 * 1024} / static_cast<int64_t>(sizeof(E))
                                         : int64_t{4096};
}

namespace elements_internal {
template <typename E>
inline void CopyRun(const E* src, int64_t n, E* dst) {
  if constexpr (std::is_trivially_copyable_v<E>) {
    // A call of memcpy costs more than a few words do.
    if (n <= 4) {
      for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
    } else {
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(E));
    }
  } else {
    std::copy_n(src, n, dst);
  }
}
}  // namespace elements_internal

template <typename E>
inline void CopyElements(const E* src, int64_t n, E* dst) {
  if (n <= MoveGrain<E>()) return elements_internal::CopyRun(src, n, dst);
  ForBlocks(n, MoveGrain<E>(), [src, dst](int64_t begin, int64_t end) {
    elements_internal::CopyRun(src + begin, end - begin, dst + begin);
  });
}

/// dst[0..n) = value, over the compute threads where it is large. `value` points to one element.
void FillElements(DType dtype, const void* value, int64_t n, void* dst);

/// Zeros all elements of plain data, likewise.
void ZeroElements(Tensor& tensor);

/// The address of element `index`.
inline const void* ElementAt(DType dtype, const void* base, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(DTypeSize(dtype));
}
inline void* ElementAt(DType dtype, void* base, int64_t index) {
  return static_cast<char*>(base) + index * static_cast<int64_t>(DTypeSize(dtype));
}

}  // namespace formwork
