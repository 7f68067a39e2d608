#include "core/ops/strided_slice.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"

namespace formwork {
namespace {

// What the specification says of one dimension of the input.
struct DenseEntry {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stride = 1;
  bool begin_masked = true;
  bool end_masked = true;
  bool shrink = false;
};

constexpr int64_t kNewAxis = -1;
// The masks have so many bits in TensorFlow.
constexpr int kMaxEntries = 32;

bool Has(int64_t mask, size_t bit) { return (mask >> bit) & 1; }

// Spreads the sparse specification over the input's dimensions. `output` gets, for each dimension
// of the result, the input's dimension or kNewAxis.
absl::Status Spread(const SliceMasks& masks, const Dims* begin, const Dims* end,
                    const Dims& strides, size_t rank, absl::InlinedVector<DenseEntry, 6>& entries,
                    Dims& output) {
  const size_t n = strides.size();
  size_t new_axes_after_ellipsis = 0;
  bool ellipsis_seen = false;
  for (size_t i = 0; i < n; ++i) {
    if (Has(masks.ellipsis, i)) {
      if (ellipsis_seen) {
        return InvalidArgument("Multiple ellipses in slice spec not allowed");
      }
      ellipsis_seen = true;
    } else if (ellipsis_seen && Has(masks.new_axis, i)) {
      ++new_axes_after_ellipsis;
    }
  }
  entries.resize(rank);
  size_t full = 0;
  auto expand_to = [&](size_t next) {
    for (; full < next; ++full) output.push_back(static_cast<int64_t>(full));
  };
  for (size_t i = 0; i < n; ++i) {
    if (Has(masks.ellipsis, i)) {
      const size_t taken_after = n - i - 1 - new_axes_after_ellipsis;
      expand_to(rank > taken_after ? rank - taken_after : 0);
    } else if (Has(masks.new_axis, i)) {
      output.push_back(kNewAxis);
    } else {
      if (full >= rank) {
        if (rank == 0) return InvalidArgument("Attempting to slice scalar input.");
        return InvalidArgument("Index out of range using input dim ", full, "; input has only ",
                               rank, " dims");
      }
      DenseEntry& entry = entries[full];
      entry.begin = begin != nullptr ? (*begin)[i] : 0;
      entry.end = end != nullptr ? (*end)[i] : 0;
      entry.stride = strides[i];
      entry.begin_masked = Has(masks.begin, i);
      entry.end_masked = Has(masks.end, i);
      entry.shrink = Has(masks.shrink_axis, i);
      if (!entry.shrink) output.push_back(static_cast<int64_t>(full));
      ++full;
    }
  }
  expand_to(rank);
  return absl::OkStatus();
}

int64_t Canonical(int64_t index, bool masked, bool is_end, int64_t stride, int64_t dim) {
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? dim : dim - 1;
  if (masked) return (stride > 0) == is_end ? high : low;
  return std::clamp(index < 0 ? dim + index : index, low, high);
}

int64_t CountSteps(int64_t interval, int64_t stride) {
  if (interval == 0 || (interval < 0) != (stride < 0)) return 0;
  return interval / stride + (interval % stride != 0 ? 1 : 0);
}

}  // namespace

absl::StatusOr<SliceMasks> SliceMasks::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<SliceMasks>(attrs, "begin_mask", &SliceMasks::begin, "end_mask",
                               &SliceMasks::end, "ellipsis_mask", &SliceMasks::ellipsis,
                               "new_axis_mask", &SliceMasks::new_axis, "shrink_axis_mask",
                               &SliceMasks::shrink_axis);
}

