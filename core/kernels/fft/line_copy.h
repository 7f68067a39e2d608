#pragma once

// Copies between lines of complex numbers in memory and vectors that have the same element of
// several lines. Included by lines.cc alone.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/isa.h"

namespace formwork {

/// Element i of line l is the numbers 2 * step * i and the next one from `line[l]` on; beside
/// others its parts are at `re` and `im` + 2 * kLines * i + l.
template <typename R, int64_t kLines>
struct LineCopy {
  R* const* line;
  int64_t lines;
  int64_t step;
  R* re;
  R* im;

  // Elements that are copied from each line before the next ones: these stay in the first-level
  // cache.
  static constexpr int64_t kChunk = 32;
  static constexpr int64_t kApart = 2 * kLines;

  FORMWORK_ISA_INLINE bool AreColumns() const {
    if (lines != kLines) return false;
    for (int64_t l = 1; l < kLines; ++l) {
      if (line[l] != line[0] + 2 * l) return false;
    }
    return true;
  }

  template <bool kIn>
  FORMWORK_ISA_INLINE void Elements(int64_t n) const {
    if (AreColumns()) return Columns<kIn>(n);
    for (int64_t begin = 0; begin < n; begin += kChunk) {
      const int64_t end = std::min(begin + kChunk, n);
      int64_t l = 0;
      if constexpr (sizeof(R) == 4) {
        const int64_t fours = begin + (end - begin) / 4 * 4;
        for (; step == 1 && l + 4 <= lines; l += 4) {
          for (int64_t i = begin; i < fours; i += 4) Fours<kIn>(l, i);
          for (int64_t k = l; k < l + 4; ++k) OneByOne<kIn>(k, fours, end);
        }
      }
      for (; l < lines; ++l) OneByOne<kIn>(l, begin, end);
    }
  }

 private:
  typedef float Four __attribute__((vector_size(16)));
  typedef float Eight __attribute__((vector_size(32)));

  template <bool kIn>
  FORMWORK_ISA_INLINE static void Copy(R& of_line, R& beside) {
    if constexpr (kIn) {
      beside = of_line;
    } else {
      of_line = beside;
    }
  }
  template <bool kIn>
  FORMWORK_ISA_INLINE void OneByOne(int64_t l, int64_t begin, int64_t end) const {
    R* const at = line[l];
    for (int64_t i = begin; i < end; ++i) {
      Copy<kIn>(at[2 * step * i], re[kApart * i + l]);
      Copy<kIn>(at[2 * step * i + 1], im[kApart * i + l]);
    }
  }
  // Of lines that lie next to each other.
  template <bool kIn>
  FORMWORK_ISA_INLINE void Columns(int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      R* const __restrict at = line[0] + 2 * step * i;
      R* const __restrict re_at = re + kApart * i;
      R* const __restrict im_at = im + kApart * i;
      for (int64_t l = 0; l < kLines; ++l) {
        Copy<kIn>(at[2 * l], re_at[l]);
        Copy<kIn>(at[2 * l + 1], im_at[l]);
      }
    }
  }

  // Of each half of both: the first two numbers of one beside the other's, or the last two; or the
  // first pair of one and then the other's, or the second.
  FORMWORK_ISA_INLINE static void FirstNumbers(const Eight& a, const Eight& b, Eight& made) {
    made = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  }
  FORMWORK_ISA_INLINE static void LastNumbers(const Eight& a, const Eight& b, Eight& made) {
    made = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  }
  FORMWORK_ISA_INLINE static void FirstPairs(const Eight& a, const Eight& b, Eight& made) {
    made = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  }
  FORMWORK_ISA_INLINE static void SecondPairs(const Eight& a, const Eight& b, Eight& made) {
    made = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }

  // Elements i to i + 3 of lines l to l + 3. Even ones are 0 and 2, odd ones 1 and 3, each in a
  // half; 01 and 23 are of two lines.
  template <bool kIn>
  FORMWORK_ISA_INLINE void Fours(int64_t l, int64_t i) const {
    Eight row[4], even01, even23, odd01, odd23, re_even, im_even, re_odd, im_odd;
    if constexpr (kIn) {
      for (int k = 0; k < 4; ++k) std::memcpy(&row[k], line[l + k] + 2 * i, sizeof(Eight));
      FirstNumbers(row[0], row[1], even01);
      FirstNumbers(row[2], row[3], even23);
      LastNumbers(row[0], row[1], odd01);
      LastNumbers(row[2], row[3], odd23);
      FirstPairs(even01, even23, re_even);
      SecondPairs(even01, even23, im_even);
      FirstPairs(odd01, odd23, re_odd);
      SecondPairs(odd01, odd23, im_odd);
      Put(re_even, re, l, i, i + 2);
      Put(im_even, im, l, i, i + 2);
      Put(re_odd, re, l, i + 1, i + 3);
      Put(im_odd, im, l, i + 1, i + 3);
    } else {
      Take(re, l, i, i + 2, re_even);
      Take(im, l, i, i + 2, im_even);
      Take(re, l, i + 1, i + 3, re_odd);
      Take(im, l, i + 1, i + 3, im_odd);
      FirstNumbers(re_even, im_even, even01);
      LastNumbers(re_even, im_even, even23);
      FirstNumbers(re_odd, im_odd, odd01);
      LastNumbers(re_odd, im_odd, odd23);
      FirstPairs(even01, odd01, row[0]);
      SecondPairs(even01, odd01, row[1]);
      FirstPairs(even23, odd23, row[2]);
      SecondPairs(even23, odd23, row[3]);
      for (int k = 0; k < 4; ++k) std::memcpy(line[l + k] + 2 * i, &row[k], sizeof(Eight));
    }
  }
  // The first half is of element i, the second of element j.
  FORMWORK_ISA_INLINE static void Put(const Eight& v, R* part, int64_t l, int64_t i, int64_t j) {
    std::memcpy(part + kApart * i + l, &v, sizeof(Four));
    std::memcpy(part + kApart * j + l, reinterpret_cast<const R*>(&v) + 4, sizeof(Four));
  }
  FORMWORK_ISA_INLINE static void Take(const R* part, int64_t l, int64_t i, int64_t j, Eight& v) {
    Four first, second;
    std::memcpy(&first, part + kApart * i + l, sizeof(Four));
    std::memcpy(&second, part + kApart * j + l, sizeof(Four));
    v = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
  }
};

}  // namespace formwork
