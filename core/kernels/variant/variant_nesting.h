#pragma once

// Variants that hold variants: lists of lists, optionals of lists.

#include "absl/status/status.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Beyond this a variant in a variant is refused: its destruction would take all stack.
inline constexpr int kMaxVariantNesting = 1000;

/// Counts the variants in `item`, which `holder` is to hold, into holder.nesting.
/// Errors: kInvalidArgument at kMaxVariantNesting.
absl::Status CountNesting(VariantObject& holder, const Tensor& item);

}  // namespace formwork
