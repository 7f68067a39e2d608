#pragma once

// A program of elementwise instructions over blocks of elements: what a group of fused nodes runs.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/elementwise/compiled_chains.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/elementwise/elementwise_tile.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Shared by many calls. Immutable once built, but that it is compiled when it has been used
/// enough.
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
  ~ElementwiseProgram() { delete compiled_.load(std::memory_order_acquire); }

  /// Runs over ctx's first inputs into its first outputs. False (and nothing done) where the shapes
  /// do not allow it: an instruction's result does not have the common shape.
  /// Errors: kInvalidArgument where shapes cannot broadcast.
  absl::StatusOr<bool> Run(KernelContext& ctx) const;

  // --- Piece by piece, for who goes on with the results while they are in the cache
  // ---------------

  /// The shape of each result, for ctx's inputs; nullopt where Run would give false. Errors: as
  /// Run.
  absl::StatusOr<std::optional<Shape>> CommonShape(const KernelContext& ctx) const;
  /// Run, where it is known by now that all results have this shape.
  absl::Status RunOver(KernelContext& ctx, const Shape& shape) const;

  class Call;
  class Worker;

  /// A program is compiled (compiled_chains.h) in the call with which what all calls have taken
  /// reaches this much work, in steps of a chain by elements: some twenty times what compiling
  /// takes.
  static constexpr int64_t kCompileAfter = int64_t{1} << 26;
  /// Another limit for all programs, for tests.
  static void CompileAfter(int64_t work);
  bool is_compiled() const { return compiled_.load(std::memory_order_acquire) != nullptr; }

  size_t num_inputs() const { return input_dtypes_.size(); }
  DType dtype(uint16_t value) const {
    return value < input_dtypes_.size() ? input_dtypes_[value]
                                        : instructions_[value - input_dtypes_.size()].op->out;
  }
  /// Elements that are worth a task of their own.
  int64_t grain() const;

 private:
  // A step of a chain before it is known which inputs are one element; `value` is what it reads or,
  // for kStore, writes.
  struct ChainStep {
    TileForm form = TileForm::kEnd;
    TileOp op = TileOp::kNone;
    uint16_t value = 0;
  };
  // What runs over a block: the instructions in order_ from `place` on; one by its own loop or,
  // where `chain` is not null, some as the chain of steps_ from `first_step` on.
  struct Stage {
    size_t place = 0;
    size_t num_instructions = 1;
    TileFn chain = nullptr;
    size_t first_step = 0;
    size_t num_steps = 0;
  };
  // The stages once more, where those that follow each other and can be compiled as one are: code,
  // or the instruction order_[place] by its own loop.
  struct CompiledStage {
    size_t place = 0;
    std::unique_ptr<const CompiledChains> code;
  };
  struct Compiled {
    absl::InlinedVector<bool, 16> is_splat;  // By input: the calls that it is for.
    std::vector<CompiledStage> stages;
  };
  uint16_t ValueOf(size_t instruction) const {
    return static_cast<uint16_t>(input_dtypes_.size() + instruction);
  }
  void Schedule();
  void AddChain(absl::Span<const uint16_t> chain, absl::Span<const uint16_t> uses);
  void AssignRegisters();
  int64_t CostOf(const Stage& stage) const;
  const Compiled* CompiledFor(absl::Span<const bool> is_splat, int64_t elements) const;
  std::unique_ptr<const Compiled> Compile(absl::Span<const bool> is_splat) const;
  std::unique_ptr<const CompiledChains> CompileRun(size_t place, size_t num_instructions,
                                                   absl::Span<const bool> is_splat) const;

  absl::Status RunSmall(KernelContext& ctx, const Shape& shape) const;
  absl::Status RunBlocks(KernelContext& ctx, const Shape& shape) const;

  const std::vector<DType> input_dtypes_;
  const std::vector<Instruction> instructions_;
  const std::vector<uint16_t> outputs_;
  std::vector<uint16_t> order_;  // The instructions as they run.
  std::vector<Stage> stages_;
  std::vector<ChainStep> steps_;
  bool has_chains_ = false;
  std::vector<size_t> place_of_;    // By value, in order_: an input's last reader, or who makes it.
  std::vector<int32_t> output_of_;  // By value: which output, or -1.
  std::vector<uint16_t> register_of_;  // By value: scratch block (instructions that are no output).
  uint16_t num_registers_ = 0;
  size_t max_width_ = 1;
  int64_t cost_ = 0;  // Of an element.
  // What calls have taken; who brings it to the limit compiles.
  mutable std::atomic<int64_t> work_ = 0;
  mutable std::atomic<const Compiled*> compiled_ = nullptr;
};

/// A program over the inputs of one call: those of one element need no block. Shared by the threads
/// that run it, each with a Worker. The program, and the inputs' elements, must outlive it.
class ElementwiseProgram::Call {
 public:
  /// `shape`: the common one, of more than one element.
  Call(const ElementwiseProgram& program, const KernelContext& ctx, const Shape& shape);

  /// Output k of `ctx` for the program's, once the Call is made: in the memory of an input that may
  /// be overwritten, where nothing reads that later.
  absl::StatusOr<char*> MakeOutput(KernelContext& ctx, size_t k) const;

 private:
  friend class Worker;
  struct alignas(64) Scalar {
    char bytes[kTileScalarBytes];
  };

  void Bind();
  void BindLoop(size_t instruction);
  bool IsSplat(uint16_t value) const { return value < is_splat_.size() && is_splat_[value]; }

  const ElementwiseProgram& program_;
  const Shape& shape_;
  std::vector<Operand> operands_;
  absl::InlinedVector<bool, 16> is_splat_;  // By input.
  const Compiled* compiled_ = nullptr;
  const CompiledChains* whole_ = nullptr;           // Where all of the call is one run of this.
  absl::InlinedVector<BlockFn, 64> loops_;          // By instruction.
  absl::InlinedVector<int8_t, 64> scalar_operand_;  // By instruction: the one that is passed alone.
  absl::InlinedVector<bool, 32> needs_block_;       // By input.
  std::vector<TileStep> steps_;                     // Unless compiled.
  std::vector<Scalar> scalars_;                     // By input, where there are chains.
};

/// A thread's scratch memory for running pieces of a call.
class ElementwiseProgram::Worker {
 public:
  explicit Worker(const Call& call);

  /// Makes elements [begin, end). outputs[k]: where element `begin` of output k goes.
  void Run(absl::Span<char* const> outputs, int64_t begin, int64_t end);

 private:
  char* BlockOf(size_t index) { return scratch_ + index * block_bytes_; }
  void RunBlock(int64_t count);
  void RunLoop(size_t instruction, int64_t count);

  const Call& call_;
  const ElementwiseProgram& program_;
  const size_t block_bytes_;
  std::unique_ptr<char[]> memory_;
  char* scratch_;
  std::vector<TileStep> steps_;
  std::vector<void*> values_;  // Where each lies, for the block that is being made.
};

}  // namespace formwork
