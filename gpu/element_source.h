#pragma once

// The text of CUDA kernels for elementwise ops, which a GPU's device compiles when a plan wants
// them. Needs no CUDA itself.

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// The type of elements in kernels' texts; empty where they have none.
absl::string_view ElementTypeName(DType dtype);

/// An op of element_ops.inc.
struct ElementOp {
  enum class DTypes { kFloats, kNumbers, kDivided, kIntegers, kBools };
  enum class Result { kSame, kBool };

  absl::string_view name;
  int arity;
  DTypes dtypes;
  Result result;
  absl::string_view expression;  ///< C++, of a, b and c, of the type T that computes.

  /// Whether operands, all of this dtype, can be computed.
  bool Takes(DType dtype) const;
  /// Whether it fails where an element of b is 0.
  bool MayFail(DType dtype) const;
};

/// All of them.
absl::Span<const ElementOp> ElementOps();
/// Null where there is none.
const ElementOp* FindElementOp(absl::string_view name);

/// How a kernel finds its operands.
enum class ElementOrder {
  /// Each has the output's elements, or is one element: bit k of `scalars`, counted from the first.
  kFlat,
  /// By strides, in `ElementStrides`.
  kStrided,
};

/// What a strided kernel is told: the output's dimensions, the last one first, and by how many
/// elements each operand goes on in them, 0 where it is repeated.
struct ElementStrides {
  static constexpr int kMostDims = 8;
  int32_t rank;
  uint32_t dims[kMostDims];
  uint32_t strides[3][kMostDims];
};

/// The elements that one thread of a flat kernel computes at a time: 16 bytes of the largest type.
int ElementsPerThread(const ElementOp& op, DType dtype);

/// The text of a kernel `element(const In* a, ..., Out* out, uint64 n)`, by `order` with an
/// ElementStrides behind that, and, of an op that may fail, `FailureWord* word, uint64 step` behind
/// all. `scalars`: of kFlat. A kStrided one takes less than 2^32 elements.
std::string ElementSource(const ElementOp& op, DType dtype, ElementOrder order, unsigned scalars);

/// The same name in every text.
inline constexpr char kElementKernel[] = "element";

}  // namespace formwork
