#include "core/ops/fill.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

absl::Status TooManySteps() {
  return InvalidArgument("Requires ((limit - start) / delta) <= ",
                         std::numeric_limits<int64_t>::max());
}

// In unsigned arithmetic no distance overflows.
template <typename T>
absl::StatusOr<int64_t> CountSteps(T start, T limit, T delta) {
  static_assert(std::is_integral_v<T>);
  const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
  const uint64_t distance = delta > 0 ? to - from : from - to;
  const uint64_t width = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
  const uint64_t n = distance / width + (distance % width != 0 ? 1 : 0);
  if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return TooManySteps();
  return static_cast<int64_t>(n);
}

absl::StatusOr<int64_t> CountRoundedSteps(double quotient) {
  const double n = std::ceil(std::abs(quotient));
  if (!(n < 9223372036854775807.0)) return TooManySteps();
  return static_cast<int64_t>(n);
}

// The quotient is rounded as T rounds it: whether a last step fits depends on that.
template <typename T>
double StepQuotient(T start, T limit, T delta) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>((limit - start) / delta);
  } else {
    const T distance(static_cast<float>(limit) - static_cast<float>(start));
    return static_cast<float>(T(static_cast<float>(distance) / static_cast<float>(delta)));
  }
}

// What TensorFlow requires of Range's inputs, in its words. `Wide` is a type to compare and print.
template <typename Wide>
absl::Status CheckRange(Wide start, Wide limit, Wide delta) {
  if (delta == 0) return InvalidArgument("Requires delta != 0: ", delta);
  if (delta > 0 && !(start <= limit)) {
    return InvalidArgument("Requires start <= limit when delta > 0: ", start, "/", limit);
  }
  if (!(delta > 0) && !(start >= limit)) {
    return InvalidArgument("Requires start >= limit when delta < 0: ", start, "/", limit);
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if constexpr (std::is_integral_v<T>) {
    FORMWORK_RETURN_IF_ERROR(CheckRange<T>(start, limit, delta));
    return CountSteps(start, limit, delta);
  } else {
    // Through float, which half and bfloat16 convert to; double stays.
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    FORMWORK_RETURN_IF_ERROR(CheckRange<Wide>(static_cast<Wide>(start), static_cast<Wide>(limit),
                                              static_cast<Wide>(delta)));
    return CountRoundedSteps(StepQuotient(start, limit, delta));
  }
}

}  // namespace

absl::StatusOr<TileGeometry> PrepareTile(absl::Span<const int64_t> input, const Tensor& multiples) {
  const auto rank = static_cast<int64_t>(input.size());
  if (multiples.rank() != 1) {
    return InvalidArgument("Expected multiples to be 1-D, but got shape ",
                           multiples.shape().ToString());
  }
  if (multiples.num_elements() != rank) {
    return InvalidArgument("Expected multiples argument to be a vector of length ", rank,
                           " but got length ", multiples.num_elements());
  }
  TileGeometry geometry;
  FORMWORK_ASSIGN_OR_RETURN(geometry.times, IntegersOf(multiples, "Tile: multiples"));
  for (size_t d = 0; d < input.size(); ++d) {
    const int64_t times = geometry.times[d];
    if (times < 0) return InvalidArgument("Expected multiples[", d, "] >= 0, but got ", times);
    const std::optional<int64_t> dim = MultiplyDims(input[d], times);
    if (!dim) {
      return InvalidArgument("Tile: dimension ", d, " overflows: ", input[d], " * ", times);
    }
    geometry.output.push_back(*dim);
  }
  return geometry;
}

absl::StatusOr<Shape> PrepareBroadcastTo(absl::Span<const int64_t> input, const Tensor& shape) {
  if (shape.rank() != 1) {
    return InvalidArgument("shape must be a vector of {int32,int64}, got shape ",
                           shape.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape output, ShapeFromTensor(shape, "shape"));
  const int rank = static_cast<int>(input.size());
  if (rank > output.rank()) {
    return InvalidArgument("Rank of input (", rank,
                           ") must be no greater than rank of output shape (", output.rank(), ").");
  }
  for (int d = 0; d < rank; ++d) {
    if (MayBeEqual(input[d], output.dim(output.rank() - rank + d)) || input[d] == 1) continue;
    return InvalidArgument("Incompatible shapes: ", DimsText(input), " vs. ", output.ToString());
  }
  return output;
}

absl::StatusOr<int64_t> PrepareRange(const Tensor& start, const Tensor& limit,
                                     const Tensor& delta) {
  const std::pair<absl::string_view, const Tensor*> inputs[] = {
      {"start", &start}, {"limit", &limit}, {"delta", &delta}};
  for (const auto& [name, tensor] : inputs) {
    if (tensor->num_elements() == 1) continue;
    return InvalidArgument(name, " must be a scalar, not shape ", tensor->shape().ToString());
  }
  switch (start.dtype()) {
    FORMWORK_REAL_CASES(
        return RangeSize<T>(start.scalar<T>(), limit.scalar<T>(), delta.scalar<T>()))
    default:
      return Unimplemented("Range: dtype ", DTypeName(start.dtype()), " is not supported");
  }
}

absl::StatusOr<int64_t> PrepareLinSpace(absl::Span<const int64_t> start,
                                        absl::Span<const int64_t> stop, const Tensor* num) {
  if (!start.empty()) {
    return InvalidArgument("start must be a scalar, not shape ", DimsText(start));
  }
  if (!stop.empty()) return InvalidArgument("stop must be a scalar, not shape ", DimsText(stop));
  if (num == nullptr) return -1;
  if (num->rank() != 0) {
    return InvalidArgument("num must be a scalar, not shape ", num->shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t n, IntegerFromTensor(*num, "num"));
  if (n <= 0) return InvalidArgument("Requires num > 0: ", n);
  return n;
}

}  // namespace formwork
