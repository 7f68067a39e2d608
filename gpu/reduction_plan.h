#pragma once

// Reductions on a GPU, as passes over memory (reduce_functions.h). Needs no CUDA itself.

#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "core/ops/reduction.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "gpu/layer_norm_functions.h"
#include "gpu/moves.h"
#include "gpu/reduce_functions.h"

namespace formwork {

struct ReducePass {
  formwork_element::ReduceSizes sizes;
  formwork_element::ReduceBlock block;

  uint64_t outputs() const { return sizes.outer * sizes.parts * sizes.inner; }
};

/// First, where what is reduced does not lie together, a copy of the input in which it does; then
/// one pass, or two, of which the first makes partial results.
struct ReductionPlan {
  std::optional<Move> together;
  absl::InlinedVector<ReducePass, 2> passes;
};

/// Of an input of `dims`, whose dimensions that are `reduced` go. `parts`: whether it may be made
/// of several parts, which is for large inputs and few outputs.
ReductionPlan PlanReduction(absl::Span<const int64_t> dims, const ReducedMask& reduced,
                            bool parts = true);

/// The passes over what lies together, or is made as it is read.
absl::InlinedVector<ReducePass, 2> ReducePasses(const ReduceExtent& extent, bool parts = true);

/// A reduction by its op, and for which inputs.
struct ReductionOp {
  enum class DTypes { kFloats, kNumbers, kBools, kAny };

  absl::string_view op;
  absl::string_view reduction;  ///< In reduce_functions.h.
  DTypes dtypes;

  bool Takes(DType dtype) const;
};
/// Sum, Prod, Mean, Max, Min, EuclideanNorm, L2Loss, All, Any, ArgMax, ArgMin, BiasAddGrad.
absl::Span<const ReductionOp> ReductionOps();
/// Null where there is none.
const ReductionOp* FindReductionOp(absl::string_view op);

/// The type of reduce_functions.h that reduces elements of `in`.
std::string ReductionType(const ReductionOp& op, DType in);

/// The text of a kernel `reduce(const In* in, Out* out, ReduceSizes, ReduceBlock)`. `first`,
/// `last`: which of the passes it is for; between them are partial results, of `PartialBytes` each.
inline constexpr char kReduceKernel[] = "reduce";
std::string ReduceSource(const ReductionOp& op, DType in, DType out, bool first, bool last);
size_t PartialBytes(const ReductionOp& op, DType in);

/// The text of a kernel `softmax(const E* in, E* out, uint64 rows, uint64 n, ReduceBlock)`, of
/// LogSoftmax where `log`; and how its blocks are divided for rows of `n` elements.
std::string SoftmaxSource(DType dtype, bool log);
formwork_element::ReduceBlock SoftmaxBlock(int64_t n);

/// The text of a kernel `layer_norm(LayerNormRows, ReduceBlock)`, of blocks as SoftmaxBlock's.
std::string LayerNormSource(DType dtype);

}  // namespace formwork
