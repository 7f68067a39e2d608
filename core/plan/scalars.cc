#include "core/plan/scalars.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "core/base/hash_map.h"
#include "core/graph/element_nodes.h"
#include "core/plan/fusion.h"

namespace formwork {
namespace {

using Code = ScalarProgram::Code;

bool IsScalar(const Node& node, size_t output) {
  const DType dtype = node.output_dtypes[output];
  return output < node.output_shapes.size() && node.output_shapes[output].rank() == 0 &&
         IsPlainData(dtype) && DTypeSize(dtype) <= sizeof(ScalarProgram::Register);
}

bool AreScalars(const Graph& graph, const std::vector<Edge>& edges) {
  return std::all_of(edges.begin(), edges.end(), [&graph](const Edge& edge) {
    return IsScalar(graph.nodes[edge.node], static_cast<size_t>(edge.index));
  });
}

// Whether what decides is a bool, the only thing that a program branches at.
bool IsBool(const Graph& graph, Edge edge) { return graph.dtype(edge) == DType::kBool; }

std::optional<size_t> ScalarRegisters(const Graph& body, const KernelRegistry& kernels) {
  if (!AreScalars(body, body.results)) return std::nullopt;
  size_t registers = 0;
  for (const Node& node : body.nodes) {
    if (node.kind == NodeKind::kArg) continue;
    if (node.kind == NodeKind::kConstant) {
      if (!IsScalar(node, 0)) return std::nullopt;
      ++registers;
      continue;
    }
    const std::optional<size_t> more = formwork::ScalarRegisters(body, node, kernels);
    if (!more) return std::nullopt;
    registers += *more;
    if (registers > ScalarProgram::kMostRegisters) return std::nullopt;
  }
  return registers;
}

class Builder {
 public:
  ScalarStep Build(const Graph& graph, const FusionUnit& unit) {
    HashMap<Edge, uint16_t> known;
    for (int32_t n : unit.nodes) {
      const Node& node = graph.nodes[n];
      Registers operands;
      for (const Edge& edge : node.inputs) {
        auto [found, inserted] = known.try_emplace(edge, 0);
        if (inserted) {
          const Node& source = graph.nodes[edge.node];
          found->second = NewInput({edge, nullptr}, graph.dtype(edge),
                                   source.kind == NodeKind::kConstant ? &source.constant : nullptr);
        }
        operands.push_back(found->second);
      }
      const Registers results = Add(graph, node, operands);
      for (size_t k = 0; k < results.size(); ++k) known[{n, static_cast<int32_t>(k)}] = results[k];
    }
    for (const Edge& edge : unit.outputs) {
      program().outputs.push_back(PortOf(known[edge], graph.dtype(edge)));
    }
    program().num_registers = static_cast<uint16_t>(constant_.size());
    return std::move(step_);
  }

 private:
  using Registers = absl::InlinedVector<uint16_t, 4>;

  ScalarProgram& program() { return step_.program; }
  uint32_t Here() { return static_cast<uint32_t>(program().code.size()); }

  uint16_t NewRegister(std::optional<uint32_t> computed_at = std::nullopt,
                       const Tensor* constant = nullptr) {
    computed_at_.push_back(computed_at);
    constant_.push_back(constant);
    return static_cast<uint16_t>(constant_.size() - 1);
  }
  static ScalarProgram::Port PortOf(uint16_t at, DType dtype) {
    return {at, dtype, static_cast<uint8_t>(DTypeSize(dtype))};
  }
  uint16_t NewInput(ScalarStep::Source source, DType dtype, const Tensor* constant) {
    const uint16_t at = NewRegister(std::nullopt, constant);
    step_.inputs.push_back(source);
    program().inputs.push_back(PortOf(at, dtype));
    return at;
  }

  ScalarProgram::Instruction& NewInstruction(Code code, const Node* node = nullptr) {
    program().labels.push_back(node == nullptr ? ScalarProgram::Label()
                                               : ScalarProgram::Label{node->name, node->op});
    ScalarProgram::Instruction& instruction = program().code.emplace_back();
    instruction.code = code;
    return instruction;
  }
  void Move(uint16_t from, uint16_t to) {
    ScalarProgram::Instruction& move = NewInstruction(Code::kMove);
    move.operands[0] = from;
    move.result = to;
  }
  uint32_t Jump() {
    NewInstruction(Code::kJump);
    return Here() - 1;
  }
  void LandHere(uint32_t jump) { program().code[jump].target = Here(); }

