#pragma once

// Broadcasting: an operand of an elementwise loop, seen block by block in the output's shape.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Elements in one block: a few operands' blocks stay in the first-level cache, and every tile
/// (elementwise_tile.h) goes into it without a rest.
inline constexpr int64_t kBlockElements = 768;

/// The shape of elementwise a and b. Errors: kInvalidArgument in TensorFlow's words.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);

/// Gives runs of an operand as if it had the output's shape. Immutable; the tensor's elements must
/// outlive it. A row that is short beside what it repeats over (a bias, a scale by channel) is
/// written out as often as a run needs once, so that runs lie in place.
class Operand {
 public:
  /// `shape` broadcasts to `out` (not checked).
  Operand(const void* data, size_t width, const Shape& shape, const Shape& out);

  /// Elements [begin, begin + n) of the broadcast operand, n <= kBlockElements: in place where they
  /// lie together, else copied into `scratch` (n elements).
  const void* Run(int64_t begin, int64_t n, void* scratch) const;
  /// True where all runs lie in place, one after the other.
  bool is_dense() const { return kind_ == Kind::kDense; }
  /// True where every run has the same content: it may be made once.
  bool is_splat() const { return kind_ == Kind::kSplat; }
  const void* element() const { return data_; }  ///< Of a splat: the one element.

 private:
  enum class Kind : uint8_t { kDense, kSplat, kRow, kStrided };
  void CopyStrided(int64_t begin, int64_t n, char* out) const;
  // Elements [at, at + n) of the inner dimensions, which begin at `from`.
  void CopyInner(const char* from, int64_t at, int64_t n, char* out) const;

  Kind kind_;
  const char* data_;
  size_t width_;
  Dims dims_;     // Of the output, neighbours of like stride joined.
  Dims strides_;  // Of the operand, in elements; 0 where it repeats.
  int inner_dims_ = 1;
  int64_t inner_elements_ = 1;
  std::unique_ptr<char[]> rows_;  // Of kRow: row after row, a block more than one.
};

/// Copies one element of `width` bytes n times.
void Splat(const void* element, size_t width, int64_t n, void* out);

}  // namespace formwork
