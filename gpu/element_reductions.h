#pragma once

// Groups of elementwise instructions that end in a reduction, on a GPU: the threads that reduce
// make each element as they come to it, so that it is never in memory. Needs no CUDA itself.

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/reduction.h"
#include "core/tensor/shape.h"
#include "gpu/element_launch.h"
#include "gpu/element_source.h"
#include "gpu/reduction_plan.h"

namespace formwork {

/// Whether a group may end in it (ElementGroup::reduction).
bool TakesReduction(absl::string_view op, DType dtype);

/// The text of two kernels of `(Elements, Out* out, ReduceSizes, ReduceBlock)`, of the first pass
/// over what the program, of one output and no divisors that may be 0, makes: kReduceElementsKernel
/// makes the result, and kReduceElementsInPartsKernel partial results, which the last pass of
/// ReduceSource joins. Elements: as ElementReduction's argument.
std::string ElementReductionSource(const ElementProgram& program, const ReductionOp& op);
/// The part of it that is the program's own, behind the texts of functions. Compiled for the host
/// by tests.
std::string ElementReductionSourceOfProgram(const ElementProgram& program, const ReductionOp& op);

inline constexpr char kReduceElementsKernel[] = "reduce_elements";
inline constexpr char kReduceElementsInPartsKernel[] = "reduce_elements_in_parts";

/// What these are launched with, for shapes that are known.
struct ElementReduction {
  /// Of elements of the shape `elements`, to which the inputs broadcast, and whose dimensions that
  /// are `reduced` go, wherever they lie. Errors: kUnimplemented where more than
  /// formwork_element::kMostReduceDims dimensions are left of those that differ by what becomes of
  /// them or by which inputs they are of.
  static absl::StatusOr<ElementReduction> Make(absl::Span<const ElementInput> inputs,
                                               const Shape& elements, const ReducedMask& reduced);

  absl::InlinedVector<ReducePass, 2> passes;
  /// The first parameter, as the kernels' text declares it.
  absl::InlinedVector<uint64_t, 64> argument;
};

}  // namespace formwork
