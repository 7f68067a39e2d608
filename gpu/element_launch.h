#pragma once

// What a kernel of elementwise instructions is launched with. Needs no CUDA itself.

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "gpu/element_source.h"

namespace formwork {

struct ElementInput {
  const void* elements;
  const Shape* shape;
};
struct ElementOutput {
  void* elements;      ///< Null: this launch does not make it.
  const void* before;  ///< Of one that keeps it (ElementProgram::keeps); null: it is there already.
};

/// How operands that broadcast to a shape are gone through: dimensions of the shape, the innermost
/// first, and by how many elements each operand goes on in them, 0 where it is repeated.
struct ElementStrides {
  absl::InlinedVector<uint64_t, 8> dims;
  absl::InlinedVector<absl::InlinedVector<uint64_t, 8>, 16> of;  ///< By operand.
};
/// Of the dimensions in `order`, the innermost first. Those in which all operands go on as in the
/// one before are one with that; dimensions of 1 are left out.
ElementStrides StridesOf(absl::Span<const Shape* const> operands, const Shape& shape,
                         absl::Span<const int> order);

/// One launch: of the outputs of one shape, to which the inputs broadcast that these need.
struct ElementLaunch {
  /// Errors: kUnimplemented where, of a shape to which inputs broadcast, more than
  /// kMostElementDims dimensions are left of those that differ, or there are 2^31 elements.
  static absl::StatusOr<ElementLaunch> Make(const ElementProgram& program,
                                            absl::Span<const ElementInput> inputs,
                                            absl::Span<const ElementOutput> outputs,
                                            const Shape& shape);

  bool wide = true;      ///< Of kElementsKernel; else of kElementsOneKernel.
  uint64_t threads = 0;  ///< That have something to do.
  /// The kernel's first parameter, as its text declares it.
  absl::InlinedVector<uint64_t, 64> argument;
};

}  // namespace formwork
