#include "core/resource/changed_rows.h"

#include <algorithm>
#include <cstring>

#include "core/base/status.h"

namespace formwork {
namespace {

template <typename Index>
void AppendRows(const RowIndices& rows, int64_t count, std::vector<int64_t>& out) {
  const absl::Span<const Index> indices = rows.indices.span<Index>();
  for (size_t i = 0; i < indices.size(); i += static_cast<size_t>(rows.step)) {
    if (indices[i] >= 0 && indices[i] < count) out.push_back(indices[i]);
  }
}

}  // namespace

void ChangedRows::Reserve(const Tensor& value) {
  const bool small = value.bytes() / 2 < sizeof(RowIndices);  // Add remembers nothing of it.
  if (!known_ || small || indices_.size() < indices_.capacity()) return;
  indices_.reserve(std::max<size_t>(4, 2 * indices_.size()));
}

void ChangedRows::Add(const RowIndices& rows, const Tensor& value) {
  if (!known_) return;
  const int64_t named = rows.indices.num_elements() / rows.step;
  if (named == 0) return;
  // Indices on a device are not looked at.
  if (value.rank() == 0 || value.dim(0) == 0 || rows.indices.on_device()) return AddAll();
  count_ = value.dim(0);
  if (named >= count_) return AddAll();
  bytes_ += sizeof(RowIndices) + rows.indices.bytes() +
            static_cast<size_t>(named) * (value.bytes() / static_cast<size_t>(count_));
  if (bytes_ > value.bytes() / 2) return AddAll();
  indices_.push_back(rows);
}

void ChangedRows::AddAll() {
  known_ = false;
  indices_ = {};
}

absl::StatusOr<ChangedRows::Copied> ChangedRows::Copy(const Tensor& value,
                                                      Allocator& allocator) const {
  const std::vector<int64_t> rows = Rows();
  std::vector<int64_t> dims(value.shape().dims().begin(), value.shape().dims().end());
  dims[0] = static_cast<int64_t>(rows.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  Copied copied;
  FORMWORK_ASSIGN_OR_RETURN(copied.rows,
                            Tensor::Allocate(allocator, DType::kInt64, Shape({dims[0]})));
  FORMWORK_ASSIGN_OR_RETURN(copied.values, Tensor::Allocate(allocator, value.dtype(), shape));
  const size_t bytes = value.bytes() / static_cast<size_t>(count_);
  const char* const from = static_cast<const char*>(value.raw());
  char* to = static_cast<char*>(copied.values.mutable_raw());
  for (size_t i = 0; i < rows.size(); ++i, to += bytes) {
    copied.rows.mutable_data<int64_t>()[i] = rows[i];
    std::memcpy(to, from + static_cast<size_t>(rows[i]) * bytes, bytes);
  }
  return copied;
}

std::vector<int64_t> ChangedRows::Rows() const {
  std::vector<int64_t> rows;
  for (const RowIndices& some : indices_) {
    if (some.indices.dtype() == DType::kInt32) {
      AppendRows<int32_t>(some, count_, rows);
    } else {
      AppendRows<int64_t>(some, count_, rows);
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace formwork
