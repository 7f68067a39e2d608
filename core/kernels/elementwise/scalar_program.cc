#include "core/kernels/elementwise/scalar_program.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// Some microseconds of most loops, some milliseconds of the longest.
constexpr uint32_t kMostIterations = 256;

// By width, because a copy of a length that is not known is a call.
void Copy(const void* from, size_t width, void* to) {
  switch (width) {
    case 1:
      std::memcpy(to, from, 1);
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    default:
      std::memcpy(to, from, 8);
  }
}

}  // namespace

size_t ScalarProgram::bytes() const {
  size_t bytes = sizeof(ScalarProgram) + code.size() * (sizeof(Instruction) + sizeof(Label)) +
                 (inputs.size() + outputs.size()) * sizeof(Port);
  for (const Label& label : labels) bytes += label.node.size();
  return bytes;
}

absl::Status ScalarProgram::Read(absl::Span<const InputRef> from, Register* registers) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *from[i].tensor;
    if (input.dtype() != inputs[i].dtype || !input.shape().is_scalar()) {
      HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
      return InvalidArgument("a value is not the scalar that the graph says it is: dtype=",
                             DTypeName(input.dtype()), " shape=", input.shape().ToString());
    }
    Copy(input.raw(), inputs[i].width, registers[inputs[i].at].bytes);
  }
  return absl::OkStatus();
}

absl::Status ScalarProgram::Run(Register* registers, uint32_t& position) const {
  const uint32_t end = static_cast<uint32_t>(code.size());
  uint32_t iterations = 0;
  uint32_t at = position;
  while (at < end) {
    const Instruction& instruction = code[at];
    const Register& first = registers[instruction.operands[0]];
    Register& result = registers[instruction.result];
    switch (instruction.code) {
      case Code::kCheckedOp: {
        absl::Status status =
            CheckOperand(*instruction.op, registers[instruction.operands[1]].bytes, 1);
        if (!status.ok()) {
          HeapScope unlimited(nullptr);
          return Annotate(status, absl::StrCat("node '", labels[at].node, "'"));
        }
        [[fallthrough]];
      }
      case Code::kOp: {
        const void* const operands[] = {&first, &registers[instruction.operands[1]],
                                        &registers[instruction.operands[2]]};
        instruction.op->fn(operands, &result, 1);
        ++at;
        break;
      }
      case Code::kMove:
        result = first;
        ++at;
        break;
      case Code::kJump:
        at = instruction.target;
        break;
      case Code::kBranch:
        at = first.bytes[0] != 0 ? at + 1 : instruction.target;
        break;
      case Code::kLoop:
        if (first.bytes[0] == 0) {
          ++at;
          break;
        }
        at = instruction.target;
        if (++iterations == kMostIterations) {
          position = at;
          return absl::OkStatus();
        }
        break;
    }
  }
  position = at;
  return absl::OkStatus();
}

void ScalarProgram::Write(const Register* registers, absl::Span<Tensor> to) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    to[k].ResetInside(outputs[k].dtype, Shape());
    Copy(registers[outputs[k].at].bytes, outputs[k].width, to[k].mutable_raw());
  }
}

}  // namespace formwork
