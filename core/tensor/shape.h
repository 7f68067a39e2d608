#pragma once

// Shapes of values (Shape) and what is known of them beforehand (PartialShape).

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace formwork {

/// As TensorFlow.
inline constexpr int kMaxRank = 254;

using Dims = absl::InlinedVector<int64_t, 6>;

/// The dimensions of a dense value. Invariant: none is negative, their product fits int64.
class Shape {
 public:
  Shape() = default;  ///< A scalar's.

  /// Errors: kInvalidArgument if a dimension is negative, there are more than kMaxRank, or the
  /// number of elements overflows int64.
  static absl::StatusOr<Shape> Make(absl::Span<const int64_t> dims);
  /// For dimensions that are known to be in order (literals, parts of a checked Shape).
  static Shape Trusted(absl::Span<const int64_t> dims);
  Shape(std::initializer_list<int64_t> dims) : Shape(Trusted(dims)) {}  // NOLINT

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const { return num_elements_; }
  bool is_scalar() const { return dims_.empty(); }

  bool operator==(const Shape& other) const {
    return num_elements_ == other.num_elements_ && dims_ == other.dims_;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }
  std::string ToString() const;  ///< "[2,3]"

 private:
  Dims dims_;
  int64_t num_elements_ = 1;
};

/// A shape of which the rank or some dimensions may be unknown (-1).
class PartialShape {
 public:
  PartialShape() = default;  ///< Unknown rank.
  PartialShape(const Shape& shape)
      : known_rank_(true), dims_(shape.dims().begin(), shape.dims().end()) {}  // NOLINT
  /// Dimensions below -1 are refused: kInvalidArgument; more than kMaxRank too.
  static absl::StatusOr<PartialShape> Make(absl::Span<const int64_t> dims);
  static PartialShape Trusted(absl::Span<const int64_t> dims);
  static PartialShape Unknown() { return PartialShape(); }
  static PartialShape OfRank(int rank);

  bool known_rank() const { return known_rank_; }
  int rank() const { return known_rank_ ? static_cast<int>(dims_.size()) : -1; }
  int64_t dim(int i) const { return dims_[i]; }
  void set_dim(int i, int64_t dim) { dims_[i] = dim; }
  absl::Span<const int64_t> dims() const { return dims_; }
  bool fully_known() const;
  /// Set where fully known and within Shape's invariant.
  std::optional<Shape> ToShape() const;

  /// True where a value of shape `shape` fits.
  bool Accepts(const Shape& shape) const;
  bool IsCompatibleWith(const PartialShape& other) const;
  /// True where every shape that fits this one fits `other` (TensorShape.is_subtype_of).
  bool IsSubtypeOf(const PartialShape& other) const;
  /// What both say together; nullopt where they contradict each other.
  std::optional<PartialShape> Merge(const PartialShape& other) const;
  /// The most specific shape that both are subtypes of (most_specific_common_supertype).
  PartialShape CommonSupertype(const PartialShape& other) const;

  bool operator==(const PartialShape& other) const {
    return known_rank_ == other.known_rank_ && dims_ == other.dims_;
  }
  bool operator!=(const PartialShape& other) const { return !(*this == other); }
  std::string ToString() const;  ///< "[2,?]" or "<unknown>"

 private:
  bool known_rank_ = false;
  Dims dims_;
};

}  // namespace formwork
