#include <optional>
#include <utility>
#include <vector>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/graph/passes/expand_update.h"
#include "core/graph/passes/known_elements.h"
#include "core/graph/passes/made_nodes.h"
#include "core/graph/passes/node_key.h"
#include "core/graph/passes/pipeline.h"
#include "core/graph/passes/rewrite_math.h"
#include "core/graph/passes/rewrite_shapes.h"
#include "core/graph/passes/state_values.h"
#include "core/ops/control_flow.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// A larger constant is not a constant of the bodies that it goes into.
constexpr size_t kLargestIntoBody = size_t{1} << 16;
// How often a loop's body is simplified until its variables' shapes hold.
constexpr int kMostAttempts = 4;

// What is known of a body's parameters.
struct Parameters {
  std::vector<PartialShape> shapes;
  std::vector<PartialShape> items;    // Of lists. Empty: none is known.
  std::vector<const Tensor*> values;  // Null where unknown. Empty: none is known.
  std::vector<KnownVariable> variables;
};

// One forward walk that builds the new list of a body's nodes; bodies of control flow have walks of
// their own.
class Simplifier {
 public:
  explicit Simplifier(const PassContext& context) : context_(context) {}

  absl::Status Run(Graph& graph, const Parameters& parameters) {
    Body body(graph);
    nodes_.reserve(graph.nodes.size());
    std::vector<int32_t> args(graph.args.size());
    for (size_t i = 0; i < graph.args.size(); ++i) {
      args[i] = static_cast<int32_t>(nodes_.size());
      Node& arg = graph.nodes[graph.args[i]];
      arg.output_shapes = {parameters.shapes[i]};
      made_items_.clear();
      if (!parameters.items.empty()) made_items_.emplace_back(0, parameters.items[i]);
      Keep(body, graph.args[i]);
      if (!parameters.values.empty() && parameters.values[i] != nullptr) {
        body.moved[graph.args[i]] = {AddConstant(nodes_.back().name, *parameters.values[i])};
      }
    }
    for (const KnownVariable& variable : parameters.variables) {
      state_.Set(body.moved[graph.args[variable.handle]][0],
                 body.moved[graph.args[variable.value]][0]);
    }
    FORMWORK_RETURN_IF_ERROR(Walk(body));
    graph.args = std::move(args);
    for (Edge& result : graph.results) result = body.moved[result.node][result.index];
    graph.nodes = std::move(nodes_);
    return absl::OkStatus();
  }

  // After Run: what is known of the items of a list among its nodes.
  PartialShape ItemsOf(Edge edge) const {
    const auto found = items_.find(edge);
    return found == items_.end() ? PartialShape() : found->second;
  }

 private:
  // The nodes of one body, and where each of their outputs is in the new list.
  struct Body {
    explicit Body(Graph& graph)
        : graph(graph), moved(graph.nodes.size()), uses(graph.nodes.size()) {
      for (const Node& node : graph.nodes) {
        for (const Edge& edge : node.inputs) ++uses[edge.node];
      }
      for (const Edge& result : graph.results) ++uses[result.node];
    }
    Graph& graph;
    std::vector<std::vector<Edge>> moved;
    std::vector<int32_t> uses;  // By node, as the body came.
  };

  // All but the parameters, which have been moved.
  absl::Status Walk(Body& body) {
    for (size_t i = 0; i < body.graph.nodes.size(); ++i) {
      if (WorkIsCut()) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(Visit(body, static_cast<int32_t>(i)));
    }
    return absl::OkStatus();
  }

