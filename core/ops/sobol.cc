#include "core/ops/sobol.h"

#include <algorithm>
#include <limits>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<int64_t> ScalarOf(const Tensor& tensor, absl::string_view what) {
  if (tensor.rank() != 0) return InvalidArgument(what, " must be a scalar");
  return tensor.scalar<int32_t>();
}

}  // namespace

absl::StatusOr<SobolGeometry> PrepareSobol(const Tensor& dim, const Tensor& num_results,
                                           const Tensor& skip) {
  SobolGeometry geometry;
  FORMWORK_ASSIGN_OR_RETURN(geometry.dims, ScalarOf(dim, "dim"));
  FORMWORK_ASSIGN_OR_RETURN(geometry.points, ScalarOf(num_results, "num_results"));
  FORMWORK_ASSIGN_OR_RETURN(geometry.skip, ScalarOf(skip, "skip"));
  if (geometry.dims < 1) return InvalidArgument("dim must be at least one");
  if (geometry.dims > kMostSobolDims) {
    return InvalidArgument("dim must be at most ", kMostSobolDims);
  }
  if (geometry.points < 1) return InvalidArgument("num_results must be at least one");
  if (geometry.skip < 0) return InvalidArgument("skip must be non-negative");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (geometry.points >= kMost - geometry.skip) {
    return InvalidArgument("num_results+skip must be less than ", kMost);
  }
  if (geometry.dims > kSobolDims) {
    return Unimplemented("SobolSample: there are numbers for at most ", kSobolDims,
                         " dimensions, not for ", geometry.dims);
  }
  return geometry;
}

namespace {

absl::Status SobolShape(InferenceContext& c) {
  const auto known = [&](int i) -> int64_t {
    const Tensor* const constant = c.constant(i);
    if (constant == nullptr || constant->rank() != 0) return -1;
    return std::max(constant->scalar<int32_t>(), -1);
  };
  return array_shapes::SetOutput(c, 0, {known(1), known(0)});
}

}  // namespace

void RegisterSobolOps(OpRegistry& registry) {
  registry.Add(
      "SobolSample(dim: int32, num_results: int32, skip: int32) -> (samples: dtype); dtype: "
      "{float, double} = float",
      {.shape_fn = SobolShape, .sized_by_value = true});
}

}  // namespace formwork
