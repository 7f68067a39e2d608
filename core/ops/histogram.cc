#include "core/ops/histogram.h"

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<int64_t> PrepareHistogram(const Tensor& nbins) {
  if (nbins.rank() != 0) return InvalidArgument("nbins should be a scalar.");
  const int64_t bins = nbins.scalar<int32_t>();
  if (bins > 0) return bins;
  return InvalidArgument("nbins should be a positive number, but got '", bins, "'");
}

namespace {

absl::Status InferHistogram(InferenceContext& c) {
  int64_t bins = -1;
  if (c.constant(2) != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(bins, PrepareHistogram(*c.constant(2)));
  }
  return array_shapes::SetOutput(c, 0, {bins});
}

}  // namespace

void RegisterHistogramOps(OpRegistry& registry) {
  registry.Add(
      "HistogramFixedWidth(values: T, value_range: host T, nbins: host int32) -> (out: dtype); T: "
      "{int32, int64, float, double}; dtype: indextype = int32",
      {.shape_fn = InferHistogram, .sized_by_value = true});
}

}  // namespace formwork
