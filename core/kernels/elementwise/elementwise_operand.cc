#include "core/kernels/elementwise/elementwise_operand.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/status.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

struct Wide16 {
  uint64_t words[2];
};

template <typename T>
void SplatAs(const void* element, int64_t n, void* out) {
  std::fill_n(static_cast<T*>(out), n, *static_cast<const T*>(element));
}

template <typename T>
void CopyRun(const char* from, int64_t stride, int64_t n, char* out) {
  const T* source = reinterpret_cast<const T*>(from);
  T* target = reinterpret_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) target[i] = source[i * stride];
}

void CopyElements(const char* from, size_t width, int64_t stride, int64_t n, char* out) {
  if (stride == 1) {
    std::memcpy(out, from, static_cast<size_t>(n) * width);
    return;
  }
  switch (width) {
    case 1:
      return CopyRun<uint8_t>(from, stride, n, out);
    case 2:
      return CopyRun<uint16_t>(from, stride, n, out);
    case 4:
      return CopyRun<uint32_t>(from, stride, n, out);
    case 8:
      return CopyRun<uint64_t>(from, stride, n, out);
    default:
      return CopyRun<Wide16>(from, stride, n, out);
  }
}

}  // namespace

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const std::optional<Dims> dims = BroadcastDims(a.dims(), b.dims());
  if (!dims) return InvalidArgument("Incompatible shapes: ", a.ToString(), " vs. ", b.ToString());
  return Shape::Make(*dims);
}

void Splat(const void* element, size_t width, int64_t n, void* out) {
  switch (width) {
    case 1:
      return SplatAs<uint8_t>(element, n, out);
    case 2:
      return SplatAs<uint16_t>(element, n, out);
    case 4:
      return SplatAs<uint32_t>(element, n, out);
    case 8:
      return SplatAs<uint64_t>(element, n, out);
    default:
      return SplatAs<Wide16>(element, n, out);
  }
}

Operand::Operand(const void* data, size_t width, const Shape& shape, const Shape& out)
    : kind_(Kind::kStrided), data_(static_cast<const char*>(data)), width_(width) {
  if (shape.num_elements() == out.num_elements()) {
    kind_ = Kind::kDense;
    return;
  }
  if (shape.num_elements() == 1) {
    kind_ = Kind::kSplat;
    return;
  }
  const int rank = out.rank();
  const int missing = rank - shape.rank();
  Dims strides(rank, 0);
  int64_t stride = 1;
  for (int i = rank - 1; i >= missing; --i) {
    const int64_t dim = shape.dim(i - missing);
    strides[i] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  // Joins neighbours that are walked alike.
  for (int i = 0; i < rank; ++i) {
    const int64_t dim = out.dim(i);
    if (dim == 1) continue;
    if (!dims_.empty() && ((strides_.back() == 0 && strides[i] == 0) ||
                           (strides[i] != 0 && strides_.back() == strides[i] * dim))) {
      dims_.back() *= dim;
      strides_.back() = strides[i];
      continue;
    }
    dims_.push_back(dim);
    strides_.push_back(strides[i]);
  }
}

const void* Operand::Run(int64_t begin, int64_t n, void* scratch) const {
  switch (kind_) {
    case Kind::kDense:
      return data_ + static_cast<size_t>(begin) * width_;
    case Kind::kSplat:
      Splat(data_, width_, n, scratch);
      return scratch;
    case Kind::kStrided:
      CopyStrided(begin, n, static_cast<char*>(scratch));
      return scratch;
  }
  return nullptr;
}

void Operand::CopyStrided(int64_t begin, int64_t n, char* out) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  // The position of `begin`: an index per dimension, and where that is in the operand.
  Dims index(dims_.size());
  int64_t rest = begin, offset = 0;
  for (int i = last; i >= 0; --i) {
    index[i] = rest % dims_[i];
    rest /= dims_[i];
    offset += index[i] * strides_[i];
  }
  while (n > 0) {
    const int64_t run = std::min(n, dims_[last] - index[last]);
    const char* from = data_ + static_cast<size_t>(offset) * width_;
    if (strides_[last] == 0) {
      Splat(from, width_, run, out);
    } else {
      CopyElements(from, width_, strides_[last], run, out);
    }
    out += static_cast<size_t>(run) * width_;
    n -= run;
    if (n == 0) return;
    offset += (dims_[last] - index[last]) * strides_[last] - dims_[last] * strides_[last];
    index[last] = 0;
    for (int i = last - 1; i >= 0; --i) {
      offset += strides_[i];
      if (++index[i] < dims_[i]) break;
      offset -= dims_[i] * strides_[i];
      index[i] = 0;
    }
  }
}

}  // namespace formwork
