#include "core/ops/fft.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::Status CheckFft(int rank, absl::Span<const int64_t> input) {
  if (input.size() >= static_cast<size_t>(rank)) return absl::OkStatus();
  return InvalidArgument("Input must have rank of at least ", rank, " but got: ", DimsText(input));
}

absl::StatusOr<int> PrepareFftAxes(absl::Span<const int64_t> input, const Tensor& axes) {
  if (axes.rank() != 1 || axes.num_elements() == 0) {
    return InvalidArgument("axes must be a vector of at least one axis, got shape ",
                           axes.shape().ToString());
  }
  const auto rank = static_cast<int64_t>(input.size());
  const int64_t count = axes.num_elements();
  if (count > rank) {
    return InvalidArgument("Input must have rank of at least ", count,
                           " but got: ", DimsText(input));
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims listed, IntegersOf(axes, "axes"));
  for (size_t i = 0; i < listed.size(); ++i) {
    if (listed[i] < 0) listed[i] += rank;
    if (i > 0 && listed[i - 1] + 1 != listed[i]) {
      return InvalidArgument("axes must be successive and ascending.");
    }
  }
  if (listed.back() != rank - 1) {
    return InvalidArgument("The last axis to perform transform on must be -1.");
  }
  return static_cast<int>(count);
}

absl::StatusOr<Dims> PrepareFftNd(int rank, absl::Span<const int64_t> input,
                                  const Tensor& fft_length) {
  if (fft_length.rank() != 1 || fft_length.num_elements() != rank) {
    return InvalidArgument("fft_length must have shape [", rank,
                           "], but got: ", fft_length.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims lengths, IntegersOf(fft_length, "fft_length"));
  Dims output(input.begin(), input.end());
  for (int i = 0; i < rank; ++i) {
    const size_t d = input.size() - static_cast<size_t>(rank - i);
    if (lengths[i] < 0) {
      return InvalidArgument("fft_length[", i, "] must >= 0, but got: ", lengths[i]);
    }
    if (input[d] >= 0 && input[d] < lengths[i]) {
      return InvalidArgument("Input dimension ", d, " must have length of at least ", lengths[i],
                             " but got: ", input[d]);
    }
    output[d] = lengths[i];
  }
  return output;
}

absl::StatusOr<RealFftGeometry> PrepareRealFft(int rank, bool forward,
                                               absl::Span<const int64_t> input,
                                               const Tensor& fft_length) {
  FORMWORK_RETURN_IF_ERROR(CheckFft(rank, input));
  if (fft_length.rank() != 1 || fft_length.num_elements() != rank) {
    return InvalidArgument("fft_length must have shape [", rank, "]");
  }
  RealFftGeometry geometry;
  FORMWORK_ASSIGN_OR_RETURN(geometry.lengths, IntegersOf(fft_length, "fft_length"));
  const size_t outer = input.size() - static_cast<size_t>(rank);
  geometry.output.assign(input.begin(), input.begin() + static_cast<int64_t>(outer));
  for (int i = 0; i < rank; ++i) {
    const int64_t length = geometry.lengths[i];
    if (length < 0) {
      return InvalidArgument("fft_length[", i, "] must >= 0, but got: ", length);
    }
    const bool last = i + 1 == rank;
    const int64_t least = !forward && last ? length / 2 + 1 : length;
    const int64_t dim = input[outer + static_cast<size_t>(i)];
    if (dim > 0 && dim < least) {
      return InvalidArgument("Input dimension ", outer + static_cast<size_t>(i),
                             " must have length of at least ", least, " but got: ", dim);
    }
    geometry.output.push_back(forward && last && length != 0 ? length / 2 + 1 : length);
  }
  return geometry;
}

namespace {

template <int kRank>
absl::Status FftShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_RETURN_IF_ERROR(CheckFft(kRank, c.input(0).dims()));
  return shapes::SameAsFirstInput(c);
}

template <int kRank, bool kForward>
absl::Status RealFftShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  if (c.constant(1) == nullptr) {
    FORMWORK_RETURN_IF_ERROR(CheckFft(kRank, c.input(0).dims()));
    PartialShape output = c.input(0);
    for (int i = output.rank() - kRank; i < output.rank(); ++i) output.set_dim(i, -1);
    c.set_output(0, std::move(output));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const RealFftGeometry geometry,
                            PrepareRealFft(kRank, kForward, c.input(0).dims(), *c.constant(1)));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

enum class FftNd { kComplex, kReal, kInverseReal };

template <FftNd kKind>
absl::Status FftNdShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  if (c.constant(1) == nullptr || c.constant(2) == nullptr) {
    c.set_output(0, PartialShape::OfRank(c.input(0).rank()));
    return absl::OkStatus();
  }
  const absl::Span<const int64_t> input = c.input(0).dims();
  FORMWORK_ASSIGN_OR_RETURN(const int rank, PrepareFftAxes(input, *c.constant(2)));
  Dims output;
  if (kKind == FftNd::kComplex) {
    FORMWORK_ASSIGN_OR_RETURN(output, PrepareFftNd(rank, input, *c.constant(1)));
  } else {
    FORMWORK_ASSIGN_OR_RETURN(RealFftGeometry geometry,
                              PrepareRealFft(rank, kKind == FftNd::kReal, input, *c.constant(1)));
    output = std::move(geometry.output);
  }
  c.set_output(0, PartialShape::Trusted(output));
  return absl::OkStatus();
}

}  // namespace

