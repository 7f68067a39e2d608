#include "core/kernels/elementwise_program.h"

#include <algorithm>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elementwise_operand.h"

namespace formwork {
namespace {

// Elements for which one task is worth its start, for a program of one instruction.
constexpr int64_t kParallelElements = 1 << 16;
constexpr int64_t kSmallElements = 16;
constexpr size_t kLine = 64;

}  // namespace

ElementwiseProgram::ElementwiseProgram(std::vector<DType> input_dtypes,
                                       std::vector<Instruction> instructions,
                                       std::vector<uint16_t> outputs)
    : input_dtypes_(std::move(input_dtypes)),
      instructions_(std::move(instructions)),
      outputs_(std::move(outputs)) {
  const size_t num_inputs = input_dtypes_.size();
  const size_t num_values = num_inputs + instructions_.size();
  output_of_.assign(num_values, -1);
  for (size_t i = 0; i < outputs_.size(); ++i) output_of_[outputs_[i]] = static_cast<int32_t>(i);
  std::vector<size_t> last_use(num_values, 0);
  for (size_t i = 0; i < instructions_.size(); ++i) {
    for (int k = 0; k < instructions_[i].op->arity; ++k) {
      last_use[instructions_[i].operands[k]] = i;
    }
  }
  // Scratch blocks: the inputs' come first (for what has to be broadcast), then those of results.
  register_of_.resize(num_values);
  for (size_t i = 0; i < num_inputs; ++i) register_of_[i] = num_registers_++;
  std::vector<uint16_t> free;
  for (size_t i = 0; i < instructions_.size(); ++i) {
    const size_t value = num_inputs + i;
    max_width_ = std::max(max_width_, DTypeSize(instructions_[i].op->out));
    // A result may lie where an operand of the same instruction was: loops go element by element,
    // but widths may differ, so the block is freed only after it.
    if (output_of_[value] < 0) {
      if (free.empty()) {
        register_of_[value] = num_registers_++;
      } else {
        register_of_[value] = free.back();
        free.pop_back();
      }
    }
    for (int k = 0; k < instructions_[i].op->arity; ++k) {
      const uint16_t operand = instructions_[i].operands[k];
      bool again = false;
      for (int j = 0; j < k; ++j) again = again || instructions_[i].operands[j] == operand;
      if (!again && operand >= num_inputs && output_of_[operand] < 0 && last_use[operand] == i) {
        free.push_back(register_of_[operand]);
      }
    }
  }
  for (DType dtype : input_dtypes_) max_width_ = std::max(max_width_, DTypeSize(dtype));
}

absl::StatusOr<bool> ElementwiseProgram::Run(KernelContext& ctx) const {
  // The common shape, if every result has it. One-element values are told apart by their shapes
  // only where something larger is there.
  const size_t num_inputs = input_dtypes_.size();
  const Shape* common = &ctx.input(0).shape();
  bool equal = true;
  for (size_t i = 1; i < num_inputs; ++i) equal = equal && ctx.input(i).shape() == *common;
  Shape shape = *common;
  if (!equal) {
    for (size_t i = 1; i < num_inputs; ++i) {
      FORMWORK_ASSIGN_OR_RETURN(shape, BroadcastShape(shape, ctx.input(i).shape()));
    }
    absl::InlinedVector<Shape, 16> shapes;
    for (size_t i = 0; i < num_inputs; ++i) shapes.push_back(ctx.input(i).shape());
    for (const Instruction& instruction : instructions_) {
      Shape result = shapes[instruction.operands[0]];
      for (int k = 1; k < instruction.op->arity; ++k) {
        FORMWORK_ASSIGN_OR_RETURN(result, BroadcastShape(result, shapes[instruction.operands[k]]));
      }
      if (result != shape) return false;
      shapes.push_back(std::move(result));
    }
  }
  if (shape.num_elements() == 0) {
    for (size_t k = 0; k < outputs_.size(); ++k) {
      FORMWORK_RETURN_IF_ERROR(
          ctx.AllocateOutput(static_cast<int>(k), dtype(outputs_[k]), shape).status());
    }
    return true;
  }
  FORMWORK_RETURN_IF_ERROR(shape.num_elements() <= kSmallElements ? RunSmall(ctx, shape)
                                                                  : RunBlocks(ctx, shape));
  return true;
}

absl::Status ElementwiseProgram::RunSmall(KernelContext& ctx, const Shape& shape) const {
  // A block of 16 elements of 16 bytes for each value: no allocation, all on the stack.
  const size_t num_inputs = input_dtypes_.size();
  const int64_t n = shape.num_elements();
  const size_t num_values = num_inputs + instructions_.size();
  constexpr size_t kBlockBytes = kSmallElements * 16;
  alignas(64) char inline_scratch[16 * kBlockBytes];
  std::unique_ptr<char[]> heap_scratch;
  char* scratch = inline_scratch;
  if (num_registers_ > 16) {
    heap_scratch = std::make_unique<char[]>(num_registers_ * kBlockBytes);
    scratch = heap_scratch.get();
  }
  absl::InlinedVector<const void*, 48> values(num_values);
  for (size_t i = 0; i < num_inputs; ++i) {
    const Tensor& input = ctx.input(static_cast<int>(i));
    values[i] = input.num_elements() == n
                    ? input.raw()
                    : Operand(input.raw(), DTypeSize(input_dtypes_[i]), input.shape(), shape)
                          .Run(0, n, scratch + register_of_[i] * kBlockBytes);
  }
  for (size_t i = 0; i < instructions_.size(); ++i) {
    const Instruction& instruction = instructions_[i];
    const void* operands[3] = {nullptr, nullptr, nullptr};
    for (int k = 0; k < instruction.op->arity; ++k) operands[k] = values[instruction.operands[k]];
    void* result = scratch + register_of_[num_inputs + i] * kBlockBytes;
    const int32_t output = output_of_[num_inputs + i];
    if (output >= 0) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor * tensor,
                                ctx.AllocateOutput(output, instruction.op->out, shape));
      result = tensor->mutable_raw();
    }
    instruction.op->fn(operands, result, n);
    values[num_inputs + i] = result;
  }
  return absl::OkStatus();
}

