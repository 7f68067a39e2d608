#include "core/plan/fusion.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/conv_depthwise.h"
#include "core/kernels/elementwise/elementwise_program.h"
#include "core/plan/scalars.h"

namespace formwork {
namespace {

// A block of each live register has to stay in the first-level cache.
constexpr size_t kMostNodesInUnit = 128;

// The table's entry where a node may be part of an ElementwiseProgram.
const BlockOp* FusableOp(const Graph& graph, const Node& node) {
  const BlockOp* op = TableOp(graph, node);
  // Select of rank-1 conditions and comparisons that tolerate any shapes do not broadcast.
  if (op == nullptr || op->refuses != Refusal::kNone || node.op->name == "Select" ||
      !node.attrs->GetOr<bool>("incompatible_shape_error", true)) {
    return nullptr;
  }
  return op;
}

// Whether it can end a call: then it stays behind the effects that come before it, and ahead of
// those that come after it.
bool MayEndCall(const Graph& graph, const Node& node) {
  return !node.bodies.empty() || TableOp(graph, node)->refuses != Refusal::kNone;
}

// Builds the units in one forward walk. A waiting group is emitted as a whole when a node outside
// it needs one of its values; all that its members read from outside has been emitted before, so
// groups never depend on each other in a circle.
class Grouping {
 public:
  Grouping(const Graph& graph, const KernelRegistry& kernels)
      : graph_(graph),
        kernels_(kernels),
        group_of_(graph.nodes.size(), -1),
        readers_(graph.nodes.size()),
        depthwise_inputs_(graph.nodes.size()) {
    for (const Node& node : graph.nodes) {
      for (const Edge& edge : node.inputs) ++readers_[edge.node];
      if (IsFloat(node, "DepthwiseConv2dNative")) depthwise_inputs_[node.inputs[0].node] = true;
    }
    for (const Edge& edge : graph.results) ++readers_[edge.node];
  }

  std::vector<FusionUnit> Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return {};
      Visit(static_cast<int32_t>(i));
    }
    for (size_t g = 0; g < groups_.size(); ++g) Emit(static_cast<int32_t>(g));
    return std::move(units_);
  }

 private:
  struct Group {
    std::vector<int32_t> nodes;  // Empty once emitted or united with another.
    bool scalars = false;
  };

  static bool IsFloat(const Node& node, absl::string_view op) {
    return node.kind == NodeKind::kOp && node.op->name == op &&
           node.output_dtypes[0] == DType::kFloat;
  }
  // Whether it is a convolution that a depthwise one alone reads.
  bool WaitsForDepthwise(int32_t i) const {
    return depthwise_inputs_[i] && readers_[i] == 1 && IsFloat(graph_.nodes[i], "Conv2D");
  }

  void Visit(int32_t i) {
    const Node& node = graph_.nodes[i];
    if (const std::optional<size_t> registers = ScalarRegisters(graph_, node, kernels_)) {
      return VisitScalar(i, *registers);
    }
    if (scalars_may_end_call_ && HasEffect(node)) Emit(scalars_);
    const bool waits = FusableOp(graph_, node) != nullptr;
    int32_t joined = -1;
    for (const Edge& edge : node.inputs) {
      const int32_t g = Find(group_of_[edge.node]);
      if (g < 0 || groups_[g].nodes.empty() || g == joined) continue;
      if (!waits || !CanJoin(node, g, joined)) {
        Emit(g);
        continue;
      }
      joined = joined < 0 ? g : Unite(joined, g);
    }
    if (!waits) {
      if (WaitsForDepthwise(i)) return;
      const int32_t conv = IsFloat(node, "DepthwiseConv2dNative") ? node.inputs[0].node : -1;
      if (conv >= 0 && WaitsForDepthwise(conv)) {
        units_.push_back({.nodes = {conv, i}, .bands = true});
      } else {
        units_.push_back({{i}});
      }
      return;
    }
    if (joined < 0) joined = NewGroup(false);
    groups_[joined].nodes.push_back(i);
    group_of_[i] = joined;
  }

  // Whatever computes scalars alone is one group, until somebody needs it.
  void VisitScalar(int32_t i, size_t registers) {
    const Node& node = graph_.nodes[i];
    for (const Edge& edge : node.inputs) {
      const int32_t g = Find(group_of_[edge.node]);
      if (g >= 0 && g != scalars_) Emit(g);
    }
    if (registers_ + registers > ScalarProgram::kMostRegisters) Emit(scalars_);
    if (scalars_ < 0) scalars_ = NewGroup(true);
    registers_ += registers;
    scalars_may_end_call_ = scalars_may_end_call_ || MayEndCall(graph_, node);
    groups_[scalars_].nodes.push_back(i);
    group_of_[i] = scalars_;
  }

  bool CanJoin(const Node& node, int32_t g, int32_t joined) const {
    const size_t size = groups_[g].nodes.size() + (joined < 0 ? 0 : groups_[joined].nodes.size());
    return !groups_[g].scalars && size < kMostNodesInUnit &&
           graph_.nodes[groups_[g].nodes.front()].output_shapes[0] == node.output_shapes[0];
  }

