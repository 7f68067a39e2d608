// Nodes between elementwise ones that keep these from being one step: gradients of means, which are
// copied to the shape of what the mean is of (Tile), and sums of gradients (AddN).

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "core/base/stop_flag.h"
#include "core/graph/element_nodes.h"
#include "core/graph/passes/made_nodes.h"
#include "core/graph/passes/pipeline.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// A sum of more terms is better one step that goes over them all.
constexpr size_t kMostTerms = 4;
// A GPU's kernels broadcast to so many elements and dimensions, and copy to more.
constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();
constexpr int kMostDims = 8;

// One forward walk that builds the new list of a graph's nodes; not of the bodies of its nodes.
class ElementJoiner {
 public:
  ElementJoiner(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    std::vector<int32_t> place;
    place.reserve(graph_.nodes.size());
    nodes_.reserve(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return;
      Node& node = graph_.nodes[i];
      for (Edge& edge : node.inputs) edge.node = place[edge.node];
      if (IsSumOfFew(node)) AddUp(node);
      if (AddsBias(node)) node = Sum(node, node.inputs[0], node.inputs[1]);
      Loosen(node);
      place.push_back(Append(std::move(node), nodes_).node);
    }
    for (int32_t& arg : graph_.args) arg = place[arg];
    for (Edge& result : graph_.results) result.node = place[result.node];
    graph_.nodes = std::move(nodes_);
  }

 private:
  std::optional<Shape> ShapeOf(Edge edge) const {
    const std::vector<PartialShape>& shapes = nodes_[edge.node].output_shapes;
    return shapes.empty() ? std::nullopt : shapes[edge.index].ToShape();
  }

  // Terms whose shapes are not known may be wrong, and would broadcast. On a device integers may be
  // what the host decides by, which has no groups; on the CPU terms that are no elements may be
  // lanes (plan/lanes.h), which a node that reads them all has side by side.
  bool IsSumOfFew(const Node& node) const {
    if (node.kind != NodeKind::kOp || node.op->name != "AddN" || node.inputs.size() < 2 ||
        node.inputs.size() > kMostTerms) {
      return false;
    }
    const DType dtype = node.output_dtypes[0];
    const std::optional<Shape> shape = ShapeOf(node.inputs[0]);
    if (!shape || FindBlockOp("AddV2", {dtype, dtype}, dtype) == nullptr ||
        !absl::c_all_of(node.inputs, [&](Edge term) { return ShapeOf(term) == shape; })) {
      return false;
    }
    if (context_.device_kernels != nullptr) return IsFloating(dtype);
    return node.inputs.size() == 2 ||
           absl::c_count_if(node.inputs, [&](Edge term) {
             const Node& of = nodes_[term.node];
             return TableOp(nodes_, of) == nullptr && CopiedInput(of) < 0;
           }) < 2;
  }

  // Whether it is a sum with biases that broadcast, on a device. On the CPU what makes the other
  // term adds them, or a kernel that does nothing else.
  bool AddsBias(const Node& node) const {
    if (context_.device_kernels == nullptr || node.kind != NodeKind::kOp ||
        node.op->name != "BiasAdd" || !IsFloating(node.output_dtypes[0]) ||
        node.attrs->GetOr<std::string>("data_format", "NHWC") != "NHWC") {
      return false;
    }
    const std::optional<Shape> value = ShapeOf(node.inputs[0]), biases = ShapeOf(node.inputs[1]);
    return value && biases && value->rank() > 1 && biases->rank() == 1 &&
           biases->dim(0) == value->dim(value->rank() - 1);
  }