absl::Status ElementwiseProgram::RunBlocks(KernelContext& ctx, const Shape& shape) const {
  const size_t num_inputs = input_dtypes_.size();
  const int64_t n = shape.num_elements();
  std::vector<Operand> operands;
  operands.reserve(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    const Tensor& input = ctx.input(static_cast<int>(i));
    operands.emplace_back(input.raw(), DTypeSize(input_dtypes_[i]), input.shape(), shape);
  }
  std::vector<char*> outputs(outputs_.size());
  // An output may be written where a whole input is: block by block, every read of a block comes
  // before the next block, but not before other instructions of this one. So only the last
  // instruction's output may.
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const DType out = dtype(outputs_[k]);
    const bool last = outputs_[k] + 1u == num_inputs + instructions_.size();
    Tensor* tensor = nullptr;
    if (last && outputs_.size() == 1) {
      absl::InlinedVector<int, 8> candidates;
      for (size_t i = 0; i < num_inputs; ++i) {
        if (DTypeSize(input_dtypes_[i]) == DTypeSize(out) && ctx.input(i).shape() == shape) {
          candidates.push_back(static_cast<int>(i));
        }
      }
      FORMWORK_ASSIGN_OR_RETURN(tensor, ctx.ForwardOrAllocate(candidates, k, out, shape));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(tensor, ctx.AllocateOutput(static_cast<int>(k), out, shape));
    }
    outputs[k] = tensor->mutable_data<char>();
  }
  // The loop for each instruction; constants that have one of their own need no block.
  auto is_splat = [&](uint16_t value) { return value < num_inputs && operands[value].is_splat(); };
  absl::InlinedVector<BlockFn, 64> loops(instructions_.size());
  absl::InlinedVector<int8_t, 64> scalar_operand(instructions_.size(), -1);
  absl::InlinedVector<bool, 32> needs_block(num_inputs, false);
  for (size_t i = 0; i < instructions_.size(); ++i) {
    const Instruction& instruction = instructions_[i];
    loops[i] = instruction.op->fn;
    if (instruction.op->right_scalar != nullptr && is_splat(instruction.operands[1])) {
      loops[i] = instruction.op->right_scalar;
      scalar_operand[i] = 1;
    } else if (instruction.op->left_scalar != nullptr && is_splat(instruction.operands[0])) {
      loops[i] = instruction.op->left_scalar;
      scalar_operand[i] = 0;
    }
    for (int k = 0; k < instruction.op->arity; ++k) {
      if (k != scalar_operand[i] && instruction.operands[k] < num_inputs) {
        needs_block[instruction.operands[k]] = true;
      }
    }
  }
  const size_t block_bytes = kBlockElements * max_width_;
  const int64_t grain = std::max<int64_t>(
      kBlockElements, kParallelElements / std::max<size_t>(1, instructions_.size()));
  ParallelFor(
      (n + kBlockElements - 1) / kBlockElements, grain / kBlockElements,
      [&](int64_t first, int64_t last_block) {
        // On cache lines: vectors that straddle them cost half as much again.
        const auto memory =
            std::make_unique_for_overwrite<char[]>(num_registers_ * block_bytes + kLine);
        char* const scratch =
            memory.get() + (kLine - reinterpret_cast<uintptr_t>(memory.get()) % kLine);
        std::vector<const void*> values(num_inputs + instructions_.size());
        for (size_t i = 0; i < num_inputs; ++i) {
          if (operands[i].is_splat() && needs_block[i]) {
            values[i] = operands[i].Run(0, std::min(n, kBlockElements),
                                        scratch + register_of_[i] * block_bytes);
          }
        }
        for (int64_t block = first; block < last_block; ++block) {
          const int64_t begin = block * kBlockElements;
          const int64_t count = std::min(kBlockElements, n - begin);
          for (size_t i = 0; i < num_inputs; ++i) {
            if (operands[i].is_splat()) continue;
            values[i] = operands[i].Run(begin, count, scratch + register_of_[i] * block_bytes);
          }
          for (size_t i = 0; i < instructions_.size(); ++i) {
            const Instruction& instruction = instructions_[i];
            const void* in[3] = {nullptr, nullptr, nullptr};
            for (int k = 0; k < instruction.op->arity; ++k) in[k] = values[instruction.operands[k]];
            if (const int k = scalar_operand[i]; k >= 0) {
              in[k] = operands[instruction.operands[k]].element();
            }
            const int32_t output = output_of_[num_inputs + i];
            char* result = output < 0 ? scratch + register_of_[num_inputs + i] * block_bytes
                                      : outputs[output] + static_cast<size_t>(begin) *
                                                              DTypeSize(instruction.op->out);
            loops[i](in, result, count);
            values[num_inputs + i] = result;
          }
        }
      });
  return absl::OkStatus();
}

}  // namespace formwork
