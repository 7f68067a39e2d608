#include "core/ops/nearest.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<NearestGeometry> PrepareNearest(absl::Span<const int64_t> points,
                                               absl::Span<const int64_t> centers, const Tensor* k) {
  if (points.size() != 2) return InvalidArgument("Input points should be a matrix.");
  if (centers.size() != 2) return InvalidArgument("Input centers should be a matrix.");
  if (k != nullptr && k->rank() != 0) return InvalidArgument("Input k should be a scalar.");
  if (points[0] == 0) return InvalidArgument("Expected points.rows() > 0.");
  if (!MayBeEqual(points[1], centers[1])) {
    return InvalidArgument("Expected point_dimensions == center_dimensions: ", points[1], " vs ",
                           centers[1], ".");
  }
  int64_t found = -1;
  if (k != nullptr) {
    const auto most = k->scalar<int64_t>();
    if (most < 0) return InvalidArgument("Input k should not be negative, got ", most);
    if (centers[0] >= 0) found = std::min(most, centers[0]);
  }
  return NearestGeometry{points[0], centers[0], std::max(points[1], centers[1]), found};
}

namespace {

absl::Status NearestShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const NearestGeometry geometry,
                            PrepareNearest(shapes::OrOfRank(c.input(0), 2).dims(),
                                           shapes::OrOfRank(c.input(1), 2).dims(), c.constant(2)));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 0, {geometry.points, geometry.found}));
  return array_shapes::SetOutput(c, 1, {geometry.points, geometry.found});
}

}  // namespace

void RegisterNearestOps(OpRegistry& registry) {
  registry.Add(
      "NearestNeighbors(points: float, centers: float, k: int64) -> (nearest_center_indices: "
      "int64, nearest_center_distances: float)",
      {.shape_fn = NearestShape, .sized_by_value = true});
}

}  // namespace formwork
