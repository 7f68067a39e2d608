#include "core/ops/distribution.h"

#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/random.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<DistributionGeometry> PrepareDistribution(const Tensor& shape,
                                                         const Shape& parameters) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape samples, PrepareRandomShape(shape));
  Dims dims(samples.dims().begin(), samples.dims().end());
  dims.insert(dims.end(), parameters.dims().begin(), parameters.dims().end());
  FORMWORK_ASSIGN_OR_RETURN(Shape output, Shape::Make(dims));
  return DistributionGeometry{std::move(output), samples.num_elements(), parameters.num_elements()};
}

absl::StatusOr<DistributionGeometry> PrepareStatelessDistribution(const Tensor& shape,
                                                                  const Shape& parameters) {
  FORMWORK_ASSIGN_OR_RETURN(Shape output, PrepareRandomShape(shape));
  const int before = output.rank() - parameters.rank();
  bool ends = before >= 0;
  for (int d = 0; ends && d < parameters.rank(); ++d) {
    ends = output.dim(before + d) == parameters.dim(d);
  }
  if (!ends) {
    return InvalidArgument("Shape passed in must end with broadcasted shape.");
  }
  const int64_t columns = parameters.num_elements();
  const int64_t samples = columns == 0 ? 0 : output.num_elements() / columns;
  return DistributionGeometry{std::move(output), samples, columns};
}

namespace {

// What input 0 lists, as far as it is constant.
absl::Status StatelessShape(InferenceContext& c) { return shapes::FromShapeInput(c); }

// That, and behind it the dimensions of input 1.
absl::Status SampledShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape samples, shapes::ShapeFromInput(c, 0));
  const PartialShape& parameters = c.input(1);
  if (!samples.known_rank() || !parameters.known_rank()) return absl::OkStatus();
  Dims dims(samples.dims().begin(), samples.dims().end());
  dims.insert(dims.end(), parameters.dims().begin(), parameters.dims().end());
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

}  // namespace

void RegisterDistributionOps(OpRegistry& registry) {
  const OpTraits stateful = {
      .shape_fn = SampledShape, .effect = Effect::kRandom, .sized_by_value = true};
  const OpTraits stateless = {.shape_fn = StatelessShape, .sized_by_value = true};
  registry.Add(
      "RandomGamma(shape: S, alpha: T) -> (output: T); seed: int = 0; seed2: int = 0; S: "
      "indextype; T: {half, float, double}",
      stateful);
  registry.Add(
      "StatelessRandomGammaV2(shape: host T, seed: host Tseed, alpha: dtype) -> (output: dtype); "
      "dtype: {half, float, double}; T: indextype; Tseed: indextype = int64",
      stateless);
  registry.Add(
      "StatelessRandomGammaV3(shape: host shape_dtype, key: uint64, counter: uint64, alg: host "
      "int32, alpha: dtype) -> (output: dtype); dtype: {half, float, double}; shape_dtype: "
      "indextype = int32",
      stateless);
  registry.Add(
      "RandomPoissonV2(shape: S, rate: R) -> (output: dtype); seed: int = 0; seed2: int = 0; S: "
      "indextype; R: {half, float, double, int32, int64} = double; dtype: {half, float, double, "
      "int32, int64} = int64",
      stateful);
  registry.Add(
      "StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> (output: dtype); Rtype: "
      "{half, float, double, int32, int64}; dtype: {half, float, double, int32, int64}; T: "
      "indextype; Tseed: indextype = int64",
      stateless);
}

}  // namespace formwork
