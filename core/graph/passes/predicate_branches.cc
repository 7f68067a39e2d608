// Makes selects of branches that a value on the device chooses.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/base/stop_flag.h"
#include "core/graph/passes/made_nodes.h"
#include "core/graph/passes/pipeline.h"
#include "core/graph/passes/state_values.h"
#include "core/graph/placement.h"
#include "core/ops/cannot_fail.h"
#include "core/ops/reshape.h"
#include "core/ops/work.h"

namespace formwork {
namespace {

// Of both branches, in nanoseconds of one thread of the CPU (EstimateWork). A GPU does that in a
// fraction of a millisecond, which is what a branch that need not have run may cost; that the host
// reads a predicate costs some 30 us and whatever it could have enqueued meanwhile.
constexpr double kMostWork = 1e8;
// That what has been stored is copied counts as well, for each variable: so the pass ends soon.
constexpr double kCopyNanos = 100;

// What is known of a body's parameters.
struct BranchParameters {
  std::vector<Memory> memory;
  std::vector<DType> variables;  // PassContext::variables; there may be fewer.
  std::vector<bool> distinct;    // Node::distinct, as far as it is more than the nodes say.
};

bool IsIf(const Node& node) {
  return node.kind == NodeKind::kOp && node.op->control_flow == ControlFlow::kIf &&
         node.bodies.size() == 2;
}

bool IsUpdate(const OpDef& op) {
  return op.name == "AssignAddVariableOp" || op.name == "AssignSubVariableOp";
}

// Whether a variable may have no value afterwards.
bool MayDestroy(const Node& node) {
  if (node.kind != NodeKind::kOp) return false;
  if (node.op->control_flow == ControlFlow::kCall) return node.op->effect != Effect::kNone;
  return node.op->name == "DestroyResourceOp" ||
         std::any_of(node.bodies.begin(), node.bodies.end(), [](const Graph& body) {
           return std::any_of(body.nodes.begin(), body.nodes.end(), &MayDestroy);
         });
}

// Copies one body into a new list of nodes, in which some branches are none any more.
class Rewriter {
 public:
  Rewriter(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  // Whether any has become selects, in the bodies of its nodes too.
  bool Run(const BranchParameters& parameters) {
    moved_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCut()) return false;  // The graph is of no use then.
      Visit(i, parameters);
    }
    for (int32_t& arg : graph_.args) arg = moved_[arg][0].node;
    for (Edge& result : graph_.results) result = moved_[result.node][result.index];
    graph_.nodes = std::move(nodes_);
    return changed_;
  }

 private:
  struct Stored {
    Edge handle, value;
    std::string by;  // The node that stores it.
  };
  // What is stored on one way through the branches, in the order of the first stores.
  struct Stores {
    std::vector<Stored> list;
    HashMap<Edge, size_t> at;  // By handle.

    void Set(Stored stored) {
      const auto [place, is_new] = at.try_emplace(stored.handle, list.size());
      if (is_new) {
        list.push_back(std::move(stored));
      } else {
        list[place->second] = std::move(stored);
      }
    }
  };

  void Visit(size_t i, const BranchParameters& parameters) {
    Node& node = graph_.nodes[i];
    for (Edge& edge : node.inputs) edge = moved_[edge.node][edge.index];
    if (IsIf(node) && BecomesSelects(node, moved_[i])) {
      changed_ = true;
      return;
    }
    if (!node.bodies.empty()) {
      const BranchParameters of_bodies = ParametersOf(node);
      for (Graph& body : node.bodies) changed_ |= Rewriter(body, context_).Run(of_bodies);
    }
    if (node.kind == NodeKind::kArg && static_cast<size_t>(node.arg) < parameters.distinct.size() &&
        parameters.distinct[static_cast<size_t>(node.arg)]) {
      node.distinct = true;
    }
    const int32_t at = static_cast<int32_t>(nodes_.size());
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      moved_[i].push_back({at, static_cast<int32_t>(k)});
    }
    nodes_.push_back(std::move(node));
    const Node& kept = nodes_.back();
    if (kept.kind == NodeKind::kArg) {
      const auto arg = static_cast<size_t>(kept.arg);
      memory_.push_back({parameters.memory[arg]});
      if (arg < parameters.variables.size() && parameters.variables[arg] != DType::kInvalid) {
        variables_[{at, 0}] = parameters.variables[arg];
      }
    }
    NoteFrom(static_cast<size_t>(at));
  }