  // The registers of the node's outputs.
  Registers Add(const Graph& graph, const Node& node, const Registers& operands) {
    switch (node.op->control_flow) {
      case ControlFlow::kWhile:
        return AddLoop(node, operands);
      case ControlFlow::kIf:
        return AddBranches(node, operands);
      default:
        return AddOp(graph, node, operands);
    }
  }

  Registers AddOp(const Graph& graph, const Node& node, const Registers& operands) {
    const BlockOp* const op = TableOp(graph.nodes, node);
    ScalarProgram::Instruction& instruction =
        NewInstruction(ScalarProgram::OpCode(node.op->name, *op), &node);
    instruction.op = op;
    std::copy(operands.begin(), operands.end(), instruction.operands);
    if (instruction.op->refuses != Refusal::kNone) {
      const Tensor* second = constant_[operands[1]];
      if (second == nullptr || !CheckOperand(*instruction.op, second->raw(), 1).ok()) {
        instruction.code = Code::kCheckedOp;
      }
    }
    instruction.result = NewRegister(Here() - 1);
    return {instruction.result};
  }

  // The registers of the body's results.
  Registers AddBody(const Graph& body, absl::Span<const uint16_t> arguments) {
    std::vector<Registers> values(body.nodes.size());
    for (size_t k = 0; k < body.args.size(); ++k) values[body.args[k]] = {arguments[k]};
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      const Node& node = body.nodes[i];
      if (node.kind == NodeKind::kArg) continue;
      if (node.kind == NodeKind::kConstant) {
        values[i] = {NewInput({{}, &node.constant}, node.constant.dtype(), &node.constant)};
        continue;
      }
      Registers operands;
      for (const Edge& edge : node.inputs) operands.push_back(values[edge.node][edge.index]);
      values[i] = Add(body, node, operands);
    }
    Registers results;
    for (const Edge& edge : body.results) results.push_back(values[edge.node][edge.index]);
    return results;
  }

  //      branch condition, else
  //      then-body; outputs = results; jump end
  //   else: else-body; outputs = results
  //   end:
  Registers AddBranches(const Node& node, const Registers& operands) {
    const auto arguments = absl::MakeConstSpan(operands).subspan(1);
    Registers outputs;
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) outputs.push_back(NewRegister());
    const uint32_t branch = Here();
    NewInstruction(Code::kBranch, &node).operands[0] = operands[0];
    const auto add = [&](const Graph& body) {
      const Registers results = AddBody(body, arguments);
      for (size_t k = 0; k < results.size(); ++k) Move(results[k], outputs[k]);
    };
    add(node.bodies[0]);
    const uint32_t jump = Jump();
    LandHere(branch);
    add(node.bodies[1]);
    LandHere(jump);
    return outputs;
  }

  //      variables = inputs; jump decide
  //   again:  body; variables = results
  //   decide: condition; loop again
  // What the body passes on unchanged is no variable of the loop.
  Registers AddLoop(const Node& node, const Registers& operands) {
    const Graph& body = node.bodies[1];
    Registers variables = operands;
    std::vector<size_t> carried;
    for (size_t k = 0; k < variables.size(); ++k) {
      if (body.results[k] == Edge{body.args[k], 0}) continue;
      carried.push_back(k);
      variables[k] = NewRegister();
      Move(operands[k], variables[k]);
    }
    const uint32_t jump = Jump();
    const uint32_t again = Here();
    const Registers all = AddBody(body, variables);
    Registers results, changed;
    for (size_t k : carried) {
      results.push_back(all[k]);
      changed.push_back(variables[k]);
    }
    ComputeInPlace(again, changed, results);
    MoveAll(std::move(results), changed);
    LandHere(jump);
    const Registers decision = AddBody(node.bodies[0], variables);
    ScalarProgram::Instruction& loop = NewInstruction(Code::kLoop, &node);
    loop.operands[0] = decision[0];
    loop.target = again;
    return variables;
  }

