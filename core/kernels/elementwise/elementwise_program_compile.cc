// A program's chains as machine code, once it has been used enough.

#include <algorithm>
#include <utility>

#include "core/base/memory_budget.h"
#include "core/kernels/elementwise/elementwise_program.h"

namespace formwork {
namespace {

std::atomic<int64_t> compile_after = ElementwiseProgram::kCompileAfter;

}  // namespace

void ElementwiseProgram::CompileAfter(int64_t work) { compile_after = work; }

const ElementwiseProgram::Compiled* ElementwiseProgram::CompiledFor(absl::Span<const bool> is_splat,
                                                                    int64_t elements) const {
  if (!has_chains_) return nullptr;
  const Compiled* compiled = compiled_.load(std::memory_order_acquire);
  if (compiled == nullptr) {
    const int64_t limit = compile_after.load(std::memory_order_relaxed);
    if (work_.load(std::memory_order_relaxed) > limit) return nullptr;  // It is not to be had.
    const int64_t work = elements * cost_;
    const int64_t before = work_.fetch_add(work, std::memory_order_relaxed);
    if (before > limit || before + work <= limit) return nullptr;
    // It outlives the call.
    const HeapScope unlimited(nullptr);
    compiled = Compile(is_splat).release();
    compiled_.store(compiled, std::memory_order_release);
    if (compiled == nullptr) return nullptr;
  }
  return absl::MakeConstSpan(compiled->is_splat) == is_splat ? compiled : nullptr;
}

std::unique_ptr<const ElementwiseProgram::Compiled> ElementwiseProgram::Compile(
    absl::Span<const bool> is_splat) const {
  auto compiled = std::make_unique<Compiled>();
  compiled->is_splat.assign(is_splat.begin(), is_splat.end());
  auto op = [&](size_t place) { return instructions_[order_[place]].op; };
  for (size_t i = 0; i < stages_.size();) {
    // Stages of ops that tiles have, as far as they are of one dtype.
    const size_t place = stages_[i].place;
    size_t end = place + stages_[i].num_instructions;
    ++i;
    if (op(place)->tile != TileOp::kNone) {
      for (; i < stages_.size() && op(end)->tile != TileOp::kNone && op(end)->out == op(place)->out;
           ++i) {
        end += stages_[i].num_instructions;
      }
    }
    CompiledStage& stage = compiled->stages.emplace_back();
    stage.place = place;
    if (end == place + 1) continue;
    stage.code = CompileRun(place, end - place, is_splat);
    if (stage.code == nullptr) return nullptr;
  }
  return compiled;
}

std::unique_ptr<const CompiledChains> ElementwiseProgram::CompileRun(
    size_t place, size_t num_instructions, absl::Span<const bool> is_splat) const {
  const size_t end = place + num_instructions;
  // What is made here and read elsewhere, or wanted.
  std::vector<bool> is_stored(num_inputs() + instructions_.size(), false);
  for (size_t at = end; at < order_.size(); ++at) {
    const Instruction& reader = instructions_[order_[at]];
    for (int k = 0; k < reader.op->arity; ++k) is_stored[reader.operands[k]] = true;
  }
  std::vector<CompiledChains::Instruction> run;
  for (size_t at = place; at < end; ++at) {
    const Instruction& instruction = instructions_[order_[at]];
    const uint16_t value = ValueOf(order_[at]);
    CompiledChains::Instruction& made = run.emplace_back();
    made.op = instruction.op->tile;
    made.is_unary = instruction.op->arity == 1;
    made.is_stored = is_stored[value] || output_of_[value] >= 0;
    std::copy_n(instruction.operands, 2, made.operands);
    made.value = value;
  }
  return CompiledChains::Make(dtype(run[0].value), run, is_splat);
}

}  // namespace formwork