  // What the bodies of a node, whose inputs are in the new list, are given.
  BranchParameters ParametersOf(const Node& node) {
    const bool loop = node.op->control_flow == ControlFlow::kWhile;
    const size_t own = node.op->inputs_before_functions();
    const bool destroys = MayDestroy(node);
    HashMap<Edge, int> uses;
    for (size_t k = own; k < node.inputs.size(); ++k) ++uses[node.inputs[k]];
    BranchParameters parameters;
    for (size_t k = own; k < node.inputs.size(); ++k) {
      const Edge edge = node.inputs[k];
      const Memory initial = MemoryOf(edge);
      parameters.memory.push_back(loop ? MemoryOfLoopVariable(DTypeOf(edge), initial) : initial);
      // A loop may pass on another handle.
      const bool stays = !loop || node.bodies[1].results[k] == Edge{node.bodies[1].args[k], 0};
      const auto variable = variables_.find(edge);
      const bool has_value = stays && variable != variables_.end() && !destroys;
      parameters.variables.push_back(has_value ? variable->second : DType::kInvalid);
      parameters.distinct.push_back(stays && nodes_[edge.node].distinct && uses[edge] == 1);
    }
    return parameters;
  }

  // --- what is known in front of a node ---------------------------------------------------------

  DType DTypeOf(Edge edge) const { return nodes_[edge.node].output_dtypes[edge.index]; }
  const PartialShape& ShapeOf(Edge edge) const {
    static const PartialShape kUnknown;
    const std::vector<PartialShape>& shapes = nodes_[edge.node].output_shapes;
    return shapes.empty() ? kUnknown : shapes[edge.index];
  }
  Memory MemoryOf(Edge edge) const { return memory_[edge.node][edge.index]; }

  // Learns of the nodes from `first` on, which stay.
  void NoteFrom(size_t first) {
    for (size_t n = first; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (node.kind == NodeKind::kOp) {
        state_.Note(node, static_cast<int32_t>(n));
        if (node.op->loads_variable) {
          variables_[node.inputs[0]] = node.output_dtypes[0];
        } else if (node.op->stores_variable || IsUpdate(*node.op)) {
          variables_[node.inputs[0]] = DTypeOf(node.inputs[1]);
        } else if (MayDestroy(node)) {
          variables_.clear();
        }
      }
      if (memory_.size() > n) continue;
      std::vector<Memory> inputs;
      for (const Edge& edge : node.inputs) inputs.push_back(MemoryOf(edge));
      memory_.push_back(PlaceOutputs(nodes_, node, inputs, *context_.device_kernels));
    }
  }

  // --- one If -----------------------------------------------------------------------------------

  // Puts selects in its place. False: it stays, and nothing has changed.
  bool BecomesSelects(const Node& node, std::vector<Edge>& results) {
    if (MemoryOf(node.inputs[0]) == Memory::kHost) return false;
    const size_t first = nodes_.size();
    before_.clear();
    name_ = node.name;
    work_ = 0;
    Stores stores;
    if (!AddIf(node, node.inputs, stores, results) || !StoresAreApart(stores)) {
      nodes_.resize(first);
      results.clear();
      return false;
    }
    for (const Stored& stored : stores.list) {
      if (stored.value == before_.at(stored.handle)) continue;
      Append(MadeNode(stored.by, context_.ops.Find("AssignVariableOp"), "dtype",
                      DTypeOf(stored.value), {stored.handle, stored.value}, {}),
             nodes_);
    }
    NoteFrom(first);
    return true;
  }

