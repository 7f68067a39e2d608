#pragma once

// A program of elementwise instructions over blocks of elements: what a group of fused nodes runs.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/elementwise/elementwise_tile.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Immutable once built; shared by many calls.
class ElementwiseProgram {
 public:
  /// Values are numbered: inputs first, then one per instruction.
  struct Instruction {
    const BlockOp* op = nullptr;
    uint16_t operands[3] = {0, 0, 0};
  };

  /// `outputs`: values that are wanted. `input_dtypes`: of the inputs, plain data. Errors: none
  /// that a graph can cause; at most 2^16 values.
  ElementwiseProgram(std::vector<DType> input_dtypes, std::vector<Instruction> instructions,
                     std::vector<uint16_t> outputs);

  /// Runs over ctx's inputs into ctx's outputs. False (and nothing done) where the shapes do not
  /// allow it: an instruction's result has neither the common shape nor one element.
  /// Errors: kInvalidArgument where shapes cannot broadcast.
  absl::StatusOr<bool> Run(KernelContext& ctx) const;

 private:
  // A step of a chain before it is known which inputs are one element; `value` is what it reads or,
  // for kStore, writes.
  struct ChainStep {
    TileForm form = TileForm::kEnd;
    TileOp op = TileOp::kNone;
    uint16_t value = 0;
  };
  // What runs over a block: one instruction by its own loop or, where `chain` is not null, the
  // chain of steps_ from `first` on.
  struct Stage {
    size_t first = 0;
    size_t num_steps = 0;
    TileFn chain = nullptr;
  };
  struct Binding;

  DType dtype(uint16_t value) const {
    return value < input_dtypes_.size() ? input_dtypes_[value]
                                        : instructions_[value - input_dtypes_.size()].op->out;
  }
  uint16_t ValueOf(size_t instruction) const {
    return static_cast<uint16_t>(input_dtypes_.size() + instruction);
  }
  void Schedule();
  void AddChain(absl::Span<const uint16_t> chain, absl::Span<const uint16_t> uses);
  void AssignRegisters();

  absl::Status RunSmall(KernelContext& ctx, const Shape& shape) const;
  absl::Status RunBlocks(KernelContext& ctx, const Shape& shape) const;
  Binding Bind(absl::Span<const Operand> operands) const;
  void RunRange(const Binding& binding, absl::Span<const Operand> operands,
                absl::Span<char* const> outputs, int64_t begin, int64_t end) const;

  const std::vector<DType> input_dtypes_;
  const std::vector<Instruction> instructions_;
  const std::vector<uint16_t> outputs_;
  std::vector<uint16_t> order_;  // The instructions as they run.
  std::vector<Stage> stages_;
  std::vector<ChainStep> steps_;
  bool has_chains_ = false;
  std::vector<int32_t> output_of_;     // By value: which output, or -1.
  std::vector<uint16_t> register_of_;  // By value: scratch block (instructions that are no output).
  uint16_t num_registers_ = 0;
  size_t max_width_ = 1;
  int64_t cost_ = 0;  // Of an element, in cheap instructions.
};

}  // namespace formwork
