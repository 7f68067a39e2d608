#include "core/ops/permute.h"

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"

namespace formwork {

absl::StatusOr<TransposeGeometry> PrepareTranspose(absl::Span<const int64_t> input,
                                                   const Tensor& perm) {
  const auto rank = static_cast<int64_t>(input.size());
  if (perm.rank() != 1) {
    return InvalidArgument("perm must be rank 1, got shape ", perm.shape().ToString());
  }
  if (perm.num_elements() != rank) {
    return InvalidArgument("transpose expects a vector of size ", rank,
                           ". But input(1) is a vector of size ", perm.num_elements());
  }
  TransposeGeometry geometry;
  FORMWORK_ASSIGN_OR_RETURN(geometry.axes, IntegersOf(perm, "Transpose: perm"));
  absl::InlinedVector<bool, 8> seen(input.size(), false);
  for (int64_t& axis : geometry.axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
      return InvalidArgument(axis, " is out of range [0 .. ", rank, ")");
    }
    seen[axis] = true;
    geometry.output.push_back(input[axis]);
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (seen[d]) continue;
    return InvalidArgument(d, " is missing from {", absl::StrJoin(geometry.axes, ","), "}.");
  }
  return geometry;
}

absl::StatusOr<ReversedMask> PrepareReverse(absl::Span<const int64_t> input, const Tensor& axes) {
  const int rank = static_cast<int>(input.size());
  ReversedMask reversed(input.size(), false);
  if (rank == 0 || CountElements(input) <= 0) return reversed;
  if (axes.rank() != 1) return InvalidArgument("'dims' must be 1-dimension, not ", axes.rank());
  FORMWORK_ASSIGN_OR_RETURN(const Dims values, IntegersOf(axes, "ReverseV2: axis"));
  for (size_t i = 0; i < values.size(); ++i) {
    const int at = FrontAxis(values[i], rank);
    if (at < 0) {
      return InvalidArgument("'axis'[", i, "] = ", values[i], " is out of valid range [0, ",
                             rank - 1);
    }
    if (reversed[at]) return InvalidArgument("axis ", at, " specified more than once.");
    reversed[at] = true;
  }
  return reversed;
}

absl::StatusOr<ReverseSequenceAttrs> ReverseSequenceAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ReverseSequenceAttrs>(attrs, "seq_dim", &ReverseSequenceAttrs::seq_dim,
                                         "batch_dim", &ReverseSequenceAttrs::batch_dim);
}

absl::Status CheckReverseSequence(const ReverseSequenceAttrs& attrs,
                                  absl::Span<const int64_t> input,
                                  absl::Span<const int64_t> lengths) {
  const auto& [seq_dim, batch_dim] = attrs;
  const auto rank = static_cast<int64_t>(input.size());
  if (lengths.size() != 1) {
    return InvalidArgument("seq_lengths must be 1-dim, not ", lengths.size());
  }
  if (batch_dim == seq_dim) return InvalidArgument("batch_dim == seq_dim == ", seq_dim);
  if (seq_dim < 0 || seq_dim >= rank) {
    return InvalidArgument("seq_dim must be < input rank ( ", seq_dim, " vs. ", rank, ")");
  }
  if (batch_dim < 0 || batch_dim >= rank) {
    return InvalidArgument("batch_dim must be < input rank ( ", batch_dim, " vs. ", rank, ")");
  }
  if (!MayBeEqual(lengths[0], input[batch_dim])) {
    return InvalidArgument("Length of seq_lengths != input.dims(", batch_dim, "), (", lengths[0],
                           " vs. ", input[batch_dim], ")");
  }
  return absl::OkStatus();
}

absl::StatusOr<Dims> PrepareRoll(absl::Span<const int64_t> input, const Tensor& shift,
                                 const Tensor& axis) {
  const int rank = static_cast<int>(input.size());
  if (rank < 1) return InvalidArgument("input must be 1-D or higher");
  if (shift.rank() > 1) {
    return InvalidArgument("shift must be a scalar or a 1-D vector. Found: ",
                           shift.shape().ToString());
  }
  if (axis.rank() > 1) {
    return InvalidArgument("axis must be a scalar or a 1-D vector. Found: ",
                           axis.shape().ToString());
  }
  if (shift.shape() != axis.shape()) {
    return InvalidArgument("shift and axis must have the same size");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims by, IntegersOf(shift, "shift"));
  FORMWORK_ASSIGN_OR_RETURN(const Dims axes, IntegersOf(axis, "axis"));
  Dims shifts(input.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int at = FrontAxis(axes[i], rank);
    if (at < 0) return InvalidArgument("axis ", axes[i], " is out of range");
    const int64_t n = input[at];
    if (n != 0) shifts[at] = ((shifts[at] + by[i] % n) % n + n) % n;
  }
  return shifts;
}

}  // namespace formwork
