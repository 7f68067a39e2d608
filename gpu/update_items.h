#pragma once

// Optimizers on a GPU: by which rule (core/kernels/training/training_rules.h). Needs no CUDA
// itself.

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"

namespace formwork {

struct OptimizerOp {
  absl::string_view op;
  absl::string_view rule;       ///< "Adam<$0, false>", of the type $0 that computes,
  absl::string_view other;      ///< or this one
  absl::string_view chosen_by;  ///< where this attr is true; empty: there is one rule.
  int variables;
  int scalars;
};

/// The ResourceApply... that a GPU has: those whose scalars are of the variables' dtype.
absl::Span<const OptimizerOp> OptimizerOps();

/// The item of `op` for variables of a floating dtype. Errors: kUnimplemented for other dtypes.
absl::StatusOr<std::string> OptimizerItemName(const OptimizerOp& op, DType dtype,
                                              const AttrMap& attrs);
/// The item of AssignAdd or, where `subtracts`, AssignSub. Errors: as above; integers are taken.
absl::StatusOr<std::string> UpdateItemName(DType dtype, bool subtracts);

/// The text of a kernel of such an item, as ItemSource's (item_source.h).
std::string UpdateSource(absl::string_view item);

}  // namespace formwork
