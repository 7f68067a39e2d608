// A program over the inputs of one call, and the thread's part of it.

#include <algorithm>
#include <cstring>

#include "core/base/status.h"
#include "core/kernels/elementwise/elementwise_program.h"

namespace formwork {
namespace {

constexpr size_t kLine = 64;

}  // namespace

ElementwiseProgram::Call::Call(const ElementwiseProgram& program, const KernelContext& ctx,
                               const Shape& shape)
    : program_(program), shape_(shape) {
  operands_.reserve(program.num_inputs());
  for (size_t i = 0; i < program.num_inputs(); ++i) {
    const Tensor& input = ctx.input(static_cast<int>(i));
    operands_.emplace_back(input.raw(), DTypeSize(program.input_dtypes_[i]), input.shape(), shape);
  }
  Bind();
}

// An output may be written where a whole input is that no later instruction reads: block by block,
// and in a chain tile by tile, every read comes before what is written there.
absl::StatusOr<char*> ElementwiseProgram::Call::MakeOutput(KernelContext& ctx, size_t k) const {
  const DType out = program_.dtype(program_.outputs_[k]);
  const size_t made_at = program_.place_of_[program_.outputs_[k]];
  absl::InlinedVector<int, 8> candidates;
  for (size_t i = 0; i < program_.num_inputs(); ++i) {
    if (program_.place_of_[i] <= made_at &&
        DTypeSize(program_.input_dtypes_[i]) == DTypeSize(out) && ctx.input(i).shape() == shape_) {
      candidates.push_back(static_cast<int>(i));
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * tensor,
                            ctx.ForwardOrAllocate(candidates, static_cast<int>(k), out, shape_));
  return tensor->mutable_data<char>();
}

void ElementwiseProgram::Call::Bind() {
  const size_t num_inputs = program_.num_inputs();
  for (const Operand& operand : operands_) is_splat_.push_back(operand.is_splat());
  compiled_ = program_.CompiledFor(is_splat_, shape_.num_elements());
  loops_.resize(program_.instructions_.size());
  scalar_operand_.resize(program_.instructions_.size(), -1);
  needs_block_.resize(num_inputs, false);
  if (compiled_ != nullptr) {
    for (const CompiledStage& stage : compiled_->stages) {
      if (stage.code == nullptr) BindLoop(program_.order_[stage.place]);
    }
    const bool in_blocks = std::any_of(
        operands_.begin(), operands_.end(),
        [](const Operand& operand) { return !operand.is_splat() && !operand.is_dense(); });
    if (compiled_->stages.size() == 1 && !in_blocks) whole_ = compiled_->stages[0].code.get();
  } else {
    for (const Stage& stage : program_.stages_) {
      if (stage.chain == nullptr) BindLoop(program_.order_[stage.place]);
    }
  }
  if (!program_.has_chains_) return;
  scalars_.resize(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    if (!is_splat_[i]) continue;
    const size_t width = DTypeSize(program_.input_dtypes_[i]);
    Splat(operands_[i].element(), width, static_cast<int64_t>(kTileScalarBytes / width),
          scalars_[i].bytes);
  }
  if (compiled_ != nullptr) return;
  for (const ChainStep& step : program_.steps_) {
    const bool reads = step.form == TileForm::kLoad || step.form == TileForm::kBlock ||
                       step.form == TileForm::kBlockFirst;
    const bool scalar = reads && IsSplat(step.value);
    steps_.push_back({TileCode(scalar ? ScalarForm(step.form) : step.form, step.op),
                      scalar ? const_cast<char*>(scalars_[step.value].bytes) : nullptr});
  }
}

// The loop that an instruction runs by, and the inputs that it wants as blocks.
void ElementwiseProgram::Call::BindLoop(size_t i) {
  const Instruction& instruction = program_.instructions_[i];
  loops_[i] = instruction.op->fn;
  if (instruction.op->right_scalar != nullptr && IsSplat(instruction.operands[1])) {
    loops_[i] = instruction.op->right_scalar;
    scalar_operand_[i] = 1;
  } else if (instruction.op->left_scalar != nullptr && IsSplat(instruction.operands[0])) {
    loops_[i] = instruction.op->left_scalar;
    scalar_operand_[i] = 0;
  }
  for (int k = 0; k < instruction.op->arity; ++k) {
    if (k != scalar_operand_[i] && instruction.operands[k] < program_.num_inputs()) {
      needs_block_[instruction.operands[k]] = true;
    }
  }
}

ElementwiseProgram::Worker::Worker(const Call& call)
    : call_(call),
      program_(call.program_),
      block_bytes_(static_cast<size_t>(kBlockElements) * program_.max_width_),
      steps_(call.steps_),
      values_(program_.num_inputs() + program_.instructions_.size()) {
  if (call_.whole_ == nullptr) {
    // Tiles run over whole ones. Where a block is not full, what lies outside goes by way of
    // scratch blocks, which have room for one.
    const size_t num_blocks =
        program_.num_registers_ + (program_.has_chains_ ? program_.outputs_.size() : 0);
    // On cache lines: vectors that straddle them cost half as much again.
    memory_ = std::make_unique_for_overwrite<char[]>(num_blocks * block_bytes_ + kLine);
    scratch_ = memory_.get() + (kLine - reinterpret_cast<uintptr_t>(memory_.get()) % kLine);
    for (size_t value = 0; value < values_.size(); ++value) {
      if (program_.output_of_[value] < 0) values_[value] = BlockOf(program_.register_of_[value]);
    }
  }
  for (size_t i = 0; i < program_.num_inputs(); ++i) {
    if (!call_.is_splat_[i]) continue;
    if (call_.needs_block_[i]) {
      call_.operands_[i].Run(0, std::min(call_.shape_.num_elements(), kBlockElements),
                             BlockOf(program_.register_of_[i]));
    }
    // For code, which reads it so.
    if (call_.compiled_ != nullptr) values_[i] = const_cast<char*>(call_.scalars_[i].bytes);
  }
}

void ElementwiseProgram::Worker::Run(absl::Span<char* const> outputs, int64_t begin, int64_t end) {
  const std::vector<uint16_t>& wanted = program_.outputs_;
  const int64_t step = call_.whole_ != nullptr ? end - begin : kBlockElements;
  for (int64_t at = begin; at < end; at += step) {
    const int64_t count = std::min(step, end - at);
    const bool partial =
        program_.has_chains_ && call_.compiled_ == nullptr && count < kBlockElements;
    for (size_t i = 0; i < program_.num_inputs(); ++i) {
      if (call_.is_splat_[i]) continue;
      void* const block =
          call_.operands_[i].is_dense() ? nullptr : BlockOf(program_.register_of_[i]);
      const void* const run = call_.operands_[i].Run(at, count, block);
      values_[i] = const_cast<void*>(run);
      if (!partial) continue;
      values_[i] = BlockOf(program_.register_of_[i]);
      if (run != values_[i]) {
        std::memcpy(values_[i], run,
                    static_cast<size_t>(count) * DTypeSize(program_.input_dtypes_[i]));
      }
    }
    auto place = [&](size_t k) {
      return outputs[k] + static_cast<size_t>(at - begin) * DTypeSize(program_.dtype(wanted[k]));
    };
    for (size_t k = 0; k < outputs.size(); ++k) {
      values_[wanted[k]] = partial ? BlockOf(program_.num_registers_ + k) : place(k);
    }
    RunBlock(count);
    if (!partial) continue;
    for (size_t k = 0; k < outputs.size(); ++k) {
      std::memcpy(place(k), values_[wanted[k]],
                  static_cast<size_t>(count) * DTypeSize(program_.dtype(wanted[k])));
    }
  }
}

void ElementwiseProgram::Worker::RunBlock(int64_t count) {
  if (call_.compiled_ != nullptr) {
    for (const CompiledStage& stage : call_.compiled_->stages) {
      if (stage.code != nullptr) {
        stage.code->Run(values_.data(), count);
      } else {
        RunLoop(program_.order_[stage.place], count);
      }
    }
    return;
  }
  for (const Stage& stage : program_.stages_) {
    if (stage.chain == nullptr) {
      RunLoop(program_.order_[stage.place], count);
      continue;
    }
    for (size_t k = stage.first_step; k < stage.first_step + stage.num_steps; ++k) {
      if (TileReadsScalar(steps_[k].code)) continue;
      steps_[k].data = values_[program_.steps_[k].value];
    }
    stage.chain(&steps_[stage.first_step], count);
  }
}

void ElementwiseProgram::Worker::RunLoop(size_t i, int64_t count) {
  const Instruction& instruction = program_.instructions_[i];
  const void* in[3] = {nullptr, nullptr, nullptr};
  for (int k = 0; k < instruction.op->arity; ++k) {
    const uint16_t operand = instruction.operands[k];
    if (!call_.IsSplat(operand)) {
      in[k] = values_[operand];
    } else if (k == call_.scalar_operand_[i]) {
      in[k] = call_.operands_[operand].element();
    } else {
      in[k] = BlockOf(program_.register_of_[operand]);
    }
  }
  call_.loops_[i](in, values_[program_.ValueOf(i)], count);
}

}  // namespace formwork
