#pragma once

// A group of elementwise nodes that a plan for a device runs as one step: what each of them does,
// what others need of it, which variables become what it makes, and how it is reduced. Plans make
// groups (core/plan/element_groups.h); no graph names one.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/ops/op_def.h"
#include "core/ops/reduction.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Values are numbered: the inputs first, then one per instruction. At most 2^16.
struct ElementGroup {
  struct Instruction {
    std::string node;  ///< Whose it is, for errors.
    std::string op;
    DType dtype = DType::kInvalid;                   ///< Of its result.
    absl::InlinedVector<uint16_t, 3> operands = {};  ///< Values before it; of one dtype but for
                                                     ///< SelectV2, whose first is bool.
  };
  struct Store {
    std::string node;
    uint16_t output = 0;  ///< A place in `outputs`.
  };
  /// Of a group that has one output and no stores: what the step makes is that, reduced, of the
  /// same dtype. The output itself nobody else needs.
  struct Reduction {
    std::string node;
    std::string op;  ///< Sum, Prod, Mean, Max, Min, All or Any.
    ReductionAttrs attrs;
    Tensor axes;  ///< The reduction_indices, in host memory.
  };

  std::vector<DType> inputs;
  std::vector<Instruction> instructions;
  std::vector<uint16_t> outputs;  ///< Values of instructions.
  /// Store i is to the i-th of the handles that the step is given behind its inputs. They are of
  /// different variables.
  std::vector<Store> stores;
  std::optional<Reduction> reduction;

  DType dtype(uint16_t value) const {
    return value < inputs.size() ? inputs[value] : instructions[value - inputs.size()].dtype;
  }
  absl::InlinedVector<DType, 3> operand_dtypes(const Instruction& instruction) const;

  /// The shapes of what the step makes. Errors: kInvalidArgument in TensorFlow's words, with the
  /// name of the node whose operands do not go together.
  absl::Status OutputShapes(absl::Span<const Shape* const> of_inputs,
                            absl::Span<Shape> of_outputs) const;
  /// The same of the outputs before they are reduced.
  absl::Status ElementShapes(absl::Span<const Shape* const> of_inputs,
                             absl::Span<Shape> of_outputs) const;
};

/// What a node that is this group has for its op, which is in no registry: "fused", "fused_store"
/// or "fused_reduce".
const OpDef& ElementGroupOp(const ElementGroup& group);

}  // namespace formwork