  // Lets the body's instructions, from `again` on, write to a loop's variables themselves where
  // nobody needs the old value any more; `results` is then the variable.
  void ComputeInPlace(uint32_t again, const Registers& variables, Registers& results) {
    std::vector<uint32_t> last_read(constant_.size(), 0);
    for (uint32_t i = again; i < Here(); ++i) {
      const ScalarProgram::Instruction& instruction = program().code[i];
      for (size_t k = 0; k < NumOperands(instruction); ++k) last_read[instruction.operands[k]] = i;
    }
    for (uint16_t result : results) {
      // What becomes the value of another variable is read by a move after the body.
      if (!computed_at_[result]) last_read[result] = Here();
    }
    std::vector<uint16_t> place(constant_.size());
    for (size_t r = 0; r < place.size(); ++r) place[r] = static_cast<uint16_t>(r);
    for (size_t k = 0; k < results.size(); ++k) {
      const uint16_t result = results[k];
      const std::optional<uint32_t> at = computed_at_[result];
      if (!at || *at < again || place[result] != result || last_read[variables[k]] > *at) continue;
      place[result] = variables[k];
    }
    for (uint32_t i = again; i < Here(); ++i) {
      ScalarProgram::Instruction& instruction = program().code[i];
      for (uint16_t& operand : instruction.operands) operand = place[operand];
      instruction.result = place[instruction.result];
    }
    for (uint16_t& result : results) result = place[result];
  }

  static size_t NumOperands(const ScalarProgram::Instruction& instruction) {
    if (instruction.op != nullptr) return instruction.op->arity;
    return instruction.code == Code::kJump ? 0 : 1;
  }

  // Moves all at once: what an earlier move would overwrite is put aside first.
  void MoveAll(Registers from, const Registers& to) {
    for (size_t k = 0; k < from.size(); ++k) {
      if (std::find(to.begin(), to.begin() + k, from[k]) == to.begin() + k) continue;
      const uint16_t aside = NewRegister();
      Move(from[k], aside);
      from[k] = aside;
    }
    for (size_t k = 0; k < from.size(); ++k) {
      if (from[k] != to[k]) Move(from[k], to[k]);
    }
  }

  ScalarStep step_;
  // By register.
  std::vector<std::optional<uint32_t>> computed_at_;  // The one op that it is the result of.
  std::vector<const Tensor*> constant_;               // Null where it is none.
};

}  // namespace

std::optional<size_t> ScalarRegisters(const Graph& graph, const Node& node,
                                      const KernelRegistry& kernels) {
  if (node.kind != NodeKind::kOp || !AreScalars(graph, node.inputs)) return std::nullopt;
  const size_t ports = node.inputs.size() + node.output_dtypes.size();
  switch (node.op->control_flow) {
    case ControlFlow::kNone: {
      const bool known =
          TableOp(graph.nodes, node) != nullptr && kernels.Find(node.op->name) != nullptr;
      return known && IsScalar(node, 0) ? std::optional(ports) : std::nullopt;
    }
    case ControlFlow::kIf:
    case ControlFlow::kWhile: {
      if (node.bodies.empty()) return std::nullopt;
      const bool loop = node.op->control_flow == ControlFlow::kWhile;
      const bool is_bool =
          loop ? IsBool(node.bodies[0], node.bodies[0].results[0]) : IsBool(graph, node.inputs[0]);
      if (!is_bool) return std::nullopt;
      size_t registers = 2 * ports;
      for (const Graph& body : node.bodies) {
        const std::optional<size_t> more = ScalarRegisters(body, kernels);
        if (!more) return std::nullopt;
        registers += *more;
      }
      if (registers > ScalarProgram::kMostRegisters) return std::nullopt;
      return registers;
    }
    default:
      return std::nullopt;
  }
}

ScalarStep MakeScalarStep(const Graph& graph, const FusionUnit& unit) {
  return Builder().Build(graph, unit);
}

}  // namespace formwork