  // Two handles may be of one variable: what one stores is then what the other reads.
  bool StoresAreApart(const Stores& stores) const {
    HashSet<DType> stored;
    for (const Stored& each : stores.list) stored.insert(DTypeOf(each.value));
    HashMap<DType, Edge> first;
    for (const auto& [handle, before] : before_) {
      const DType dtype = DTypeOf(before);
      if (!stored.contains(dtype)) continue;
      const auto [other, is_first] = first.try_emplace(dtype, handle);
      if (!is_first && !AreDistinct(nodes_, handle, other->second)) return false;
    }
    return true;
  }

  // Adds both branches, behind what has been stored so far. `inputs`: the node's, in the new list.
  bool AddIf(const Node& node, absl::Span<const Edge> inputs, Stores& stores,
             std::vector<Edge>& results) {
    const Edge predicate = inputs[0];
    if (DTypeOf(predicate) != DType::kBool || ShapeOf(predicate) != PartialShape(Shape())) {
      return false;
    }
    Stores after[2] = {stores, stores};
    work_ += kCopyNanos * static_cast<double>(1 + stores.list.size());
    if (work_ > kMostWork) return false;
    std::vector<Edge> made[2];
    for (size_t b = 0; b < 2; ++b) {
      if (!AddBranch(node.bodies[b], inputs.subspan(1), after[b], made[b])) return false;
    }
    for (size_t k = 0; k < made[0].size(); ++k) {
      const std::optional<Edge> result = Select(node.name, predicate, made[0][k], made[1][k]);
      if (!result) return false;
      results.push_back(*result);
    }
    for (size_t b = 0; b < 2; ++b) {
      for (const Stored& stored : after[b].list) {
        if (b == 1 && after[0].at.contains(stored.handle)) continue;
        const std::optional<Edge> value =
            Select(stored.by, predicate, ValueOf(after[0], stored.handle),
                   ValueOf(after[1], stored.handle));
        if (!value) return false;
        stores.Set({stored.handle, *value, stored.by});
      }
    }
    return true;
  }

  bool AddBranch(const Graph& branch, absl::Span<const Edge> arguments, Stores& stores,
                 std::vector<Edge>& results) {
    std::vector<std::vector<Edge>> moved(branch.nodes.size());
    for (size_t i = 0; i < branch.nodes.size(); ++i) {
      if (WorkIsCut()) return false;
      const Node& node = branch.nodes[i];
      if (node.kind == NodeKind::kArg) {
        moved[i] = {arguments[static_cast<size_t>(node.arg)]};
        continue;
      }
      std::vector<Edge> inputs;
      for (const Edge& edge : node.inputs) inputs.push_back(moved[edge.node][edge.index]);
      if (!AddNode(node, std::move(inputs), stores, moved[i])) return false;
    }
    for (const Edge& result : branch.results) results.push_back(moved[result.node][result.index]);
    return true;
  }