  absl::Status Visit(Body& body, int32_t i) {
    std::vector<std::vector<Edge>>& moved = body.moved;
    Node& node = body.graph.nodes[i];
    if (node.kind == NodeKind::kArg) return absl::OkStatus();
    if (node.kind == NodeKind::kConstant) {
      moved[i] = {AddConstant(node.name, std::move(node.constant))};
      return absl::OkStatus();
    }
    const bool is_sole_use = !node.inputs.empty() && body.uses[node.inputs[0].node] == 1;
    for (Edge& edge : node.inputs) edge = moved[edge.node][edge.index];
    if (node.op->forwards_inputs && node.inputs.size() == node.output_dtypes.size()) {
      moved[i].assign(node.inputs.begin(), node.inputs.end());
      return absl::OkStatus();
    }
    FORMWORK_RETURN_IF_ERROR(InferShapes(node));
    if (!node.bodies.empty()) return VisitControlFlow(body, i);
    if (node.op->effect == Effect::kNone && !HasResource(node)) {
      if (Fold(node, moved[i]) || FoldElements(node, moved[i])) return absl::OkStatus();
      ReadUnshaped(node, nodes_);
      if (const std::optional<Edge> same = SameAsInput(node, nodes_)) {
        moved[i] = {*same};
        return absl::OkStatus();
      }
      RewriteMath(node, is_sole_use, nodes_, context_.ops);
      auto [found, inserted] = known_.try_emplace(NodeKey(node), nodes_.size());
      if (!inserted) {
        for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
          moved[i].push_back({static_cast<int32_t>(found->second), static_cast<int32_t>(k)});
        }
        return absl::OkStatus();
      }
    }
    if (std::optional<Edge> value = state_.Known(node)) {
      moved[i] = {*value};
      return absl::OkStatus();
    }
    ExpandUpdate(node, nodes_, state_, context_.ops, FewestExpanded());
    Keep(body, i);
    state_.Note(nodes_.back(), static_cast<int32_t>(nodes_.size()) - 1);
    return absl::OkStatus();
  }

  // On the CPU updating a small variable takes about as long as looking at it; on a device each
  // step is a launch.
  int64_t FewestExpanded() const {
    const KernelRegistry* const device = context_.device_kernels;
    return device != nullptr && device->groups() != nullptr ? 1 : 256;
  }

  absl::Status VisitControlFlow(Body& body, int32_t i) {
    Node& node = body.graph.nodes[i];
    std::vector<Edge>& moved = body.moved[i];
    if (node.op->control_flow == ControlFlow::kWhile) {
      const std::vector<KnownVariable> variables = GiveValues(node, nodes_, state_);
      FORMWORK_ASSIGN_OR_RETURN(const std::vector<bool> kept, SimplifyLoop(node, variables));
      const std::vector<Edge> inputs = node.inputs;
      Keep(body, i);
      for (size_t k = 0; k < kept.size(); ++k) {
        if (kept[k]) moved[k] = inputs[k];
      }
    } else {
      if (const Tensor* selector = ConstantOf(node.inputs[0])) {
        absl::StatusOr<size_t> branch =
            ChooseBranch(node.op->control_flow, *selector, node.bodies.size());
        if (branch.ok()) return Splice(node, node.bodies[*branch], moved);
      }
      const std::vector<KnownVariable> variables = GiveValues(node, nodes_, state_);
      FORMWORK_RETURN_IF_ERROR(SimplifyBranches(node, variables));
      Keep(body, i);
    }
    state_.Note(nodes_.back(), static_cast<int32_t>(nodes_.size()) - 1);
    return absl::OkStatus();
  }

  // Puts the one branch that is ever taken in the place of the whole.
  absl::Status Splice(const Node& node, Graph& branch, std::vector<Edge>& moved) {
    Body inner(branch);
    const size_t own = node.op->inputs_before_functions();
    for (size_t k = 0; k < branch.args.size(); ++k) {
      inner.moved[branch.args[k]] = {node.inputs[own + k]};
    }
    FORMWORK_RETURN_IF_ERROR(Walk(inner));
    for (const Edge& result : branch.results) {
      moved.push_back(inner.moved[result.node][result.index]);
    }
    return absl::OkStatus();
  }

  absl::Status SimplifyBranches(Node& node, const std::vector<KnownVariable>& variables) {
    const Parameters parameters = ParametersOf(node, variables);
    std::vector<PartialShape> common, items;
    for (Graph& branch : node.bodies) {
      Simplifier simplifier(context_);
      FORMWORK_RETURN_IF_ERROR(simplifier.Run(branch, parameters));
      const bool first = common.empty();
      for (size_t k = 0; k < branch.results.size(); ++k) {
        const PartialShape& shape = branch.shape(branch.results[k]);
        const PartialShape of_items = simplifier.ItemsOf(branch.results[k]);
        if (first) {
          common.push_back(shape);
          items.push_back(of_items);
        } else {
          common[k] = common[k].CommonSupertype(shape);
          items[k] = items[k].CommonSupertype(of_items);
        }
      }
    }
    SetMadeItems(items);
    for (size_t k = 0; k < common.size(); ++k) {
      node.output_shapes[k] = node.output_shapes[k].Merge(common[k]).value_or(common[k]);
    }
    return absl::OkStatus();
  }

  // Which of the loop's variables keep the value that they start with.
  absl::StatusOr<std::vector<bool>> SimplifyLoop(Node& node,
                                                 const std::vector<KnownVariable>& variables) {
    Graph& cond = node.bodies[0];
    Graph& body = node.bodies[1];
    const size_t n = node.inputs.size();
    Parameters parameters = ParametersOf(node, variables);
    // Tracing records the shapes that the variables have in each iteration.
    std::vector<PartialShape> recorded = std::move(node.output_shapes);
    recorded.resize(n);
    std::vector<bool> kept(n);
    for (size_t k = 0; k < n; ++k) {
      kept[k] = ResultIsParameter(body, k);
      if (!kept[k]) parameters.values[k] = nullptr;
    }
    // What the body makes of the shapes that it starts with may be more general: then it is
    // simplified anew, in the end with nothing known of the variables that it changes.
    for (int attempt = 1;; ++attempt) {
      const int64_t size = SizeOf(body);
      const bool last = attempt == kMostAttempts || size > context_.budget.inlined;
      if (last) {
        for (size_t k = 0; k < n; ++k) {
          if (kept[k]) continue;
          parameters.shapes[k] = recorded[k];
          parameters.items[k] = PartialShape();
        }
      } else {
        context_.budget.inlined -= size;
      }
      Graph trial = last ? std::move(body) : body;
      Simplifier simplifier(context_);
      FORMWORK_RETURN_IF_ERROR(simplifier.Run(trial, parameters));
      bool holds = true;
      for (size_t k = 0; k < n && !last; ++k) {
        if (kept[k]) continue;
        const PartialShape& shape = trial.shape(trial.results[k]);
        holds &= Generalize(shape.Merge(recorded[k]).value_or(shape), parameters.shapes[k]);
        holds &= Generalize(simplifier.ItemsOf(trial.results[k]), parameters.items[k]);
      }
      if (!holds) continue;
      body = std::move(trial);
      break;
    }
    for (size_t k = 0; k < n; ++k) {
      if (kept[k]) body.results[k] = {body.args[k], 0};
    }
    FORMWORK_RETURN_IF_ERROR(Simplifier(context_).Run(cond, parameters));
    node.output_shapes = std::move(parameters.shapes);
    SetMadeItems(parameters.items);
    return kept;
  }

  // Makes `known` what is true of `shape` too. Whether it was before.
  static bool Generalize(const PartialShape& shape, PartialShape& known) {
    if (shape.IsSubtypeOf(known)) return true;
    known = known.CommonSupertype(shape);
    return false;
  }

  // Whether result k is parameter k, passed on.
  static bool ResultIsParameter(const Graph& body, size_t k) {
    Edge edge = body.results[k];
    while (true) {
      const Node& node = body.nodes[edge.node];
      if (node.kind == NodeKind::kArg) return body.args[k] == edge.node;
      if (node.kind != NodeKind::kOp || !node.op->forwards_inputs ||
          node.inputs.size() != node.output_dtypes.size()) {
        return false;
      }
      edge = node.inputs[edge.index];
    }
  }

  // What the inputs of a node of control flow say of its functions' parameters.
  Parameters ParametersOf(const Node& node, const std::vector<KnownVariable>& variables) const {
    Parameters parameters;
    parameters.variables = variables;
    for (size_t k = node.op->inputs_before_functions(); k < node.inputs.size(); ++k) {
      const Edge edge = node.inputs[k];
      parameters.shapes.push_back(nodes_[edge.node].output_shapes[edge.index]);
      parameters.items.push_back(ItemsOf(edge));
      const Tensor* value = ConstantOf(edge);
      const bool small = value != nullptr && value->bytes() <= kLargestIntoBody;
      parameters.values.push_back(small ? value : nullptr);
    }
    return parameters;
  }

  void SetMadeItems(const std::vector<PartialShape>& items) {
    made_items_.clear();
    for (size_t k = 0; k < items.size(); ++k) made_items_.emplace_back(k, items[k]);
  }

  void Keep(Body& body, int32_t i) {
    for (auto& [k, items] : made_items_) {
      if (!items.known_rank()) continue;
      items_[{static_cast<int32_t>(nodes_.size()), static_cast<int32_t>(k)}] = std::move(items);
    }
    made_items_.clear();
    for (size_t k = 0; k < body.graph.nodes[i].output_dtypes.size(); ++k) {
      body.moved[i].push_back({static_cast<int32_t>(nodes_.size()), static_cast<int32_t>(k)});
    }
    nodes_.push_back(std::move(body.graph.nodes[i]));
  }

  Edge AddConstant(const std::string& name, Tensor value) {
    std::optional<std::string> key = ConstantKey(value);
    if (key) {
      auto [found, inserted] = known_.try_emplace(*key, nodes_.size());
      if (!inserted) return {static_cast<int32_t>(found->second), 0};
    }
    return Append(MadeConstant(name, std::move(value), context_.ops), nodes_);
  }

  bool HasResource(const Node& node) const {
    for (DType dtype : node.output_dtypes) {
      if (dtype == DType::kResource) return true;
    }
    return false;
  }

  const Tensor* ConstantOf(Edge edge) const {
    const Node& node = nodes_[edge.node];
    return node.kind == NodeKind::kConstant ? &node.constant : nullptr;
  }

  absl::Status InferShapes(Node& node) {
    const size_t n = node.output_dtypes.size();
    made_items_.clear();
    node.output_shapes.assign(n, PartialShape());
    if (node.op->shape_fn == nullptr) return absl::OkStatus();
    std::vector<PartialShape> shapes;
    std::vector<const Tensor*> constants;
    std::vector<DType> dtypes;
    for (const Edge& edge : node.inputs) {
      shapes.push_back(nodes_[edge.node].output_shapes[edge.index]);
      constants.push_back(ConstantOf(edge));
      dtypes.push_back(nodes_[edge.node].output_dtypes[edge.index]);
    }
    InferenceContext inference(*node.attrs, std::move(shapes), std::move(constants),
                               std::move(dtypes), static_cast<int>(n));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge edge = node.inputs[i];
      if (inference.input_dtype(static_cast<int>(i)) == DType::kVariant) {
        inference.set_items(static_cast<int>(i), ItemsOf(edge));
        continue;
      }
      if (ConstantOf(edge) != nullptr || inference.input(static_cast<int>(i)).rank() != 1) continue;
      if (auto elements = KnownElements(nodes_, nodes_[edge.node], edge.index)) {
        inference.set_elements(static_cast<int>(i), *std::move(elements));
      }
    }
    // A node that cannot work fails the call that runs it, not the whole graph: TensorFlow too
    // lets a branch that is never taken be wrong.
    if (!node.op->shape_fn(inference).ok()) return absl::OkStatus();
    for (size_t k = 0; k < n; ++k) node.output_shapes[k] = inference.outputs()[k];
    made_items_.assign(inference.output_items().begin(), inference.output_items().end());
    return absl::OkStatus();
  }

  // Replaces a node by constants where they are known now; `moved`: where its outputs are then.
  bool Fold(const Node& node, std::vector<Edge>& moved) {
    std::optional<std::vector<Tensor>> values = FoldedValues(nodes_, node, context_);
    if (!values) return false;
    for (Tensor& value : *values) moved.push_back(AddConstant(node.name, std::move(value)));
    return true;
  }

  // The same for a few integers that follow from dimensions which are known, of a shape that is not
  // known as a whole.
  bool FoldElements(const Node& node, std::vector<Edge>& moved) {
    if (node.output_dtypes.size() != 1 || node.inputs.empty()) return false;
    std::optional<Tensor> value = KnownValue(nodes_, node, context_.allocator);
    if (value) moved.push_back(AddConstant(node.name, *std::move(value)));
    return value.has_value();
  }

  const PassContext& context_;
  std::vector<Node> nodes_;
  HashMap<std::string, size_t> known_;
  HashMap<Edge, PartialShape> items_;                        // Of lists, where their rank is known.
  std::vector<std::pair<size_t, PartialShape>> made_items_;  // Of the outputs of the node at hand.
  StateValues state_{nodes_};
};

}  // namespace

absl::Status Simplify(Graph& graph, const std::vector<PartialShape>& arg_shapes,
                      const PassContext& context) {
  return Simplifier(context).Run(graph, {arg_shapes, {}, {}, {}});
}

}  // namespace formwork