  int32_t NewGroup(bool scalars) {
    groups_.push_back({{}, scalars});
    parent_.push_back(static_cast<int32_t>(parent_.size()));
    return parent_.back();
  }
  int32_t Find(int32_t g) const {
    while (g >= 0 && parent_[g] != g) g = parent_[g];
    return g;
  }
  int32_t Unite(int32_t a, int32_t b) {
    if (groups_[a].nodes.size() < groups_[b].nodes.size()) std::swap(a, b);
    groups_[a].nodes.insert(groups_[a].nodes.end(), groups_[b].nodes.begin(),
                            groups_[b].nodes.end());
    groups_[b].nodes.clear();
    parent_[b] = a;
    return a;
  }
  void Emit(int32_t g) {
    if (g < 0 || groups_[g].nodes.empty()) return;
    std::sort(groups_[g].nodes.begin(), groups_[g].nodes.end());
    units_.push_back({std::move(groups_[g].nodes), groups_[g].scalars});
    groups_[g].nodes.clear();
    if (g == scalars_) {
      scalars_ = -1;
      registers_ = 0;
      scalars_may_end_call_ = false;
    }
  }

  const Graph& graph_;
  const KernelRegistry& kernels_;
  std::vector<int32_t> group_of_;
  std::vector<int32_t> parent_;
  std::vector<int32_t> readers_;        // By node: how often its outputs are read.
  std::vector<bool> depthwise_inputs_;  // By node: whether a depthwise convolution's input.
  std::vector<Group> groups_;
  // The group of scalars that waits; -1: none.
  int32_t scalars_ = -1;
  size_t registers_ = 0;
  bool scalars_may_end_call_ = false;
  std::vector<FusionUnit> units_;
};

// The nodes of a unit as they would run alone: where shapes do not allow the program, and where
// they are wrong. Each result goes with its last use, and an error names its own node.
class OneByOne {
 public:
  using Instruction = ElementwiseProgram::Instruction;

  // `outputs`: values, numbered as an ElementwiseProgram numbers them.
  OneByOne(size_t num_inputs, std::vector<std::string> nodes, std::vector<KernelFn> kernels,
           std::vector<Instruction> instructions, std::vector<uint16_t> outputs)
      : num_inputs_(num_inputs),
        nodes_(std::move(nodes)),
        kernels_(std::move(kernels)),
        instructions_(std::move(instructions)),
        outputs_(std::move(outputs)),
        last_use_(num_inputs_ + instructions_.size(), kNever) {
    for (size_t i = 0; i < instructions_.size(); ++i) {
      for (const uint16_t value : OperandsOf(i)) last_use_[value] = i;
    }
    // Inputs are the caller's, and outputs are needed in the end.
    std::fill_n(last_use_.begin(), num_inputs_, kNever);
    for (const uint16_t value : outputs_) last_use_[value] = kNever;
  }

  absl::Status Run(KernelContext& ctx) const {
    std::vector<Tensor> results(instructions_.size());
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const absl::Span<const uint16_t> operands = OperandsOf(i);
      InputRef refs[3];
      for (size_t k = 0; k < operands.size(); ++k) {
        const uint16_t value = operands[k];
        // What is read twice must not be taken over.
        const bool once = std::count(operands.begin(), operands.end(), value) == 1;
        refs[k] = {value < num_inputs_ ? &ctx.input(value) : &results[value - num_inputs_],
                   once && last_use_[value] == i};
      }
      KernelContext inner(ctx.call(), {refs, operands.size()}, absl::MakeSpan(&results[i], 1));
      const absl::Status status = CatchOutOfMemory([&] { return kernels_[i](inner); });
      if (!status.ok()) return AtNode(i, status);
      for (const uint16_t value : operands) {
        if (last_use_[value] == i) results[value - num_inputs_].Drop();
      }
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      ctx.SetOutput(static_cast<int>(k), std::move(results[outputs_[k] - num_inputs_]));
    }
    return absl::OkStatus();
  }

  // The error of them all together, named by the last.
  absl::Status AtLast(const absl::Status& status) const {
    return AtNode(nodes_.size() - 1, status);
  }

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  absl::Status AtNode(size_t i, const absl::Status& status) const {
    HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
    return Annotate(status, absl::StrCat("node '", nodes_[i], "'"));
  }
  absl::Span<const uint16_t> OperandsOf(size_t i) const {
    return absl::MakeConstSpan(instructions_[i].operands).first(instructions_[i].op->arity);
  }

  const size_t num_inputs_;
  const std::vector<std::string> nodes_;
  const std::vector<KernelFn> kernels_;
  const std::vector<Instruction> instructions_;
  const std::vector<uint16_t> outputs_;
  std::vector<size_t> last_use_;  // By value: the instruction after which it goes.
};

}  // namespace

