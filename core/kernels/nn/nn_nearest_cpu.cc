// NearestNeighbors, by products: |p - c|^2 is |p|^2 - 2 pc + |c|^2.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/sort_pieces.h"
#include "core/ops/nearest.h"

namespace formwork {
namespace {

// Of each of `n` rows of `dims`.
std::vector<float> SquaredNorms(const float* rows, int64_t n, int64_t dims) {
  std::vector<float> norms(static_cast<size_t>(n));
  ParallelFor(n, std::max<int64_t>(kCheapItems / std::max<int64_t>(dims, 1), 1),
              [&](int64_t begin, int64_t end) {
                for (; begin < end; ++begin) {
                  const float* const row = rows + begin * dims;
                  float sum = 0;
                  for (int64_t d = 0; d < dims && !WorkIsCutAt(d); ++d) sum += row[d] * row[d];
                  norms[begin] = sum;
                }
              });
  return norms;
}

// The positions of the `found` least of `n` distances, in their order; of equal ones the first.
void FindNearest(const float* distances, int64_t n, int64_t found, std::vector<int64_t>& nearest) {
  const auto before = [distances](int64_t a, int64_t b) {
    const float x = distances[a], y = distances[b];
    if (x < y || y < x) return x < y;
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    return a < b;
  };
  nearest.clear();
  if (found == 0) return;
  // A heap of those that have been found, the farthest in front.
  for (int64_t i = 0; i < n && !WorkIsCutAt(i); ++i) {
    if (static_cast<int64_t>(nearest.size()) == found) {
      if (!before(i, nearest.front())) continue;
      std::pop_heap(nearest.begin(), nearest.end(), before);
      nearest.back() = i;
    } else {
      nearest.push_back(i);
    }
    std::push_heap(nearest.begin(), nearest.end(), before);
  }
  if (!WorkIsCut()) SortPieces(nearest, before);
}

absl::Status Find(KernelContext& ctx) {
  const Tensor points = ctx.input(0), centers = ctx.input(1), k = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(const NearestGeometry s,
                            PrepareNearest(points.shape().dims(), centers.shape().dims(), &k));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({s.points, s.found}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const indices, ctx.AllocateOutput(0, DType::kInt64, shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const distances, ctx.AllocateOutput(1, DType::kFloat, shape));
  if (s.found == 0) return absl::OkStatus();
  const std::vector<float> point_norms = SquaredNorms(points.data<float>(), s.points, s.dims);
  const std::vector<float> center_norms = SquaredNorms(centers.data<float>(), s.centers, s.dims);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());

  constexpr int64_t kProducts = int64_t{1} << 20;  // At a time.
  const int64_t most = std::min(std::max<int64_t>(kProducts / s.centers, 1), s.points);
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor scratch, Tensor::Allocate(ctx.allocator(), DType::kFloat, Shape({most, s.centers})));
  float* const products = scratch.mutable_data<float>();
  int64_t* const to = indices->mutable_data<int64_t>();
  float* const to_distance = distances->mutable_data<float>();
  for (int64_t first = 0; first < s.points; first += most) {
    if (WorkIsCut()) return WorkStatus();
    const int64_t count = std::min(most, s.points - first);
    Gemm(false, true, count, s.centers, s.dims, points.data<float>() + first * s.dims, s.dims,
         centers.data<float>(), s.dims, 0.0f, products, s.centers);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const int64_t grain = std::max<int64_t>(kCheapItems / s.centers, 1);
    ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> nearest;
      for (; begin < end; ++begin) {
        // What is to be compared of the distance, and in place.
        float* const row = products + begin * s.centers;
        ForBlocks(s.centers, kCheapItems, [&](int64_t c, int64_t last) {
          for (; c < last; ++c) row[c] = center_norms[c] / 2 - row[c];
        });
        FindNearest(row, s.centers, s.found, nearest);
        if (WorkIsCut()) return;
        const int64_t at = first + begin;
        for (int64_t i = 0; i < s.found; ++i) {
          const float distance = 2 * row[nearest[i]] + point_norms[at];
          to[at * s.found + i] = nearest[i];
          to_distance[at * s.found + i] = distance < 0 ? 0 : distance;
        }
      }
    });
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeFind(KernelInit&) { return KernelFn(Find); }

}  // namespace

void RegisterNearestKernel(KernelRegistry& registry) { registry.Add("NearestNeighbors", MakeFind); }

}  // namespace formwork
