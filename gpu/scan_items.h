#pragma once

// Running sums, products and logarithms of sums on a GPU (scan_functions.h). Long dimensions of few
// rows fall into chunks: first what each chunk comes to, then, in the same way, what comes before
// each, and then the chunks. Needs no CUDA itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/reduction.h"
#include "core/tensor/dtype.h"
#include "gpu/scan_functions.h"

namespace formwork {

/// A chunked dimension. Those behind the first are of the totals of the one before.
struct ScanLevel {
  uint64_t length;
  uint64_t chunk;
  uint64_t chunks;
};
struct ScanPlan {
  uint64_t outer, inner;
  std::vector<ScanLevel> levels;  ///< The last has one chunk.

  /// Elements of all totals together.
  uint64_t totals() const;
};

/// Rows enough to keep a GPU busy, each by a thread of its own.
inline constexpr uint64_t kManyRows = 16384;
inline constexpr uint64_t kScanChunk = 64;
/// `extent` has elements, and a chunk at least two.
ScanPlan PlanScan(const ReduceExtent& extent, uint64_t many_rows = kManyRows,
                  uint64_t chunk = kScanChunk);

/// What is run one after the other: `n` items.
template <typename E, typename Op>
struct ScanStep {
  formwork_element::ScanItem<E, Op> item;
  uint64_t n;
};
/// `totals`: memory for plan.totals() elements, of `bytes` each.
template <typename E, typename Op>
std::vector<ScanStep<E, Op>> ScanSteps(const ScanPlan& plan, const ScanAttrs& attrs, E first,
                                       const void* x, void* out, void* totals, size_t bytes) {
  struct Place {
    const void* from;
    void* to;
    void* totals;
  };
  std::vector<Place> places = {{x, out, totals}};
  for (size_t k = 1; k < plan.levels.size(); ++k) {
    void* const mine = places.back().totals;
    const uint64_t elements = plan.outer * plan.levels[k].length * plan.inner;
    places.push_back({mine, mine, static_cast<char*>(mine) + elements * bytes});
  }
  std::vector<ScanStep<E, Op>> steps;
  const size_t last = plan.levels.size() - 1;
  const auto add = [&](size_t k, bool writes) {
    const ScanLevel& level = plan.levels[k];
    formwork_element::ScanItem<E, Op> item{};
    item.from = static_cast<const E*>(places[k].from);
    if (writes) {
      item.to = static_cast<E*>(places[k].to);
      item.before = k == last ? nullptr : static_cast<const E*>(places[k].totals);
    } else {
      item.totals = static_cast<E*>(places[k].totals);
    }
    item.first = first;
    item.length = level.length;
    item.inner = plan.inner;
    item.chunk = level.chunk;
    item.chunks = level.chunks;
    // Totals become what comes before each chunk, and are in the order that chunks are counted in.
    item.exclusive = k > 0 || attrs.exclusive;
    item.reverse = k == 0 && attrs.reverse;
    steps.push_back({item, plan.outer * level.chunks * plan.inner});
  };
  for (size_t k = 0; k < last; ++k) add(k, /*writes=*/false);
  for (size_t k = last + 1; k-- > 0;) add(k, /*writes=*/true);
  return steps;
}

/// An op by what it does of two elements.
struct ScanOp {
  absl::string_view op;
  absl::string_view combine;  ///< In scan_functions.h.
  double first;
};
/// Cumsum, Cumprod, CumulativeLogsumexp.
absl::Span<const ScanOp> ScanOps();

/// What it begins with.
template <typename T>
T FirstOfScan(const ScanOp& op) {
  return static_cast<T>(static_cast<float>(op.first));
}

/// "ScanItem<...>". Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> ScanItemName(const ScanOp& op, DType dtype);
/// The text of a kernel of such an item, as ItemSource's (item_source.h).
std::string ScanSource(absl::string_view item);

}  // namespace formwork
