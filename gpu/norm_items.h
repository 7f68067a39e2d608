#pragma once

// Batch normalisation on a GPU (norm_functions.h): how a call's sizes become the items' numbers,
// and in which stages they are run. Needs no CUDA itself.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/ops/batch_norm.h"
#include "core/tensor/dtype.h"
#include "gpu/norm_functions.h"

namespace formwork {

/// Each runs one kind of item.
enum class NormStage : uint8_t {
  kSums,
  kMean,
  kSquares,
  kStatistics,
  kGiven,
  kScale,
  kProducts,
  kCoefficients,
  kGradient
};
inline constexpr int kNormStages = static_cast<int>(NormStage::kGradient) + 1;

/// Such as "NormScaleItem<half>".
std::string NormItemName(NormStage stage, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& NormText();

formwork_element::NormSizes NormSizesOf(const BatchNormGeometry& geometry);

/// Memory for what one stage leaves to the next.
struct NormScratch {
  static size_t BytesFor(const formwork_element::NormSizes& sizes) {
    return static_cast<size_t>(sizes.channels) *
           (2 * sizeof(double) * static_cast<size_t>(sizes.parts) + 3 * sizeof(float));
  }
  /// `memory`: so many bytes.
  NormScratch(const formwork_element::NormSizes& sizes, void* memory)
      : first(static_cast<double*>(memory)),
        second(first + sizes.parts * sizes.channels),
        factor(reinterpret_cast<float*>(second + sizes.parts * sizes.channels)),
        shift(factor + sizes.channels),
        slope(shift + sizes.channels) {}

  double* first;
  double* second;
  float* factor;
  float* shift;
  float* slope;
};

/// FusedBatchNormV3, of at least one element. `of.factor` is the scratch's.
template <typename E>
struct NormForward {
  const E* x;
  E* y;
  const float* offset;
  formwork_element::NormStatistics of;
};
/// `run(stage, item, n)`: n items, after those of the call before. Errors: its.
template <typename E, typename Run>
absl::Status RunNormForward(const NormForward<E>& norm, bool is_training,
                            const formwork_element::NormSizes& sizes, const NormScratch& scratch,
                            Run run) {
  namespace element = formwork_element;
  const auto channels = static_cast<uint64_t>(sizes.channels);
  const uint64_t elements = channels * static_cast<uint64_t>(sizes.PerChannel());
  const element::NormSums sums{scratch.first, nullptr};
  const uint64_t parts = channels * static_cast<uint64_t>(sizes.parts);
  if (is_training) {
    FORMWORK_RETURN_IF_ERROR(run(
        NormStage::kSums,
        element::NormSumsItem<E, element::SumOf>{norm.x, nullptr, nullptr, sums, sizes}, parts));
    FORMWORK_RETURN_IF_ERROR(
        run(NormStage::kMean, element::NormMeanItem{sums, norm.of.mean, sizes}, channels));
    FORMWORK_RETURN_IF_ERROR(run(
        NormStage::kSquares,
        element::NormSumsItem<E, element::SquaresOf>{norm.x, nullptr, norm.of.mean, sums, sizes},
        parts));
    FORMWORK_RETURN_IF_ERROR(
        run(NormStage::kStatistics, element::NormStatisticsItem{sums, norm.of, sizes}, channels));
  } else {
    FORMWORK_RETURN_IF_ERROR(run(NormStage::kGiven, element::NormGivenItem{norm.of}, channels));
  }
  return run(
      NormStage::kScale,
      element::NormScaleItem<E>{norm.x, norm.y, norm.of.mean, norm.of.factor, norm.offset, sizes},
      elements);
}

/// FusedBatchNormGradV3, of at least one element.
template <typename E>
struct NormGradient {
  const E* dy;
  const E* x;
  const float* scale;
  const float* mean;
  const float* variance;
  E* dx;
  float* scale_gradient;
  float* offset_gradient;
};
/// As RunNormForward.
template <typename E, typename Run>
absl::Status RunNormGradient(const NormGradient<E>& norm, const BatchNormAttrs& attrs,
                             const formwork_element::NormSizes& sizes, const NormScratch& scratch,
                             Run run) {
  namespace element = formwork_element;
  const auto channels = static_cast<uint64_t>(sizes.channels);
  const element::NormSums sums{scratch.first, scratch.second};
  FORMWORK_RETURN_IF_ERROR(
      run(NormStage::kProducts,
          element::NormSumsItem<E, element::ProductsOf>{norm.x, norm.dy, norm.mean, sums, sizes},
          channels * static_cast<uint64_t>(sizes.parts)));
  FORMWORK_RETURN_IF_ERROR(
      run(NormStage::kCoefficients,
          element::NormCoefficientsItem{sums, norm.scale, norm.variance, norm.scale_gradient,
                                        norm.offset_gradient, scratch.shift, scratch.slope,
                                        scratch.factor, sizes, attrs.epsilon, attrs.is_training},
          channels));
  return run(NormStage::kGradient,
             element::NormGradientItem<E>{norm.dy, norm.x, norm.dx, norm.mean, scratch.shift,
                                          scratch.slope, scratch.factor, sizes},
             channels * static_cast<uint64_t>(sizes.PerChannel()));
}

}  // namespace formwork