  // In the place of a sum, of which a has the shape.
  Node Sum(const Node& of, Edge a, Edge b) const {
    Node sum = MadeNode(of.name, context_.ops.Find("AddV2"), "T", of.output_dtypes[0], {a, b},
                        *ShapeOf(a));
    sum.wants_host = of.wants_host;
    return sum;
  }
  // Makes an AddN the last of the sums of two that its kernel makes, in its order.
  void AddUp(Node& node) {
    const std::vector<Edge> terms = node.inputs;
    Edge sum = terms[0];
    for (size_t k = 1; k + 1 < terms.size(); ++k) {
      Node next = Sum(node, sum, terms[k]);
      Loosen(next);
      sum = Append(std::move(next), nodes_);
    }
    node = Sum(node, sum, terms.back());
  }

  // Whether its operands broadcast.
  bool Broadcasts(const Node& node) const {
    return FusableOp(nodes_, node) != nullptr && !absl::EndsWith(node.op->name, "Grad") &&
           node.op->name != "ClipByValue" && node.op->name != "Betainc";
  }

  // Which input of the node is copied to its shape, as where it is an operand that broadcasts;
  // -1: none.
  int CopiedInput(const Node& node) const {
    if (node.kind != NodeKind::kOp || node.output_shapes.empty()) return -1;
    const bool fill = node.op->name == "Fill";
    if (!fill && node.op->name != "Tile" && node.op->name != "BroadcastTo") return -1;
    const int input = fill ? 1 : 0;
    const std::optional<Shape> from = ShapeOf(node.inputs[input]);
    const std::optional<Shape> to = node.output_shapes[0].ToShape();
    if (!from || !to) return -1;
    // A Tile of a dimension that is not 1 repeats it.
    const std::optional<Dims> both = BroadcastDims(from->dims(), to->dims());
    return both && Shape::Trusted(*both) == *to ? input : -1;
  }

  // Lets an elementwise node read what is copied to its shape as it is before. Where no other
  // operand has that shape, its result is what is copied, for those who read it.
  void Loosen(Node& node) {
    if (!Broadcasts(node)) return;
    const std::optional<Shape> full = node.output_shapes[0].ToShape();
    if (!full) return;
    std::vector<Edge> inputs = node.inputs;
    absl::InlinedVector<int, 3> copied(inputs.size(), -1);  // Of the node behind each.
    Dims dims;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Node& from = nodes_[inputs[k].node];
      copied[k] = CopiedInput(from);
      if (copied[k] >= 0) inputs[k] = from.inputs[copied[k]];
      const std::optional<Shape> shape = ShapeOf(inputs[k]);
      std::optional<Dims> both = shape ? BroadcastDims(dims, shape->dims()) : std::nullopt;
      if (!both) return;
      dims = *std::move(both);
    }
    if (inputs == node.inputs) return;
    const Shape shape = Shape::Trusted(dims);
    if (shape == *full) {
      const bool may = full->num_elements() <= kMostElements && full->rank() <= kMostDims;
      if (may) node.inputs = std::move(inputs);
      return;
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (copied[k] < 0 || ShapeOf(inputs[k]) != shape || ShapeOf(node.inputs[k]) != full) continue;
      Node copy = nodes_[node.inputs[k].node];
      copy.name = node.name;
      copy.output_dtypes = node.output_dtypes;
      copy.output_shapes = node.output_shapes;
      auto attrs = std::make_shared<AttrMap>(*copy.attrs);
      attrs->Set("T", copy.output_dtypes[0]);
      copy.attrs = std::move(attrs);
      node.inputs = std::move(inputs);
      node.output_shapes = {shape};
      copy.inputs[copied[k]] = Made(std::move(node));
      node = std::move(copy);
      return;
    }
  }

  Edge Made(Node node) {
    if (std::optional<std::vector<Tensor>> values = FoldedValues(nodes_, node, context_)) {
      node = MadeConstant(node.name, std::move(values->front()), context_.ops);
    }
    return Append(std::move(node), nodes_);
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<Node> nodes_;  // The graph's as they become.
};

}  // namespace

void JoinElements(Graph& graph, const PassContext& context) {
  for (Node& node : graph.nodes) {
    for (Graph& body : node.bodies) JoinElements(body, context);
  }
  ElementJoiner(graph, context).Run();
}

}  // namespace formwork
