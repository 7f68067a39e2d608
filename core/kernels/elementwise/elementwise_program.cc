#include "core/kernels/elementwise/elementwise_program.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// Elements for which one task is worth its start, for a program of one instruction.
constexpr int64_t kParallelElements = 1 << 16;
// A task sets up its own registers, which costs as much as some instructions over a block.
constexpr int64_t kFewestBlocks = 3;
// What a loop over a block costs, of a cheap instruction and of a function of floats (Exp, Tanh,
// Sigmoid), and the steps of a chain: to and from memory, and within registers.
constexpr int64_t kLoopCost = 8;
constexpr int64_t kFunctionCost = 64;
constexpr int64_t kMoveCost = 4;
constexpr int64_t kStepCost = 1;
constexpr int64_t kSmallElements = 16;

}  // namespace

ElementwiseProgram::ElementwiseProgram(std::vector<DType> input_dtypes,
                                       std::vector<Instruction> instructions,
                                       std::vector<uint16_t> outputs)
    : input_dtypes_(std::move(input_dtypes)),
      instructions_(std::move(instructions)),
      outputs_(std::move(outputs)) {
  const size_t num_inputs = input_dtypes_.size();
  output_of_.assign(num_inputs + instructions_.size(), -1);
  for (size_t i = 0; i < outputs_.size(); ++i) output_of_[outputs_[i]] = static_cast<int32_t>(i);
  Schedule();
  AssignRegisters();
  for (const Stage& stage : stages_) cost_ += CostOf(stage);
}

int64_t ElementwiseProgram::CostOf(const Stage& stage) const {
  if (stage.chain == nullptr) {
    const BlockOp& op = *instructions_[order_[stage.place]].op;
    const bool function =
        op.arity == 1 && op.tile == TileOp::kNone && op.in == op.out && IsFloating(op.in);
    return function ? kFunctionCost : kLoopCost;
  }
  int64_t cost = 0;
  for (size_t i = stage.first_step; i < stage.first_step + stage.num_steps; ++i) {
    const TileForm form = steps_[i].form;
    cost += form == TileForm::kLoad || form == TileForm::kStore ? kMoveCost : kStepCost;
  }
  return cost;
}

// Runs of instructions that a tile can go through become chains: from the first instruction that
// has not run, on to one that reads its result while everything else that it reads is there.
void ElementwiseProgram::Schedule() {
  const size_t num_inputs = input_dtypes_.size();
  std::vector<uint16_t> uses(num_inputs + instructions_.size(), 0);
  std::vector<std::vector<uint16_t>> readers(instructions_.size());
  for (size_t i = 0; i < instructions_.size(); ++i) {
    for (int k = 0; k < instructions_[i].op->arity; ++k) {
      const uint16_t operand = instructions_[i].operands[k];
      ++uses[operand];
      if (operand >= num_inputs) readers[operand - num_inputs].push_back(static_cast<uint16_t>(i));
    }
  }
  std::vector<bool> has_run(instructions_.size(), false);
  auto can_follow = [&](uint16_t reader, const BlockOp* op) {
    const Instruction& next = instructions_[reader];
    if (has_run[reader] || next.op->tile == TileOp::kNone || next.op->out != op->out) return false;
    for (int k = 0; k < next.op->arity; ++k) {
      if (next.operands[k] >= num_inputs && !has_run[next.operands[k] - num_inputs]) return false;
    }
    return true;
  };
  std::vector<uint16_t> chain;
  for (size_t first = 0; first < instructions_.size(); ++first) {
    if (has_run[first]) continue;
    const BlockOp* const op = instructions_[first].op;
    chain.assign(1, static_cast<uint16_t>(first));
    has_run[first] = true;
    for (bool grows = op->tile != TileOp::kNone; grows;) {
      grows = false;
      for (uint16_t reader : readers[chain.back()]) {
        if (!can_follow(reader, op)) continue;
        chain.push_back(reader);
        has_run[reader] = true;
        grows = true;
        break;
      }
    }
    if (chain.size() == 1) {
      stages_.push_back({order_.size()});
    } else {
      AddChain(chain, uses);
    }
    order_.insert(order_.end(), chain.begin(), chain.end());
  }
}

void ElementwiseProgram::AddChain(absl::Span<const uint16_t> chain,
                                  absl::Span<const uint16_t> uses) {
  has_chains_ = true;
  const size_t begin = steps_.size();
  uint16_t held = instructions_[chain[0]].operands[0];  // The value that is in registers.
  steps_.push_back({TileForm::kLoad, TileOp::kNone, held});
  for (uint16_t i : chain) {
    const Instruction& instruction = instructions_[i];
    if (instruction.op->arity == 1) {
      steps_.push_back({TileForm::kUnary, instruction.op->tile, 0});
    } else if (instruction.operands[0] == held) {
      steps_.push_back({TileForm::kBlock, instruction.op->tile, instruction.operands[1]});
    } else {
      steps_.push_back({TileForm::kBlockFirst, instruction.op->tile, instruction.operands[0]});
    }
    held = ValueOf(i);
    // The next instruction of the chain has it from the registers, all others from memory.
    if (i == chain.back() || uses[held] > 1 || output_of_[held] >= 0) {
      steps_.push_back({TileForm::kStore, TileOp::kNone, held});
    }
  }
  steps_.push_back({});
  stages_.push_back({order_.size(), chain.size(), FindTileLoop(instructions_[chain[0]].op->out),
                     begin, steps_.size() - begin});
}

