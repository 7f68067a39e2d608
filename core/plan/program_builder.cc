#include "core/plan/program_builder.h"

#include <utility>

#include "core/kernels/enqueued_step.h"
#include "core/plan/memory.h"

namespace formwork {

uint32_t ProgramBuilder::NewSlots(size_t count, Plan::Memory memory) {
  const uint32_t first = plan_->num_slots;
  plan_->num_slots += static_cast<uint32_t>(count);
  if (on_device()) plan_->memory.resize(plan_->num_slots, memory);
  return first;
}

Plan::Ref ProgramBuilder::NewConstant(const Tensor& value, Plan::Memory memory) {
  plan_->constants.push_back(value);
  if (on_device()) constant_memory_.push_back(memory);
  return {.constant = true, .index = static_cast<uint32_t>(plan_->constants.size()) - 1};
}

uint32_t ProgramBuilder::NewKernel(KernelFn kernel) {
  plan_->kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(plan_->kernels.size()) - 1;
}

Plan::Instruction& ProgramBuilder::NewInstruction(Plan::Code code, std::string node,
                                                  const OpDef* op) {
  plan_->labels.push_back({std::move(node), op});
  Plan::Instruction& instruction = plan_->code.emplace_back();
  instruction.code = code;
  instruction.inputs.first = static_cast<uint32_t>(plan_->refs.size());
  return instruction;
}

void ProgramBuilder::AddInput(Plan::Ref ref) {
  plan_->refs.push_back(ref);
  ++plan_->code.back().inputs.count;
}

void ProgramBuilder::Move(const std::vector<Plan::Ref>& from, uint32_t to) {
  if (from.empty()) return;
  const auto count = static_cast<uint32_t>(from.size());
  NewInstruction(Plan::Code::kMove, "", nullptr).outputs = {to, count};
  for (const Plan::Ref& ref : from) AddInput(ref);
}

uint32_t ProgramBuilder::NewTargets(size_t count) {
  const size_t first = plan_->targets.size();
  plan_->targets.resize(first + count);
  return static_cast<uint32_t>(first);
}

void ProgramBuilder::LandHere(uint32_t from, size_t k) {
  plan_->targets[plan_->code[from].target + k].instruction = Here();
}

uint32_t ProgramBuilder::Jump() {
  NewInstruction(Plan::Code::kJump, "", nullptr).target = NewTargets(1);
  return Here() - 1;
}

Plan::Ref ProgramBuilder::CopyTo(Plan::Memory memory, Plan::Ref ref) {
  if (!on_device() || MemoryOf(ref) == memory) return ref;
  if (ref.constant) {
    const auto [found, inserted] = device_constants_.try_emplace(ref.index, 0);
    if (inserted) {
      const Tensor value = plan_->constants[ref.index];
      found->second = NewConstant(value, Plan::Memory::kDevice).index;
    }
    return {.constant = true, .index = found->second};
  }
  const uint32_t slot = NewSlots(1, memory);
  const int stream = memory == Plan::Memory::kHost ? 0 : stream_;
  const uint32_t kernel = NewKernel(memory == Plan::Memory::kHost ? MakeToHost() : MakeToDevice());
  Plan::Instruction& copy = NewInstruction(Plan::Code::kKernel, "", nullptr);
  copy.outputs = {slot, 1};
  copy.target = kernel;
  AddInput(ref);
  NoteStep(stream, {ref});
  return {.index = slot};
}

Plan::Ref ProgramBuilder::CopyTo(Plan::Memory memory, Plan::Ref ref, Copies& copies) {
  if (!on_device() || ref.constant || MemoryOf(ref) == memory) return CopyTo(memory, ref);
  auto [found, inserted] = copies.try_emplace(ref.index);
  if (inserted) found->second = CopyTo(memory, ref);
  return found->second;
}

std::vector<uint32_t> ProgramBuilder::SlotsOnDevice(absl::Span<const Plan::Ref> refs) const {
  std::vector<uint32_t> slots;
  for (const Plan::Ref& ref : refs) {
    if (!ref.constant && MemoryOf(ref) == Plan::Memory::kDevice) slots.push_back(ref.index);
  }
  return slots;
}

void ProgramBuilder::AddNoStep() {
  const uint32_t kernel = NewKernel(MakeNoStep());
  NewInstruction(Plan::Code::kKernel, "", nullptr).target = kernel;
}

void ProgramBuilder::PrepareWaits(int stream, absl::Span<const Plan::Ref> refs) {
  if (!clocks_.several() || !clocks_.NeedsPoint(stream, SlotsOnDevice(refs))) return;
  AddNoStep();
  clocks_.AddPoint(Here() - 1);
}

void ProgramBuilder::NoteStep(int stream, absl::Span<const Plan::Ref> reads) {
  if (!clocks_.several()) return;
  clocks_.AddStep(Here() - 1, stream, SlotsOnDevice(reads), plan_->code.back().outputs);
}

void ProgramBuilder::JoinStreams(absl::Span<const Plan::Ref> refs) {
  if (!clocks_.several() || !clocks_.HasToWait(0, SlotsOnDevice(refs))) return;
  AddNoStep();
  NoteStep(0, refs);
}

}  // namespace formwork