absl::Status ResolveStridedSlice(const SliceMasks& masks, const Dims* begin, const Dims* end,
                                 const Dims& strides, absl::Span<const int64_t> input,
                                 SliceBounds& bounds) {
  if (strides.size() >= kMaxEntries || (begin != nullptr && begin->size() != strides.size()) ||
      (end != nullptr && end->size() != strides.size())) {
    return InvalidArgument(
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes [",
        begin != nullptr ? begin->size() : strides.size(), "], [",
        end != nullptr ? end->size() : strides.size(), "], and [", strides.size(), "] instead.");
  }
  absl::InlinedVector<DenseEntry, 6> entries;
  Dims kept;
  FORMWORK_RETURN_IF_ERROR(Spread(masks, begin, end, strides, input.size(), entries, kept));
  bounds.dims.clear();
  bounds.output.clear();
  bounds.whole = true;
  for (size_t d = 0; d < entries.size(); ++d) {
    const DenseEntry& entry = entries[d];
    const int64_t dim = input[d];
    if (entry.stride == 0) return InvalidArgument("strides[", d, "] must be non-zero");
    if (entry.shrink && entry.stride <= 0) {
      return InvalidArgument("only stride 1 allowed on non-range indexing.");
    }
    SliceDim slice{0, entry.stride, -1};
    // An untouched dimension needs neither begin nor end.
    const bool known = (begin != nullptr || entry.begin_masked) &&
                       (end != nullptr || entry.end_masked) && dim >= 0;
    if (entry.shrink) {
      slice.size = 1;
      if (begin != nullptr && dim >= 0) {
        slice.begin = entry.begin < 0 ? dim + entry.begin : entry.begin;
        if (slice.begin < 0 || slice.begin >= dim) {
          return InvalidArgument("slice index ", slice.begin, " of dimension ", d,
                                 " out of bounds.");
        }
      }
    } else if (known) {
      slice.begin = Canonical(entry.begin, entry.begin_masked, false, entry.stride, dim);
      const int64_t stop = Canonical(entry.end, entry.end_masked, true, entry.stride, dim);
      slice.size = CountSteps(stop - slice.begin, entry.stride);
    }
    bounds.whole = bounds.whole && dim >= 0 && slice.size == dim && (entry.stride == 1 || dim <= 1);
    bounds.dims.push_back(slice);
  }
  for (int64_t d : kept) bounds.output.push_back(d == kNewAxis ? 1 : bounds.dims[d].size);
  return absl::OkStatus();
}

absl::StatusOr<SliceBounds> PrepareStridedSlice(const SliceMasks& masks,
                                                absl::Span<const int64_t> input,
                                                const Tensor& begin, const Tensor& end,
                                                const Tensor& strides) {
  if (begin.rank() != 1 || end.rank() != 1 || strides.rank() != 1 ||
      begin.num_elements() != end.num_elements() ||
      begin.num_elements() != strides.num_elements() || begin.num_elements() >= kMaxEntries) {
    return InvalidArgument(
        "Expected begin, end, and strides to be 1D equal size tensors, but got shapes ",
        begin.shape().ToString(), ", ", end.shape().ToString(), ", and ",
        strides.shape().ToString(), " instead.");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims begins, IntegersOf(begin, "begin"));
  FORMWORK_ASSIGN_OR_RETURN(const Dims ends, IntegersOf(end, "end"));
  FORMWORK_ASSIGN_OR_RETURN(const Dims steps, IntegersOf(strides, "strides"));
  SliceBounds bounds;
  FORMWORK_RETURN_IF_ERROR(ResolveStridedSlice(masks, &begins, &ends, steps, input, bounds));
  return bounds;
}

absl::StatusOr<StridedSliceGradGeometry> PrepareStridedSliceGrad(
    const SliceMasks& masks, const Tensor& shape, const Tensor& begin, const Tensor& end,
    const Tensor& strides, absl::Span<const int64_t> dy) {
  if (shape.rank() != 1) {
    return InvalidArgument("shape must be 1-D, got shape.shape = ", shape.shape().ToString());
  }
  StridedSliceGradGeometry geometry;
  FORMWORK_ASSIGN_OR_RETURN(geometry.output, ShapeFromTensor(shape, "shape"));
  FORMWORK_ASSIGN_OR_RETURN(
      geometry.bounds, PrepareStridedSlice(masks, geometry.output.dims(), begin, end, strides));
  if (!MayBeEqual(dy, geometry.bounds.output)) {
    return InvalidArgument("shape of dy was ", DimsText(dy), " instead of ",
                           DimsText(geometry.bounds.output));
  }
  return geometry;
}

absl::Status ResolveSlice(const Dims* begin, const Dims* size, absl::Span<const int64_t> input,
                          SliceBounds& bounds) {
  for (size_t d = 0; d < input.size(); ++d) {
    const int64_t dim = input[d];
    const int64_t from = begin != nullptr ? (*begin)[d] : -1;
    if (begin != nullptr && (from < 0 || (dim >= 0 && from > dim))) {
      return InvalidArgument("Expected begin[", d, "] in [0, ", dim, "], but got ", from);
    }
    const int64_t left = dim >= 0 && from >= 0 ? dim - from : -1;
    int64_t length = size != nullptr ? (*size)[d] : -1;
    if (size != nullptr && (length < -1 || (left >= 0 && length > left))) {
      return InvalidArgument("Expected size[", d, "] in [0, ", left, "], but got ", length);
    }
    if (size != nullptr && length == -1) length = left;
    bounds.whole = bounds.whole && length >= 0 && length == dim;
    bounds.dims.push_back({from, 1, length});
    bounds.output.push_back(length);
  }
  return absl::OkStatus();
}

absl::StatusOr<SliceBounds> PrepareSlice(absl::Span<const int64_t> input, const Tensor& begin,
                                         const Tensor& size) {
  const int64_t rank = static_cast<int64_t>(input.size());
  if (begin.rank() != 1 || size.rank() != 1 || begin.num_elements() != rank ||
      size.num_elements() != rank) {
    return InvalidArgument("Expected begin and size arguments to be 1-D tensors of size ", rank,
                           ", but got shapes ", begin.shape().ToString(), " and ",
                           size.shape().ToString(), " instead.");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims begins, IntegersOf(begin, "begin"));
  FORMWORK_ASSIGN_OR_RETURN(const Dims sizes, IntegersOf(size, "size"));
  SliceBounds bounds;
  FORMWORK_RETURN_IF_ERROR(ResolveSlice(&begins, &sizes, input, bounds));
  return bounds;
}

absl::StatusOr<SliceBounds> PrepareDynamicSlice(absl::Span<const int64_t> input,
                                                const Tensor& begin,
                                                absl::Span<const int64_t> size) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims start, IntegersOf(begin, "indices"));
  if (size.size() != input.size() || start.size() != input.size()) {
    return InvalidArgument("ranks differ: input=", DimsText(input), " slice=", DimsText(size),
                           " indices=", start.size());
  }
  SliceBounds bounds;
  for (size_t d = 0; d < input.size(); ++d) {
    if (size[d] > input[d]) {
      return InvalidArgument("the slice is larger than the input: input=", DimsText(input),
                             " slice=", DimsText(size));
    }
    bounds.dims.push_back({std::clamp<int64_t>(start[d], 0, input[d] - size[d]), 1, size[d]});
    bounds.output.push_back(size[d]);
  }
  return bounds;
}

absl::StatusOr<SliceBounds> PrepareDynamicSlice(absl::Span<const int64_t> input,
                                                const Tensor& begin, const Tensor& size) {
  FORMWORK_ASSIGN_OR_RETURN(const Dims sizes, IntegersOf(size, "size_indices"));
  for (const int64_t dim : sizes) {
    if (dim < 0) return InvalidArgument("size_indices: a dimension is negative: ", DimsText(sizes));
  }
  return PrepareDynamicSlice(input, begin, absl::MakeConstSpan(sizes));
}

absl::Status CheckSliceValue(const SliceBounds& bounds, absl::Span<const int64_t> value) {
  bool fits = value.size() <= bounds.output.size();
  for (size_t d = 0; fits && d < value.size(); ++d) {
    const int64_t dim = bounds.output[d + bounds.output.size() - value.size()];
    fits = value[d] == 1 || MayBeEqual(value[d], dim);
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("slice assignment: the value does not fit: slice=",
                         DimsText(bounds.output), " value=", DimsText(value));
}

}  // namespace formwork