void ElementwiseProgram::AssignRegisters() {
  const size_t num_inputs = input_dtypes_.size();
  const size_t num_values = num_inputs + instructions_.size();
  std::vector<size_t> last_use(num_values, 0);
  for (size_t place = 0; place < order_.size(); ++place) {
    const Instruction& instruction = instructions_[order_[place]];
    for (int k = 0; k < instruction.op->arity; ++k) last_use[instruction.operands[k]] = place;
  }
  place_of_.assign(last_use.begin(), last_use.begin() + static_cast<ptrdiff_t>(num_inputs));
  place_of_.resize(num_values);
  for (size_t place = 0; place < order_.size(); ++place) place_of_[ValueOf(order_[place])] = place;
  // Scratch blocks: the inputs' come first (for what has to be broadcast), then those of results.
  register_of_.resize(num_values);
  for (size_t i = 0; i < num_inputs; ++i) register_of_[i] = num_registers_++;
  std::vector<uint16_t> free;
  for (size_t place = 0; place < order_.size(); ++place) {
    const Instruction& instruction = instructions_[order_[place]];
    const uint16_t value = ValueOf(order_[place]);
    max_width_ = std::max(max_width_, DTypeSize(instruction.op->out));
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
    for (int k = 0; k < instruction.op->arity; ++k) {
      const uint16_t operand = instruction.operands[k];
      bool again = false;
      for (int j = 0; j < k; ++j) again = again || instruction.operands[j] == operand;
      if (!again && operand >= num_inputs && output_of_[operand] < 0 &&
          last_use[operand] == place) {
        free.push_back(register_of_[operand]);
      }
    }
  }
  for (DType dtype : input_dtypes_) max_width_ = std::max(max_width_, DTypeSize(dtype));
}

absl::StatusOr<std::optional<Shape>> ElementwiseProgram::CommonShape(
    const KernelContext& ctx) const {
  // One-element values are told apart by their shapes only where something larger is there.
  const size_t num_inputs = input_dtypes_.size();
  const Shape& first = ctx.input(0).shape();
  bool equal = true;
  for (size_t i = 1; i < num_inputs; ++i) equal = equal && ctx.input(i).shape() == first;
  if (equal) return first;
  Shape shape = first;
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
    if (result != shape) return std::nullopt;
    shapes.push_back(std::move(result));
  }
  return shape;
}

absl::StatusOr<bool> ElementwiseProgram::Run(KernelContext& ctx) const {
  std::optional<Shape> shape;
  FORMWORK_ASSIGN_OR_RETURN(shape, CommonShape(ctx));
  if (!shape.has_value()) return false;
  FORMWORK_RETURN_IF_ERROR(RunOver(ctx, *shape));
  return true;
}

absl::Status ElementwiseProgram::RunOver(KernelContext& ctx, const Shape& shape) const {
  if (shape.num_elements() > kSmallElements) return RunBlocks(ctx, shape);
  if (shape.num_elements() > 0) return RunSmall(ctx, shape);
  for (size_t k = 0; k < outputs_.size(); ++k) {
    FORMWORK_RETURN_IF_ERROR(
        ctx.AllocateOutput(static_cast<int>(k), dtype(outputs_[k]), shape).status());
  }
  return absl::OkStatus();
}

int64_t ElementwiseProgram::grain() const {
  return std::max(kFewestBlocks * kBlockElements,
                  kParallelElements * kLoopCost / std::max<int64_t>(1, cost_));
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
  for (const uint16_t i : order_) {
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
  const Call call(*this, ctx, shape);
  absl::InlinedVector<char*, 8> outputs;
  for (size_t k = 0; k < outputs_.size(); ++k) {
    FORMWORK_ASSIGN_OR_RETURN(char* const output, call.MakeOutput(ctx, k));
    outputs.push_back(output);
  }
  const int64_t n = shape.num_elements();
  // An input may be overwritten from here on: scratch memory must not be refused half-way.
  const HeapScope unlimited(nullptr);
  ParallelFor((n + kBlockElements - 1) / kBlockElements, grain() / kBlockElements,
              [&](int64_t first, int64_t last_block) {
                const int64_t begin = first * kBlockElements;
                absl::InlinedVector<char*, 8> from(outputs);
                for (size_t k = 0; k < from.size(); ++k) {
                  from[k] += static_cast<size_t>(begin) * DTypeSize(dtype(outputs_[k]));
                }
                Worker(call).Run(from, begin, std::min(n, last_block * kBlockElements));
              });
  return absl::OkStatus();
}

}  // namespace formwork
