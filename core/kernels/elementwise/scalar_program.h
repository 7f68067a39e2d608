#pragma once

// A program over scalars in registers: what loops, branches and runs of steps become that compute
// nothing else. It does with a register what the kernels do with a tensor, by the same loops.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Immutable once built; shared by many calls.
class ScalarProgram {
 public:
  /// Holds one scalar of plain data.
  struct Register {
    alignas(8) unsigned char bytes[8];
  };
  static constexpr size_t kMostRegisters = 1024;

  enum class Code : uint8_t {
    kOp,         ///< result = op(operands).
    kCheckedOp,  ///< The same where the op does not refuse its second operand.
    kMove,       ///< result = the first operand.
    kJump,       ///< Goes on at `target`.
    kBranch,     ///< Goes on at `target` where the first operand, a bool, is false.
    kLoop,       ///< Goes on at `target`, the next iteration, where it is true.
    kFirstTyped  ///< From here on: kOp for one op and dtype (OpCode), without a call of its loop.
  };

  struct Instruction {
    const BlockOp* op = nullptr;
    uint16_t operands[3] = {0, 0, 0};
    uint16_t result = 0;
    uint32_t target = 0;  ///< An instruction, or the end.
    Code code = Code::kOp;
  };

  /// kOp, or what does the same in less time: loops are mostly sums, products and comparisons.
  static Code OpCode(absl::string_view name, const BlockOp& op);

  /// What an instruction is of, for errors and to be read.
  struct Label {
    std::string node;
    const OpDef* op = nullptr;  ///< Null where it only moves or jumps.
  };

  /// A register that a tensor is read into, or that becomes one.
  struct Port {
    uint16_t at = 0;
    DType dtype = DType::kInvalid;
    uint8_t width = 0;  ///< Of the dtype.
  };

  std::vector<Instruction> code;
  std::vector<Label> labels;  ///< Of the instructions.
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  uint16_t num_registers = 0;

  size_t bytes() const;  ///< About what it holds.

  /// Errors: kInvalidArgument where an input is no scalar of its dtype: a graph may say of a shape
  /// what does not hold.
  absl::Status Read(absl::Span<const InputRef> from, Register* registers) const;
  /// Goes on at instruction `at`, 0 at first, and says in it how far it has come: to the end, or to
  /// one more iteration of a loop after some hundred. Takes no memory but for errors.
  /// Errors: those of the ops, with "node 'name'" before them.
  absl::Status Run(Register* registers, uint32_t& at) const;
  void Write(const Register* registers, absl::Span<Tensor> to) const;
};

}  // namespace formwork
