#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The elements of an int32 or int64 tensor as int64: row splits, indices. Copied only where they
/// are int32. Looks into the tensor, which must outlive it and stay where it is.
class IndexValues {
 public:
  explicit IndexValues(const Tensor& tensor) {
    if (tensor.dtype() == DType::kInt64) {
      values_ = tensor.span<int64_t>();
      return;
    }
    widened_.resize(static_cast<size_t>(tensor.num_elements()));
    const int32_t* from = tensor.data<int32_t>();
    ForBlocks(tensor.num_elements(), kCheapItems, [this, from](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) widened_[static_cast<size_t>(i)] = from[i];
    });
    values_ = widened_;
  }
  IndexValues(IndexValues&&) = default;
  IndexValues& operator=(IndexValues&&) = default;

  int64_t operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  int64_t back() const { return values_.back(); }
  absl::Span<const int64_t> span() const { return values_; }

 private:
  std::vector<int64_t> widened_;
  absl::Span<const int64_t> values_;
};

}  // namespace formwork
