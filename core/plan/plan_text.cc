#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plan/plan.h"

namespace formwork {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

std::string RefText(const Plan::Ref& ref) {
  if (ref.constant) return absl::StrCat("#", ref.index);
  return absl::StrCat("%", ref.index, ref.owned ? "!" : "");
}

std::string SlotsText(const std::vector<uint32_t>& slots, Plan::Range range) {
  return absl::StrJoin(slots.begin() + range.first, slots.begin() + range.first + range.count, " ",
                       [](std::string* out, uint32_t slot) { absl::StrAppend(out, "%", slot); });
}

class Writer {
 public:
  Writer(const Plan& plan, std::string& text) : plan_(plan), text_(text) {}

  void Write() {
    for (size_t i = 0; i < plan_.constants.size() && HasRoom(); ++i) {
      const Tensor& constant = plan_.constants[i];
      if (!constant.has_value()) continue;
      absl::StrAppend(&text_, "#", i);
      if (constant.on_device()) {
        absl::StrAppend(&text_, "@device = ", DTypeName(constant.dtype()),
                        constant.shape().ToString(), "\n");
      } else {
        absl::StrAppend(&text_, " = ", absl::Utf8SafeCEscape(constant.DebugString()), "\n");
      }
    }
    for (size_t i = 0; i < plan_.code.size() && HasRoom(); ++i) Add(i);
  }

 private:
  absl::string_view MemoryText(uint32_t slot) const {
    if (plan_.memory.empty()) return "";
    return plan_.memory[slot] == Plan::Memory::kHost ? "@host" : "@device";
  }
  absl::string_view KernelText(const Plan::Label& label) const {
    if (label.op != nullptr) return label.op->name;
    if (!label.parts.empty()) return "fused";
    return label.node.empty() ? absl::string_view("copy") : label.node;  // What is kept.
  }
  void AddStream(size_t i) {
    if (plan_.on_streams.empty()) return;
    const Plan::OnStream& on = plan_.on_streams[i];
    if (on.stream != 0) absl::StrAppend(&text_, " stream ", on.stream);
    if (!on.waits.empty()) absl::StrAppend(&text_, " wait ", absl::StrJoin(on.waits, " "));
  }
  bool HasRoom() const { return text_.size() < kMostBytes; }

  void Add(size_t i) {
    const Plan::Instruction& instruction = plan_.code[i];
    const Plan::Label& label = plan_.labels[i];
    const std::string inputs = Inputs(instruction.inputs);
    absl::StrAppend(&text_, i, ": ");
    for (uint32_t k = 0; k < instruction.outputs.count; ++k) {
      const uint32_t slot = instruction.outputs.first + k;
      absl::StrAppend(&text_, k == 0 ? "" : " ", "%", slot, MemoryText(slot));
    }
    if (instruction.outputs.count > 0) absl::StrAppend(&text_, " = ");
    switch (instruction.code) {
      case Plan::Code::kKernel:
        if (inputs.empty() && label.op == nullptr && !plan_.memory.empty()) {
          absl::StrAppend(&text_, "point");
        } else {
          absl::StrAppend(&text_, KernelText(label), "(", inputs, ")");
        }
        break;
      case Plan::Code::kScalar:
        absl::StrAppend(&text_, "scalar(", inputs, ")");
        break;
      case Plan::Code::kMove:
        absl::StrAppend(&text_, inputs);
        break;
      case Plan::Code::kJump:
        absl::StrAppend(&text_, "jump ", plan_.targets[instruction.target].instruction);
        break;
      case Plan::Code::kBranch:
        absl::StrAppend(&text_, "branch ", inputs, Targets(instruction));
        break;
      case Plan::Code::kSwitch:
        absl::StrAppend(&text_, "switch ", inputs, Targets(instruction));
        break;
      case Plan::Code::kLoop:
        absl::StrAppend(&text_, "loop ", inputs, Targets(instruction));
        break;
      case Plan::Code::kCall:
        absl::StrAppend(&text_, "call ", plan_.calls[instruction.target].function, "(", inputs,
                        ")");
        break;
      case Plan::Code::kFork:
        absl::StrAppend(&text_, "fork");
        for (uint32_t k = 0; k < instruction.num_targets; ++k) {
          absl::StrAppend(&text_, " ", plan_.calls[instruction.target + k].function);
        }
        absl::StrAppend(&text_, "(", inputs, ")");
        break;
      case Plan::Code::kRelease:
        absl::StrAppend(&text_, "after");
        break;
      case Plan::Code::kRegion:
        absl::StrAppend(&text_, "region ", instruction.target);
        break;
      case Plan::Code::kReturn:
        absl::StrAppend(&text_, "return");
        for (const Plan::Ref& result : plan_.results) absl::StrAppend(&text_, " ", RefText(result));
        break;
    }
    const bool named =
        label.op != nullptr || !label.parts.empty() || instruction.code != Plan::Code::kKernel;
    if (named && !label.node.empty()) absl::StrAppend(&text_, " '", label.node, "'");
    AddStream(i);
    if (instruction.drops.count > 0) {
      absl::StrAppend(&text_, " drop ", SlotsText(plan_.drops, instruction.drops));
    }
    if (instruction.releases.count > 0) {
      absl::StrAppend(&text_, " release ", SlotsText(plan_.releases, instruction.releases));
    }
    absl::StrAppend(&text_, "\n");
    if (instruction.code == Plan::Code::kScalar) Add(plan_.scalars[instruction.target]);
  }

