#include "core/ops/dims.h"

#include <algorithm>

#include "core/base/checked_math.h"

namespace formwork {

std::optional<int64_t> MultiplyDims(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return -1;
  return CheckedMul(a, b);
}

std::optional<int64_t> AddDims(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return -1;
  return CheckedAdd(a, b);
}

std::optional<int64_t> BroadcastDim(int64_t a, int64_t b) {
  if (a == 1) return b;
  if (b == 1 || a == b) return a;
  // An unknown one is 1 or the same as the other, which is not 1: the other either way.
  if (a < 0) return b;
  if (b < 0) return a;
  return std::nullopt;
}

std::optional<Dims> BroadcastDims(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims dims(rank);
  for (size_t i = 1; i <= rank; ++i) {
    const std::optional<int64_t> dim =
        BroadcastDim(i <= a.size() ? a[a.size() - i] : 1, i <= b.size() ? b[b.size() - i] : 1);
    if (!dim) return std::nullopt;
    dims[rank - i] = *dim;
  }
  return dims;
}

bool MayBeEqual(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (!MayBeEqual(a[d], b[d])) return false;
  }
  return true;
}

Dims RowMajorStrides(absl::Span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    if (__builtin_mul_overflow(stride, dims[d], &stride)) stride = 0;
  }
  return strides;
}

int64_t CountElements(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim == 0) return 0;
    if (product >= 0) product = MultiplyDims(product, dim).value_or(-1);
  }
  return product;
}

std::string DimsText(absl::Span<const int64_t> dims) {
  return PartialShape::Trusted(dims).ToString();
}

}  // namespace formwork
