#include "core/ops/shape_arithmetic.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

// What input `i` of a broadcast's arguments lists.
absl::StatusOr<Dims> Listed(int i, const Tensor& input) {
  if (input.rank() != 1) {
    return InvalidArgument("In[", i, "] must be a vector.", input.shape().ToString());
  }
  return IntegersOf(input, "shape");
}

absl::Status Incompatible(const Dims& a, const Dims& b) {
  return InvalidArgument("Incompatible shapes: [", absl::StrJoin(a, ","), "] vs. [",
                         absl::StrJoin(b, ","), "]");
}

}  // namespace

absl::StatusOr<Dims> PrepareBroadcastArgs(const Tensor& s0, const Tensor& s1) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims a, Listed(0, s0));
  FORMWORK_ASSIGN_OR_RETURN(const Dims b, Listed(1, s1));
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  const size_t pad = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    const int64_t x = longer[d + pad];
    const int64_t y = shorter[d];
    if (x != y && x != 1 && y != 1) return Incompatible(a, b);
    out[d + pad] = x == 1 ? y : x;
  }
  return out;
}

absl::StatusOr<BroadcastAxes> PrepareBroadcastGradientArgs(const Tensor& s0, const Tensor& s1) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims a, Listed(0, s0));
  FORMWORK_ASSIGN_OR_RETURN(const Dims b, Listed(1, s1));
  BroadcastAxes axes;
  if (a == b) return axes;
  const size_t rank = std::max(a.size(), b.size());
  const size_t pad_a = rank - a.size();
  const size_t pad_b = rank - b.size();
  for (size_t d = 0; d < rank; ++d) {
    const int64_t x = d < pad_a ? 1 : a[d - pad_a];
    const int64_t y = d < pad_b ? 1 : b[d - pad_b];
    if (x != y && x != 1 && y != 1) return Incompatible(a, b);
    // Where both are 1 both are listed, as TensorFlow does.
    if (x == 1) axes.r0.push_back(static_cast<int64_t>(d));
    if (y == 1) axes.r1.push_back(static_cast<int64_t>(d));
  }
  return axes;
}

absl::StatusOr<std::vector<Dims>> PrepareConcatOffset(
    const Tensor& concat_dim, int n, absl::FunctionRef<const Tensor&(int i)> shape) {
  if (!concat_dim.shape().is_scalar()) {
    return InvalidArgument("Concat dim tensor should be a scalar, but got shape ",
                           concat_dim.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t axis, IntegerFromTensor(concat_dim, "concat_dim"));
  std::vector<Dims> offsets;
  offsets.reserve(static_cast<size_t>(n));
  Dims first;
  int at = 0;
  int64_t position = 0;
  for (int i = 0; i < n; ++i) {
    const Tensor& listed = shape(i);
    if (listed.rank() != 1) {
      return InvalidArgument("input ", i, " should be a vector, but got shape ",
                             listed.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, IntegersOf(listed, "ConcatOffset: shape"));
    const int rank = static_cast<int>(dims.size());
    if (i == 0) {
      at = FrontAxis(axis, rank);
      if (at < 0) return InvalidArgument("Concat dim is out of range: ", axis, " vs. ", rank);
      first = dims;
    } else if (dims.size() != first.size()) {
      return InvalidArgument("input ", i, " should contain ", first.size(), " elements, but got ",
                             dims.size());
    }
    for (int d = 0; d < rank; ++d) {
      if (d == at || dims[d] == first[d]) continue;
      return InvalidArgument("All dimensions except ", at, " must match. Input ", i, " has shape [",
                             absl::StrJoin(dims, " "), "] and doesn't match input 0 with shape [",
                             absl::StrJoin(first, " "), "].");
    }
    Dims offset(dims.size(), 0);
    offset[at] = position;
    offsets.push_back(std::move(offset));
    const std::optional<int64_t> next = CheckedAdd(position, dims[at]);
    if (!next) return InvalidArgument("ConcatOffset: the offsets overflow");
    position = *next;
  }
  return offsets;
}

}  // namespace formwork
