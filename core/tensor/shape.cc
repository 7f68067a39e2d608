#include "core/tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"

namespace formwork {

absl::StatusOr<Shape> Shape::Make(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return InvalidArgument("shape has too many dimensions: rank=", dims.size(),
                           " limit=", kMaxRank);
  }
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 0) {
      return InvalidArgument("shape has a negative dimension: [", absl::StrJoin(dims, ","), "]");
    }
    std::optional<int64_t> next = CheckedMul(product, dim);
    if (!next) {
      return InvalidArgument("shape has too many elements: [", absl::StrJoin(dims, ","), "]");
    }
    product = *next;
  }
  Shape shape;
  shape.dims_.assign(dims.begin(), dims.end());
  shape.num_elements_ = product;
  return shape;
}

Shape Shape::Trusted(absl::Span<const int64_t> dims) {
  Shape shape;
  shape.dims_.assign(dims.begin(), dims.end());
  for (int64_t dim : dims) shape.num_elements_ *= dim;
  return shape;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims_, ","), "]"); }

absl::StatusOr<PartialShape> PartialShape::Make(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return InvalidArgument("shape has too many dimensions: rank=", dims.size(),
                           " limit=", kMaxRank);
  }
  for (int64_t dim : dims) {
    if (dim < -1) {
      return InvalidArgument("shape has a dimension below -1: [", absl::StrJoin(dims, ","), "]");
    }
  }
  return Trusted(dims);
}

PartialShape PartialShape::Trusted(absl::Span<const int64_t> dims) {
  PartialShape shape;
  shape.known_rank_ = true;
  shape.dims_.assign(dims.begin(), dims.end());
  return shape;
}

PartialShape PartialShape::OfRank(int rank) { return Trusted(Dims(rank, -1)); }

bool PartialShape::fully_known() const {
  return known_rank_ && std::find(dims_.begin(), dims_.end(), -1) == dims_.end();
}

std::optional<Shape> PartialShape::ToShape() const {
  if (!fully_known()) return std::nullopt;
  absl::StatusOr<Shape> shape = Shape::Make(dims_);
  if (!shape.ok()) return std::nullopt;
  return *std::move(shape);
}

bool PartialShape::Accepts(const Shape& shape) const {
  if (!known_rank_) return true;
  if (rank() != shape.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (dims_[i] != -1 && dims_[i] != shape.dim(i)) return false;
  }
  return true;
}

bool PartialShape::IsCompatibleWith(const PartialShape& other) const {
  return Merge(other).has_value();
}

bool PartialShape::IsSubtypeOf(const PartialShape& other) const {
  if (!other.known_rank_) return true;
  if (!known_rank_ || rank() != other.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    if (other.dims_[i] != -1 && other.dims_[i] != dims_[i]) return false;
  }
  return true;
}

std::optional<PartialShape> PartialShape::Merge(const PartialShape& other) const {
  if (!known_rank_) return other;
  if (!other.known_rank_) return *this;
  if (rank() != other.rank()) return std::nullopt;
  PartialShape merged = *this;
  for (int i = 0; i < rank(); ++i) {
    if (merged.dims_[i] == -1) merged.dims_[i] = other.dims_[i];
    if (other.dims_[i] != -1 && other.dims_[i] != merged.dims_[i]) return std::nullopt;
  }
  return merged;
}

PartialShape PartialShape::CommonSupertype(const PartialShape& other) const {
  if (!known_rank_ || !other.known_rank_ || rank() != other.rank()) return PartialShape();
  PartialShape common = *this;
  for (int i = 0; i < rank(); ++i) {
    if (dims_[i] != other.dims_[i]) common.dims_[i] = -1;
  }
  return common;
}

std::string PartialShape::ToString() const {
  if (!known_rank_) return "<unknown>";
  return absl::StrCat("[",
                      absl::StrJoin(dims_, ",",
                                    [](std::string* out, int64_t dim) {
                                      absl::StrAppend(out, dim == -1 ? "?" : absl::StrCat(dim));
                                    }),
                      "]");
}

}  // namespace formwork
