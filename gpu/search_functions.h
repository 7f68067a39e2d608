// What kernels do for one value that is looked up among sorted ones: compiled for GPUs at run time,
// from this text behind those of item_functions.h and element_access.h, and by the host's compiler
// for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

// LowerBound, UpperBound and Bucketize. Values are [rows, count], and what they are looked up in,
// [rows, width]: how many come before each, of equal ones too where `upper`.
template <typename T, typename Sorted, typename Index>
struct SearchItem {
  const Sorted* sorted;
  const T* values;
  Index* out;
  uint64_t width, count;
  bool upper;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const Sorted* const row = sorted + i / count * width;
    const auto value = Widen(values[i]);
    uint64_t begin = 0;
    for (uint64_t end = width; begin < end;) {
      const uint64_t middle = begin + (end - begin) / 2;
      const auto there = Widen(row[middle]);
      if (upper ? !(value < there) : there < value) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    out[i] = static_cast<Index>(begin);
  }
};

}  // namespace formwork_element
