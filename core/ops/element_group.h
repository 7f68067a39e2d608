#pragma once

// A group of elementwise nodes that a plan for a device runs as one step: what each of them does,
// what others need of it, and which variables become what it makes. Plans make groups
// (core/plan/element_groups.h); no graph names one.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/ops/op_def.h"
#include "core/tensor/shape.h"

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

  std::vector<DType> inputs;
  std::vector<Instruction> instructions;
  std::vector<uint16_t> outputs;  ///< Values of instructions.
  /// Store i is to the i-th of the handles that the step is given behind its inputs. They are of
  /// different variables.
  std::vector<Store> stores;

  DType dtype(uint16_t value) const {
    return value < inputs.size() ? inputs[value] : instructions[value - inputs.size()].dtype;
  }
  absl::InlinedVector<DType, 3> operand_dtypes(const Instruction& instruction) const;

  /// The outputs' shapes. Errors: kInvalidArgument in TensorFlow's words, with the name of the node
  /// whose operands do not go together.
  absl::Status OutputShapes(absl::Span<const Shape* const> of_inputs,
                            absl::Span<Shape> of_outputs) const;
};

/// What a node that is a group has for its op, which is in no registry.
const OpDef& ElementGroupOp(bool stores);

}  // namespace formwork
