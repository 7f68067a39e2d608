#include "core/ops/reshape.h"

#include <optional>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"

namespace formwork {
namespace {

// Of the dimensions that are not 0; -1 where one is unknown, 0 where it overflows.
int64_t ProductOfNonzero(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 0) return -1;
    if (dim != 0 && __builtin_mul_overflow(product, dim, &product)) product = 0;
  }
  return product;
}

}  // namespace

bool KeepsElements(absl::string_view op) {
  return op == "Reshape" || op == "ExpandDims" || op == "Squeeze" || op == "Bitcast" ||
         op == "EnsureShape";
}

absl::StatusOr<Dims> PrepareReshape(absl::Span<const int64_t> input, const Tensor& sizes) {
  if (sizes.rank() > 1) {
    return InvalidArgument("sizes input must be 1-D, not ", sizes.shape().ToString());
  }
  if (sizes.num_elements() > kMaxRank) {
    return InvalidArgument("shape has too many dimensions: rank=", sizes.num_elements(),
                           " limit=", kMaxRank);
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, IntegersOf(sizes, "Reshape: shape"));
  int open = -1;
  int64_t product = 1;
  bool zero = false;  // A zero excuses any overflow of the others.
  bool overflow = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      if (open >= 0) {
        return InvalidArgument("Only one input size may be -1, not both ", open, " and ", i);
      }
      open = static_cast<int>(i);
    } else if (dims[i] < 0) {
      return InvalidArgument("Size ", i, " must be non-negative, not ", dims[i]);
    } else if (dims[i] == 0) {
      zero = true;
    } else {
      std::optional<int64_t> next = CheckedMul(product, dims[i]);
      overflow = overflow || !next;
      product = next.value_or(0);
    }
  }
  if (overflow) {
    return InvalidArgument("Shape [", absl::StrJoin(dims, ", "), "] has too many elements");
  }
  const int64_t elements = CountElements(input);
  if (elements < 0) return dims;
  if (open < 0 ? (zero ? 0 : product) != elements : zero && elements != 0) {
    return InvalidArgument("Input to reshape is a tensor with ", elements,
                           " values, but the requested shape has ", zero ? 0 : product);
  }
  if (open < 0) return dims;
  if (zero) {
    // As TensorFlow: among zeros the missing size follows from the sizes that are not zero,
    // rounded down.
    const int64_t nonzero = ProductOfNonzero(input);
    dims[open] = nonzero < 0 ? -1 : nonzero / product;
  } else if (elements % product != 0) {
    return InvalidArgument("Input to reshape is a tensor with ", elements,
                           " values, but the requested shape requires a multiple of ", product);
  } else {
    dims[open] = elements / product;
  }
  return dims;
}

absl::StatusOr<SqueezeAttrs> SqueezeAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<SqueezeAttrs>(attrs, "squeeze_dims", &SqueezeAttrs::axes);
}

absl::StatusOr<Dims> PrepareSqueeze(const SqueezeAttrs& attrs, absl::Span<const int64_t> input) {
  const int rank = static_cast<int>(input.size());
  absl::InlinedVector<bool, 8> squeezed(input.size(), attrs.axes.empty());
  for (int64_t axis : attrs.axes) {
    const int at = FrontAxis(axis, rank);
    if (at < 0) {
      return InvalidArgument("Tried to squeeze dim index ", axis, " for tensor with ", rank,
                             " dimensions.");
    }
    if (!MayBeEqual(input[at], 1)) {
      return InvalidArgument("Can not squeeze dim[", at, "], expected a dimension of 1, got ",
                             input[at]);
    }
    squeezed[at] = true;
  }
  Dims dims;
  for (int d = 0; d < rank; ++d) {
    if (!squeezed[d] || !MayBeEqual(input[d], 1)) dims.push_back(input[d]);
  }
  return dims;
}

absl::StatusOr<Dims> PrepareExpandDims(absl::Span<const int64_t> input, const Tensor& dim) {
  if (dim.num_elements() != 1) {
    return InvalidArgument("'dim' must be a tensor with a single value");
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t given, IntegerFromTensor(dim, "dim"));
  const int rank = static_cast<int>(input.size());
  const int at = FrontAxis(given, rank + 1);
  if (at < 0) {
    return InvalidArgument("Tried to expand dim index ", given, " for tensor with ", rank,
                           " dimensions.");
  }
  Dims dims(input.begin(), input.end());
  dims.insert(dims.begin() + at, 1);
  return dims;
}

absl::StatusOr<Dims> PrepareBitcast(absl::Span<const int64_t> input, DType from, DType to) {
  const auto from_size = static_cast<int64_t>(DTypeSize(from));
  const auto to_size = static_cast<int64_t>(DTypeSize(to));
  Dims dims(input.begin(), input.end());
  if (from_size > to_size) {
    dims.push_back(from_size / to_size);
  } else if (from_size < to_size) {
    if (dims.empty() || !MayBeEqual(dims.back(), to_size / from_size)) {
      return InvalidArgument("Cannot bitcast from ", static_cast<int>(from), " to ",
                             static_cast<int>(to), ": ", DTypeName(from), DimsText(input), " to ",
                             DTypeName(to));
    }
    dims.pop_back();
  }
  return dims;
}

}  // namespace formwork