  static std::string PortsText(const std::vector<ScalarProgram::Port>& ports) {
    return absl::StrJoin(ports, " ", [](std::string* out, const ScalarProgram::Port& port) {
      absl::StrAppend(out, "r", port.at);
    });
  }

  void Add(const ScalarProgram& program) {
    absl::StrAppend(&text_, "   (", PortsText(program.inputs), ") -> (", PortsText(program.outputs),
                    ")\n");
    for (size_t i = 0; i < program.code.size() && HasRoom(); ++i) {
      const ScalarProgram::Instruction& instruction = program.code[i];
      const ScalarProgram::Label& label = program.labels[i];
      absl::StrAppend(&text_, "   ", i, ": ");
      switch (instruction.code) {
        case ScalarProgram::Code::kMove:
          absl::StrAppend(&text_, "r", instruction.result, " = r", instruction.operands[0]);
          break;
        case ScalarProgram::Code::kJump:
          absl::StrAppend(&text_, "jump ", instruction.target);
          break;
        case ScalarProgram::Code::kBranch:
          absl::StrAppend(&text_, "branch r", instruction.operands[0], " else ",
                          instruction.target);
          break;
        case ScalarProgram::Code::kLoop:
          absl::StrAppend(&text_, "loop r", instruction.operands[0], " -> ", instruction.target);
          break;
        default:
          absl::StrAppend(&text_, "r", instruction.result, " = ", label.op->name, "(");
          for (int k = 0; k < instruction.op->arity; ++k) {
            absl::StrAppend(&text_, k == 0 ? "r" : " r", instruction.operands[k]);
          }
          absl::StrAppend(&text_, ")");
      }
      if (!label.node.empty()) absl::StrAppend(&text_, " '", label.node, "'");
      absl::StrAppend(&text_, "\n");
    }
  }

  std::string Inputs(Plan::Range range) const {
    return absl::StrJoin(
        plan_.refs.begin() + range.first, plan_.refs.begin() + range.first + range.count, " ",
        [](std::string* out, const Plan::Ref& ref) { absl::StrAppend(out, RefText(ref)); });
  }

  std::string Targets(const Plan::Instruction& instruction) const {
    std::string text;
    for (uint32_t k = 0; k < instruction.num_targets; ++k) {
      const Plan::Target& target = plan_.targets[instruction.target + k];
      absl::StrAppend(&text, k == 0 ? " -> " : ", ", target.instruction);
      if (target.drops.count > 0) {
        absl::StrAppend(&text, " drop ", SlotsText(plan_.drops, target.drops));
      }
    }
    return text;
  }

  const Plan& plan_;
  std::string& text_;
};

}  // namespace

std::string PlanText(const Plan& plan) {
  std::string text;
  Writer(plan, text).Write();
  for (size_t i = 0; i < plan.functions.size() && text.size() < kMostBytes; ++i) {
    absl::StrAppend(&text, "\nfunction ", i, " '", plan.functions[i]->name, "'\n");
    Writer(*plan.functions[i], text).Write();
  }
  if (text.size() > kMostBytes) {
    text.resize(kMostBytes);
    absl::StrAppend(&text, "\n... (the rest is left out)\n");
  }
  return text;
}

}  // namespace formwork
