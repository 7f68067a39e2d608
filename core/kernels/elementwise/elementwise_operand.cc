#include "core/kernels/elementwise/elementwise_operand.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/status.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// A row that is written out repeatedly is no longer, and what it repeats over so often as large.
constexpr int64_t kLongestRow = 1 << 13;
constexpr int64_t kFewestTimes = 4;

struct Wide16 {
  uint64_t words[2];
};

// f(T()), of a T of `width` bytes.
template <typename F>
void ByWidth(size_t width, F f) {
  switch (width) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    case 8:
      return f(uint64_t());
    default:
      return f(Wide16());
  }
}

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
  ByWidth(width, [=](auto of) { CopyRun<decltype(of)>(from, stride, n, out); });
}

// `bytes` of a row of `row` bytes that repeats, from `at` on.
void RepeatRow(const char* from, size_t row, size_t at, size_t bytes, char* out) {
  const size_t first = std::min(bytes, row - at);
  std::memcpy(out, from + at, first);
  const size_t second = std::min(bytes - first, at);
  std::memcpy(out + first, from, second);
  // Then twice as much each time.
  for (size_t made = first + second; made < bytes;) {
    const size_t more = std::min(made, bytes - made);
    std::memcpy(out + made, out, more);
    made += more;
  }
}

template <typename T, int kTimes>
void RepeatFew(const T* from, int64_t apart, int64_t elements, T* out) {
  for (int64_t i = 0; i < elements; ++i, out += kTimes) {
    const T value = from[i * apart];
    for (int k = 0; k < kTimes; ++k) out[k] = value;
  }
}

// Elements `apart` each other, each `times`: [at, at + n) of what that gives.
template <typename T>
void RepeatElementsAs(const char* bytes, int64_t apart, int64_t times, int64_t at, int64_t n,
                      char* to) {
  const T* from = reinterpret_cast<const T*>(bytes) + at / times * apart;
  T* out = reinterpret_cast<T*>(to);
  if (const int64_t done = at % times; done > 0) {
    const int64_t left = std::min(n, times - done);
    out = std::fill_n(out, left, *from);
    from += apart;
    n -= left;
  }
  const int64_t whole = n / times;
  switch (times) {
    case 2:
      RepeatFew<T, 2>(from, apart, whole, out);
      break;
    case 3:
      RepeatFew<T, 3>(from, apart, whole, out);
      break;
    case 4:
      RepeatFew<T, 4>(from, apart, whole, out);
      break;
    default:
      for (int64_t i = 0; i < whole; ++i) std::fill_n(out + i * times, times, from[i * apart]);
  }
  if (const int64_t left = n - whole * times; left > 0) {
    std::fill_n(out + whole * times, left, from[whole * apart]);
  }
}

void RepeatElements(const char* from, size_t width, int64_t apart, int64_t times, int64_t at,
                    int64_t n, char* out) {
  ByWidth(width, [=](auto of) { RepeatElementsAs<decltype(of)>(from, apart, times, at, n, out); });
}

}  // namespace

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const std::optional<Dims> dims = BroadcastDims(a.dims(), b.dims());
  if (!dims) return InvalidArgument("Incompatible shapes: ", a.ToString(), " vs. ", b.ToString());
  return Shape::Make(*dims);
}

void Splat(const void* element, size_t width, int64_t n, void* out) {
  ByWidth(width, [=](auto of) { SplatAs<decltype(of)>(element, n, out); });
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
  if (dims_.size() == 2 && strides_[0] == 0 && strides_[1] == 1 && dims_[1] <= kLongestRow &&
      dims_[0] * dims_[1] >= kFewestTimes * (dims_[1] + kBlockElements)) {
    kind_ = Kind::kRow;
    const size_t row = static_cast<size_t>(dims_[1]) * width_;
    const size_t bytes = row + static_cast<size_t>(kBlockElements) * width_;
    rows_ = std::make_unique_for_overwrite<char[]>(bytes);
    RepeatRow(data_, row, 0, bytes, rows_.get());
    return;
  }
  // Rows, or elements, that repeat.
  const size_t last = dims_.size() - 1;
  if (last > 0 && (strides_[last] == 0 || (strides_[last] == 1 && strides_[last - 1] == 0))) {
    inner_dims_ = 2;
  }
  // Where there are no elements, none of none.
  inner_elements_ = std::max<int64_t>(1, dims_[last] * (inner_dims_ == 2 ? dims_[last - 1] : 1));
}

const void* Operand::Run(int64_t begin, int64_t n, void* scratch) const {
  switch (kind_) {
    case Kind::kDense:
      return data_ + static_cast<size_t>(begin) * width_;
    case Kind::kSplat:
      Splat(data_, width_, n, scratch);
      return scratch;
    case Kind::kRow:
      return rows_.get() + static_cast<size_t>(begin % dims_[1]) * width_;
    case Kind::kStrided:
      CopyStrided(begin, n, static_cast<char*>(scratch));
      return scratch;
  }
  return nullptr;
}

// The last dimensions, one or two, are walked as one; those before them by an index.
void Operand::CopyStrided(int64_t begin, int64_t n, char* out) const {
  const int outer = static_cast<int>(dims_.size()) - inner_dims_;
  Dims index(static_cast<size_t>(outer));
  int64_t at = begin % inner_elements_;
  int64_t rest = begin / inner_elements_, offset = 0;
  for (int i = outer - 1; i >= 0; --i) {
    index[i] = rest % dims_[i];
    rest /= dims_[i];
    offset += index[i] * strides_[i];
  }
  while (n > 0) {
    const int64_t run = std::min(n, inner_elements_ - at);
    CopyInner(data_ + static_cast<size_t>(offset) * width_, at, run, out);
    out += static_cast<size_t>(run) * width_;
    n -= run;
    at = 0;
    for (int i = outer - 1; i >= 0; --i) {
      offset += strides_[i];
      if (++index[i] < dims_[i]) break;
      offset -= dims_[i] * strides_[i];
      index[i] = 0;
    }
  }
}

void Operand::CopyInner(const char* from, int64_t at, int64_t n, char* out) const {
  const int64_t last = dims_.back(), stride = strides_.back();
  if (inner_dims_ == 1) {
    const char* const first = from + static_cast<size_t>(at * stride) * width_;
    if (stride == 0) return Splat(first, width_, n, out);
    return CopyElements(first, width_, stride, n, out);
  }
  if (stride == 0) {
    const int64_t apart = strides_[strides_.size() - 2];
    return RepeatElements(from, width_, apart, last, at, n, out);
  }
  RepeatRow(from, static_cast<size_t>(last) * width_, static_cast<size_t>(at % last) * width_,
            static_cast<size_t>(n) * width_, out);
}

}  // namespace formwork
