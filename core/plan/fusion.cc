#include "core/plan/fusion.h"

#include <algorithm>
#include <memory>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elementwise_program.h"

namespace formwork {
namespace {

// A block of each live register has to stay in the first-level cache.
constexpr size_t kMostNodesInUnit = 128;

// The table's entry where a node may be part of a program.
const BlockOp* FusableOp(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::kOp || node.op->effect != Effect::kNone ||
      node.output_dtypes.size() != 1) {
    return nullptr;
  }
  // Select of rank-1 conditions and comparisons that tolerate any shapes do not broadcast; casts
  // that cut bits off are not the table's.
  if (node.op->name == "Select" || !node.attrs->GetOr<bool>("incompatible_shape_error", true) ||
      node.attrs->GetOr<bool>("Truncate", false)) {
    return nullptr;
  }
  absl::InlinedVector<DType, 3> dtypes;
  for (const Edge& edge : node.inputs) dtypes.push_back(graph.dtype(edge));
  const BlockOp* op = FindBlockOp(node.op->name, dtypes, node.output_dtypes[0]);
  return op != nullptr && op->refuses == Refusal::kNone ? op : nullptr;
}

// Builds the units in one forward walk. A waiting group is emitted as a whole when a node outside
// it needs one of its values; all that its members read from outside has been emitted before, so
// groups never depend on each other in a circle.
class Grouping {
 public:
  explicit Grouping(const Graph& graph) : graph_(graph), group_of_(graph.nodes.size(), -1) {}

  std::vector<FusionUnit> Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return {};
      Visit(static_cast<int32_t>(i));
    }
    for (size_t g = 0; g < groups_.size(); ++g) Emit(static_cast<int32_t>(g));
    return std::move(units_);
  }

 private:
  void Visit(int32_t i) {
    const Node& node = graph_.nodes[i];
    const bool waits = FusableOp(graph_, node) != nullptr;
    int32_t joined = -1;
    for (const Edge& edge : node.inputs) {
      const int32_t g = Find(group_of_[edge.node]);
      if (g < 0 || groups_[g].empty() || g == joined) continue;
      if (!waits || !CanJoin(node, g, joined)) {
        Emit(g);
        continue;
      }
      joined = joined < 0 ? g : Unite(joined, g);
    }
    if (!waits) {
      units_.push_back({{i}, {}});
      return;
    }
    if (joined < 0) {
      joined = static_cast<int32_t>(groups_.size());
      groups_.emplace_back();
      parent_.push_back(joined);
    }
    groups_[joined].push_back(i);
    group_of_[i] = joined;
  }

  bool CanJoin(const Node& node, int32_t g, int32_t joined) const {
    const size_t size = groups_[g].size() + (joined < 0 ? 0 : groups_[joined].size());
    return size < kMostNodesInUnit &&
           graph_.nodes[groups_[g].front()].output_shapes[0] == node.output_shapes[0];
  }

  int32_t Find(int32_t g) const {
    while (g >= 0 && parent_[g] != g) g = parent_[g];
    return g;
  }
  int32_t Unite(int32_t a, int32_t b) {
    if (groups_[a].size() < groups_[b].size()) std::swap(a, b);
    groups_[a].insert(groups_[a].end(), groups_[b].begin(), groups_[b].end());
    groups_[b].clear();
    parent_[b] = a;
    return a;
  }
  void Emit(int32_t g) {
    if (groups_[g].empty()) return;
    std::sort(groups_[g].begin(), groups_[g].end());
    units_.push_back({std::move(groups_[g]), {}});
    groups_[g].clear();
  }

  const Graph& graph_;
  std::vector<int32_t> group_of_;
  std::vector<int32_t> parent_;
  std::vector<std::vector<int32_t>> groups_;  // Empty once emitted or united with another.
  std::vector<FusionUnit> units_;
};

// The nodes of a unit as they would run alone: where shapes do not allow the program, and where
// they are wrong, so that the error is the node's own.
absl::Status RunOneByOne(KernelContext& ctx, const std::vector<KernelFn>& kernels,
                         const std::vector<ElementwiseProgram::Instruction>& instructions,
                         const std::vector<uint16_t>& outputs) {
  const size_t num_inputs = static_cast<size_t>(ctx.num_inputs());
  std::vector<Tensor> results(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    InputRef refs[3];
    for (int k = 0; k < instructions[i].op->arity; ++k) {
      const uint16_t value = instructions[i].operands[k];
      refs[k] = {value < num_inputs ? &ctx.input(value) : &results[value - num_inputs], false};
    }
    KernelContext inner(ctx.call(), {refs, instructions[i].op->arity},
                        absl::MakeSpan(&results[i], 1));
    FORMWORK_RETURN_IF_ERROR(kernels[i](inner));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    ctx.SetOutput(static_cast<int>(i), std::move(results[outputs[i] - num_inputs]));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<FusionUnit> PlanFusion(const Graph& graph) {
  std::vector<FusionUnit> units = Grouping(graph).Run();
  std::vector<int32_t> unit_of(graph.nodes.size(), -1);
  for (size_t u = 0; u < units.size(); ++u) {
    for (int32_t n : units[u].nodes) unit_of[n] = static_cast<int32_t>(u);
  }
  std::vector<bool> read_outside(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const Edge& edge : graph.nodes[n].inputs) {
      if (unit_of[edge.node] != unit_of[n]) read_outside[edge.node] = true;
    }
  }
  for (const Edge& edge : graph.results) read_outside[edge.node] = true;
  for (FusionUnit& unit : units) {
    for (int32_t n : unit.nodes) unit.read_outside.push_back(read_outside[n]);
  }
  return units;
}

absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph& graph, const FusionUnit& unit,
                                                       std::vector<KernelFn> one_by_one) {
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
  std::vector<uint16_t> outputs;
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    if (!unit.read_outside[i]) continue;
    outputs.push_back(static_cast<uint16_t>(fused.inputs.size() + i));
    fused.outputs.push_back({unit.nodes[i], 0});
  }
  if (outputs.empty()) return std::nullopt;
  auto program = std::make_shared<const ElementwiseProgram>(dtypes, instructions, outputs);
  auto steps = std::make_shared<const std::vector<KernelFn>>(std::move(one_by_one));
  fused.kernel = KernelFn([program, steps, instructions = std::move(instructions),
                           outputs](KernelContext& ctx) -> absl::Status {
    absl::StatusOr<bool> done = program->Run(ctx);
    if (done.ok() && *done) return absl::OkStatus();
    return RunOneByOne(ctx, *steps, instructions, outputs);
  });
  return std::optional<FusedStep>(std::move(fused));
}

}  // namespace formwork
