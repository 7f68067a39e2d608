#pragma once

// What random ops are on every device: attrs, and what their inputs may be. Errors are
// kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Of ops whose numbers follow from attrs; without seeds the first call draws one.
struct SeedAttrs {
  int64_t seed = 0;
  int64_t seed2 = 0;

  bool seeded() const { return seed != 0 || seed2 != 0; }
  static absl::StatusOr<SeedAttrs> FromAttrs(const AttrMap& attrs);
};

/// Whether a device may make what the op gives, once the host has said where in the sequence of the
/// node that begins.
bool FillsFromSequence(absl::string_view op);

/// Whether the op's inputs 1 and 2 are key and counter, which kernels take in either memory: they
/// are small, and most often made on the host.
bool TakesKeyAndCounter(absl::string_view op);

/// The one algorithm that there is.
inline constexpr int32_t kPhiloxAlgorithm = 1;

/// The output's shape, which input `shape` lists.
absl::StatusOr<Shape> PrepareRandomShape(const Tensor& shape);

/// Input `i` is a scalar.
absl::Status CheckRandomScalar(int i, absl::Span<const int64_t> input);

/// StatelessRandomGetKeyCounter.
absl::Status CheckSeed(absl::Span<const int64_t> seed);

/// Stateless...V2: inputs 1 to 3.
absl::Status CheckStatelessRandom(absl::Span<const int64_t> key, absl::Span<const int64_t> counter,
                                  const Tensor& alg);

/// ...UniformInt: both are scalars.
absl::Status CheckUniformBounds(absl::Span<const int64_t> minval, absl::Span<const int64_t> maxval);

/// Multinomial: the output's dimensions; `num_samples` is null where it is not known.
absl::StatusOr<Dims> PrepareMultinomial(absl::Span<const int64_t> logits,
                                        const Tensor* num_samples);

/// RngSkip, RngReadAndSkip. Errors: also kUnimplemented for ThreeFry.
absl::Status CheckGeneratorAlgorithm(int64_t algorithm);
/// The value of the variable that keeps a generator.
absl::Status CheckGeneratorState(const Tensor& state);

}  // namespace formwork