  // A node of a branch, which is no parameter. `inputs`: in the new list.
  bool AddNode(const Node& node, std::vector<Edge> inputs, Stores& stores,
               std::vector<Edge>& outputs) {
    if (node.kind == NodeKind::kOp) {
      if (IsIf(node)) return AddIf(node, inputs, stores, outputs);
      if (node.op->loads_variable) {
        if (!Touch(inputs[0], node.output_dtypes[0])) return false;
        outputs = {ValueOf(stores, inputs[0])};
        return true;
      }
      if (node.op->stores_variable || IsUpdate(*node.op)) {
        const DType dtype = DTypeOf(inputs[1]);
        if (!Touch(inputs[0], dtype) || ShapeOf(inputs[1]) != ShapeOf(inputs[0])) return false;
        Edge value = inputs[1];
        if (IsUpdate(*node.op)) {
          const OpDef* const op =
              context_.ops.Find(node.op->name == "AssignAddVariableOp" ? "AddV2" : "Sub");
          value = Append(MadeNode(node.name, op, "T", dtype, {ValueOf(stores, inputs[0]), value},
                                  ShapeOf(inputs[0])),
                         nodes_);
          if (!IsHarmless(nodes_.back())) return false;
        }
        stores.Set({inputs[0], value, node.name});
        return true;
      }
    }
    Node copy = node;
    copy.inputs = std::move(inputs);
    const Edge at = Append(std::move(copy), nodes_);
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      outputs.push_back({at.node, static_cast<int32_t>(k)});
    }
    return node.kind == NodeKind::kConstant || IsHarmless(nodes_.back());
  }

  // Whether a node at the end of the new list is the device's work, which cannot fail and, with
  // what came before it, is little.
  bool IsHarmless(const Node& node) {
    if (node.kind != NodeKind::kOp || node.op->effect != Effect::kNone || node.wants_host ||
        !CannotFailByValue(node.op->name, node.output_dtypes) ||
        (!KeepsElements(node.op->name) &&
         context_.device_kernels->Find(node.op->name) == nullptr)) {
      return false;
    }
    // What its shape function does not know now may fail the call.
    const std::vector<bool> host = HostInputs(node);
    std::vector<PartialShape> shapes;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Edge edge = node.inputs[k];
      if (!IsPlainData(DTypeOf(edge)) || !ShapeOf(edge).fully_known() ||
          (host[k] && nodes_[edge.node].kind != NodeKind::kConstant)) {
        return false;
      }
      shapes.push_back(ShapeOf(edge));
    }
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      if (!IsPlainData(node.output_dtypes[k]) || node.output_shapes.size() <= k ||
          !node.output_shapes[k].fully_known()) {
        return false;
      }
    }
    work_ += EstimateWork(node.op->name, shapes, node.output_shapes);
    return work_ <= kMostWork;
  }

  // What the variable has, in front of the If, becomes known. False where it may have no value, or
  // one of another dtype, or where its shape may change.
  bool Touch(Edge handle, DType dtype) {
    const auto variable = variables_.find(handle);
    if (variable == variables_.end() || variable->second != dtype || !IsPlainData(dtype) ||
        !ShapeOf(handle).fully_known()) {
      return false;
    }
    const auto [before, inserted] = before_.try_emplace(handle);
    if (!inserted) return true;
    const std::optional<Edge> value = state_.ValueOf(handle);
    if (value && DTypeOf(*value) == dtype && ShapeOf(*value) == ShapeOf(handle)) {
      before->second = *value;
      return true;
    }
    before->second = Append(
        MadeNode(NameInside(name_, nodes_[handle.node].name), context_.ops.Find("ReadVariableOp"),
                 "dtype", dtype, {handle}, ShapeOf(handle)),
        nodes_);
    return true;
  }

  Edge ValueOf(const Stores& stores, Edge handle) const {
    const auto stored = stores.at.find(handle);
    return stored == stores.at.end() ? before_.at(handle) : stores.list[stored->second].value;
  }

  // `a` where the predicate is true, else `b`: none where they are not of one shape, or no data.
  std::optional<Edge> Select(const std::string& name, Edge predicate, Edge a, Edge b) {
    if (a == b) return a;
    const PartialShape shape = ShapeOf(a);
    if (ShapeOf(b) != shape) return std::nullopt;
    const Edge value = Append(
        MadeNode(name, context_.ops.Find("SelectV2"), "T", DTypeOf(a), {predicate, a, b}, shape),
        nodes_);
    return IsHarmless(nodes_.back()) ? std::optional(value) : std::nullopt;
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<Node> nodes_;                  // The new list.
  std::vector<std::vector<Edge>> moved_;     // In it, by node of the graph.
  std::vector<std::vector<Memory>> memory_;  // By node of the new list, by output.
  StateValues state_{nodes_};
  HashMap<Edge, DType> variables_;  // By handle: those that have a value, of this dtype.
  bool changed_ = false;
  // Of the If at hand, which has others in it:
  std::string name_;
  HashMap<Edge, Edge> before_;  // Handle -> value in front of it.
  double work_ = 0;
};

}  // namespace

bool PredicateBranches(Graph& graph, const PassContext& context) {
  BranchParameters parameters;
  for (DType dtype : graph.arg_dtypes) {
    parameters.memory.push_back(context.variables != nullptr ? Memory::kHost
                                                             : MemoryByDType(dtype));
  }
  if (context.variables != nullptr) parameters.variables = *context.variables;
  return Rewriter(graph, context).Run(parameters);
}

}  // namespace formwork