void RegisterFftOps(OpRegistry& registry) {
  registry.Add("FFT(input: Tcomplex) -> (output: Tcomplex); Tcomplex: complextype = complex64",
               {.shape_fn = FftShape<1>});
  registry.Add("IFFT(input: Tcomplex) -> (output: Tcomplex); Tcomplex: complextype = complex64",
               {.shape_fn = FftShape<1>});
  registry.Add(
      "RFFT(input: Treal, fft_length: host int32) -> (output: Tcomplex); Treal: {float, double} = "
      "float; "
      "Tcomplex: complextype = complex64",
      {.shape_fn = RealFftShape<1, true>, .sized_by_value = true});
  registry.Add(
      "IRFFT(input: Tcomplex, fft_length: host int32) -> (output: Treal); Treal: {float, double} = "
      "float; Tcomplex: complextype = complex64",
      {.shape_fn = RealFftShape<1, false>, .sized_by_value = true});
  registry.Add("FFT2D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: complextype = complex64",
               {.shape_fn = FftShape<2>});
  registry.Add("IFFT2D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: complextype = complex64",
               {.shape_fn = FftShape<2>});
  registry.Add(
      "RFFT2D(input: Treal, fft_length: host int32) -> (output: Tcomplex); Treal: {float, double} "
      "= "
      "float; "
      "Tcomplex: complextype = complex64",
      {.shape_fn = RealFftShape<2, true>, .sized_by_value = true});
  registry.Add(
      "IRFFT2D(input: Tcomplex, fft_length: host int32) -> (output: Treal); Treal: {float, double} "
      "= "
      "float; Tcomplex: complextype = complex64",
      {.shape_fn = RealFftShape<2, false>, .sized_by_value = true});
  registry.Add("FFT3D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: complextype = complex64",
               {.shape_fn = FftShape<3>});
  registry.Add("IFFT3D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: complextype = complex64",
               {.shape_fn = FftShape<3>});
  registry.Add(
      "RFFT3D(input: Treal, fft_length: host int32) -> (output: Tcomplex); Treal: {float, double} "
      "= "
      "float; "
      "Tcomplex: complextype = complex64",
      {.shape_fn = RealFftShape<3, true>, .sized_by_value = true});
  registry.Add(
      "IRFFT3D(input: Tcomplex, fft_length: host int32) -> (output: Treal); Treal: {float, double} "
      "= "
      "float; Tcomplex: complextype = complex64",
      {.shape_fn = RealFftShape<3, false>, .sized_by_value = true});
  for (const char* name : {"FFTND", "IFFTND"}) {
    registry.Add(absl::StrCat(name,
                              "(input: Tcomplex, fft_length: host int32, axes: host int32) -> "
                              "(output: Tcomplex); Tcomplex: complextype = complex64"),
                 {.shape_fn = FftNdShape<FftNd::kComplex>});
  }
  registry.Add(
      "RFFTND(input: Treal, fft_length: host int32, axes: host int32) -> (output: Tcomplex); "
      "Treal: {float, double} = float; Tcomplex: complextype = complex64",
      {.shape_fn = FftNdShape<FftNd::kReal>, .sized_by_value = true});
  registry.Add(
      "IRFFTND(input: Tcomplex, fft_length: host int32, axes: host int32) -> (output: Treal); "
      "Treal: {float, double} = float; Tcomplex: complextype = complex64",
      {.shape_fn = FftNdShape<FftNd::kInverseReal>, .sized_by_value = true});
}

}  // namespace formwork
