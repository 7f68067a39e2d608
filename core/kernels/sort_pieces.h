#pragma once

// Sorting positions by what stands there, for kernels: a long sort can be stopped.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"

namespace formwork {

/// 0, 1, ... n - 1; fewer where it is stopped.
inline void FillPositions(std::vector<int64_t>& positions, int64_t n) {
  positions.clear();
  positions.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n && !WorkIsCutAt(i); ++i) positions.push_back(i);
}

/// std::sort in pieces that are merged, so that it can be stopped, and shared by the threads.
/// `before` has no ties.
template <typename Less>
void SortPieces(std::vector<int64_t>& order, Less before) {
  constexpr int64_t kPiece = int64_t{1} << 17;
  const int64_t n = static_cast<int64_t>(order.size());
  if (n <= kPiece) return std::sort(order.begin(), order.end(), before);
  ParallelFor((n + kPiece - 1) / kPiece, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end && !WorkIsCut(); ++p) {
      std::sort(order.begin() + p * kPiece, order.begin() + std::min((p + 1) * kPiece, n), before);
    }
  });
  const auto room = std::make_unique_for_overwrite<int64_t[]>(order.size());
  int64_t* from = order.data();
  int64_t* to = room.get();
  for (int64_t sorted = kPiece; sorted < n; sorted *= 2) {
    if (WorkIsCut()) return;
    ParallelFor((n + 2 * sorted - 1) / (2 * sorted), 1, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin * 2 * sorted; first < std::min(end * 2 * sorted, n);
           first += 2 * sorted) {
        const int64_t a_end = std::min(first + sorted, n), b_end = std::min(a_end + sorted, n);
        for (int64_t i = first, a = first, b = a_end; i < b_end; ++i) {
          if (WorkIsCutAt(i)) return;
          const bool from_b = a == a_end || (b < b_end && before(from[b], from[a]));
          to[i] = from[from_b ? b++ : a++];
        }
      }
    });
    std::swap(from, to);
  }
  if (from != order.data()) CopyElements(from, n, order.data());
}

}  // namespace formwork
