#include "core/ops/distribution.h"

#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
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

absl::StatusOr<BroadcastGeometry> PrepareBroadcast(const Tensor& shape, Dims parameters) {
  if (shape.rank() != 1) {
    return InvalidArgument("Input shape should be a vector, got shape: ", shape.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape broadcast, Shape::Make(parameters));
  FORMWORK_ASSIGN_OR_RETURN(DistributionGeometry numbers,
                            PrepareStatelessDistribution(shape, broadcast));
  return BroadcastGeometry{std::move(numbers), std::move(parameters)};
}

}  // namespace

absl::StatusOr<BroadcastGeometry> PrepareBinomial(const Tensor& shape,
                                                  absl::Span<const int64_t> counts,
                                                  absl::Span<const int64_t> probs) {
  std::optional<Dims> parameters = BroadcastDims(counts, probs);
  if (!parameters) {
    return InvalidArgument("counts and probs must have compatible batch dimensions: ",
                           DimsText(counts), " vs. ", DimsText(probs));
  }
  return PrepareBroadcast(shape, *std::move(parameters));
}

absl::StatusOr<BroadcastGeometry> PrepareTruncatedNormal(
    const Tensor& shape, const std::array<absl::Span<const int64_t>, 4>& parameters) {
  Dims broadcast;
  for (const absl::Span<const int64_t> of_one : parameters) {
    std::optional<Dims> both = BroadcastDims(broadcast, of_one);
    if (!both) {
      return InvalidArgument(
          "means, stddevs, minvals, maxvals must have compatible batch dimensions: ",
          DimsText(parameters[0]), " vs. ", DimsText(parameters[1]), " vs. ",
          DimsText(parameters[2]), " vs. ", DimsText(parameters[3]));
    }
    broadcast = *std::move(both);
  }
  return PrepareBroadcast(shape, std::move(broadcast));
}

absl::StatusOr<DistributionGeometry> PrepareTruncatedRows(
    const Tensor& shape, const std::array<absl::Span<const int64_t>, 4>& parameters) {
  if (shape.rank() != 1) {
    return InvalidArgument("Input shape should be a vector, got shape: ", shape.shape().ToString());
  }
  if (shape.num_elements() == 0) return InvalidArgument("Shape tensor must not be empty");
  DistributionGeometry geometry;
  FORMWORK_ASSIGN_OR_RETURN(geometry.output, ShapeFromTensor(shape, "shape"));
  geometry.parameters = geometry.output.dim(0);
  geometry.samples = CountElements(geometry.output.dims().subspan(1));
  constexpr absl::string_view kNames[] = {"means", "stddevs", "minvals", "maxvals"};
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].size() > 1) {
      return InvalidArgument("Input ", kNames[i],
                             " should be a scalar or vector, got shape: ", DimsText(parameters[i]));
    }
    if (!parameters[i].empty() && parameters[i][0] != 1 &&
        parameters[i][0] != geometry.parameters) {
      return InvalidArgument("Input ", kNames[i], " should have length 1 or shape[0], got shape: ",
                             DimsText(parameters[i]));
    }
  }
  return geometry;
}

absl::Status CheckBinomialAlgorithm(const Tensor& algorithm) {
  if (algorithm.rank() != 0) {
    return InvalidArgument("algorithm must be of shape [], not ", algorithm.shape().ToString());
  }
  if (algorithm.scalar<int64_t>() == kPhiloxAlgorithm) return absl::OkStatus();
  return InvalidArgument("Unsupported algorithm id: ", algorithm.scalar<int64_t>());
}

namespace {

// What input 0 lists, as far as it is constant.
absl::Status StatelessShape(InferenceContext& c) { return shapes::FromShapeInput(c); }

// What input 2 lists.
absl::Status StatefulBinomialShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, shapes::ShapeFromInput(c, 2));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// What input 0 of another op lists, and behind it the dimensions of input 1.
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
  registry.Add(
      "StatelessRandomBinomial(shape: S, seed: Tseed, counts: T, probs: T) -> (output: dtype); S: "
      "indextype; Tseed: indextype = int64; T: {half, float, double, int32, int64} = double; "
      "dtype: {half, float, double, int32, int64} = int64",
      stateless);
  registry.Add(
      "StatelessParameterizedTruncatedNormal(shape: S, seed: Tseed, means: dtype, stddevs: dtype, "
      "minvals: dtype, maxvals: dtype) -> (output: dtype); S: indextype; Tseed: indextype = int64; "
      "dtype: {half, float, double}",
      stateless);
  registry.Add(
      "ParameterizedTruncatedNormal(shape: host T, means: dtype, stdevs: dtype, minvals: dtype, "
      "maxvals: dtype) -> (output: dtype); seed: int = 0; seed2: int = 0; dtype: floattype; T: "
      "indextype",
      {.shape_fn = StatelessShape, .effect = Effect::kRandom, .sized_by_value = true});
  registry.Add(
      "StatefulRandomBinomial(resource: resource, algorithm: int64, shape: S, counts: T, probs: T) "
      "-> (output: dtype); S: indextype; T: {half, float, double, int32, int64} = double; dtype: "
      "{half, float, double, int32, int64} = int64",
      {.shape_fn = StatefulBinomialShape, .effect = Effect::kWrite, .sized_by_value = true});
}

}  // namespace formwork