const BlockOp* TableOp(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::kOp || node.op->effect != Effect::kNone ||
      node.output_dtypes.size() != 1 || node.attrs->GetOr<bool>("Truncate", false)) {
    return nullptr;
  }
  absl::InlinedVector<DType, 3> dtypes;
  for (const Edge& edge : node.inputs) dtypes.push_back(graph.dtype(edge));
  return FindBlockOp(node.op->name, dtypes, node.output_dtypes[0]);
}

std::vector<FusionUnit> PlanFusion(const Graph& graph, const KernelRegistry& kernels) {
  std::vector<FusionUnit> units = Grouping(graph, kernels).Run();
  std::vector<int32_t> unit_of(graph.nodes.size(), -1);
  for (size_t u = 0; u < units.size(); ++u) {
    for (int32_t n : units[u].nodes) unit_of[n] = static_cast<int32_t>(u);
  }
  std::vector<std::vector<bool>> read(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    read[n].resize(graph.nodes[n].output_dtypes.size());
    for (const Edge& edge : graph.nodes[n].inputs) {
      if (unit_of[edge.node] != unit_of[n]) read[edge.node][edge.index] = true;
    }
  }
  for (const Edge& edge : graph.results) read[edge.node][edge.index] = true;
  for (FusionUnit& unit : units) {
    for (int32_t n : unit.nodes) {
      for (size_t k = 0; k < read[n].size(); ++k) {
        if (read[n][k]) unit.outputs.push_back({n, static_cast<int32_t>(k)});
      }
    }
  }
  return units;
}

namespace {

std::optional<FusedStep> MakeBandStep(const Graph& graph, const FusionUnit& unit,
                                      std::vector<KernelFn> one_by_one) {
  const Node& conv = graph.nodes[unit.nodes[0]];
  const Node& depthwise = graph.nodes[unit.nodes[1]];
  absl::StatusOr<KernelFn> kernel = MakeConvDepthwise(
      {conv.name, conv.attrs, conv.inputs.size(), std::move(one_by_one[0])},
      {depthwise.name, depthwise.attrs, depthwise.inputs.size(), std::move(one_by_one[1])});
  if (!kernel.ok()) return std::nullopt;
  FusedStep step{conv.inputs, *std::move(kernel)};
  step.inputs.insert(step.inputs.end(), depthwise.inputs.begin() + 1, depthwise.inputs.end());
  return step;
}

}  // namespace

absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph& graph, const FusionUnit& unit,
                                                       std::vector<KernelFn> one_by_one) {
  if (unit.bands) return MakeBandStep(graph, unit, std::move(one_by_one));
  FusedStep fused;
  HashMap<int32_t, uint16_t> inside;  // Node -> its instruction.
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    inside[unit.nodes[i]] = static_cast<uint16_t>(i);
  }
  HashMap<Edge, uint16_t> input_of;
  std::vector<DType> dtypes;
  for (int32_t n : unit.nodes) {
    for (const Edge& edge : graph.nodes[n].inputs) {
      if (inside.contains(edge.node) || input_of.contains(edge)) continue;
      input_of[edge] = static_cast<uint16_t>(fused.inputs.size());
      fused.inputs.push_back(edge);
      dtypes.push_back(graph.dtype(edge));
    }
  }
  if (fused.inputs.empty() || fused.inputs.size() + unit.nodes.size() > 0xffff) return std::nullopt;
  std::vector<ElementwiseProgram::Instruction> instructions;
  for (int32_t n : unit.nodes) {
    ElementwiseProgram::Instruction instruction;
    instruction.op = FusableOp(graph, graph.nodes[n]);
    if (instruction.op == nullptr) return std::nullopt;
    for (size_t k = 0; k < graph.nodes[n].inputs.size(); ++k) {
      const Edge edge = graph.nodes[n].inputs[k];
      auto own = inside.find(edge.node);
      instruction.operands[k] = own == inside.end()
                                    ? input_of[edge]
                                    : static_cast<uint16_t>(fused.inputs.size() + own->second);
    }
    instructions.push_back(instruction);
  }
  if (unit.outputs.empty()) return std::nullopt;
  std::vector<uint16_t> outputs;
  for (const Edge& edge : unit.outputs) {
    outputs.push_back(static_cast<uint16_t>(fused.inputs.size() + inside[edge.node]));
  }
  std::vector<std::string> names;
  for (int32_t n : unit.nodes) names.push_back(graph.nodes[n].name);
  auto program = std::make_shared<const ElementwiseProgram>(dtypes, instructions, outputs);
  auto steps =
      std::make_shared<const OneByOne>(dtypes.size(), std::move(names), std::move(one_by_one),
                                       std::move(instructions), std::move(outputs));
  fused.kernel = KernelFn([program, steps](KernelContext& ctx) -> absl::Status {
    const absl::StatusOr<bool> done = CatchOutOfMemory([&] { return program->Run(ctx); });
    // Once there was no memory an input may have been taken over already.
    if (absl::IsResourceExhausted(done.status())) return steps->AtLast(done.status());
    return done.ok() && *done ? absl::OkStatus() : steps->Run(ctx);
  });
  return std::optional<FusedStep>(std::move(fused));
}

}  // namespace formwork
