// Makes one node of what the gates of a recurrent cell are made of: input and state times their
// weights, added with a bias, and cut into gates. One product of the sum of the depths needs no
// sum in memory, is large enough to be split over threads, and writes each gate where it belongs.

#include <optional>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/graph/passes/pipeline.h"
#include "core/kernels/gemm/panel_product.h"
#include "core/ops/default_attrs.h"
#include "core/ops/epilogue.h"

namespace formwork {
namespace {

// Fewer rows are bound by reading the weights.
constexpr int64_t kFewestRows = 4;
// A product, its sum with another one, and that with a bias.
constexpr int kMostNested = 2;

class GateFusion {
 public:
  GateFusion(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph.nodes.size(), 0) {
    for (const Node& node : graph.nodes) {
      for (const Edge& edge : node.inputs) ++uses_[edge.node];
    }
    for (const Edge& result : graph.results) ++uses_[result.node];
  }

  void Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return;
      Node& node = graph_.nodes[i];
      if (node.kind != NodeKind::kOp) continue;
      if (node.op->name == "Split") {
        // What it cuts may have become a sum in one part before.
        const int32_t cut = node.inputs[1].node;
        if (!CutsColumns(node) || uses_[cut] != 1) continue;
        if (std::optional<Gates> gates = Match(cut))
          Replace(node, *gates, node.output_dtypes.size());
      } else if (std::optional<Gates> gates = Match(static_cast<int32_t>(i))) {
        if (gates->b.size() == 2) Replace(node, *gates, 1);
      }
    }
  }

 private:
  struct Gates {
    std::vector<Edge> a, b;  // By product.
    Edge bias = {-1, 0};
  };

  bool Is(int32_t i, absl::string_view op) const {
    const Node& node = graph_.nodes[i];
    return node.kind == NodeKind::kOp && node.op->name == op;
  }

  // By weights of known shape; how many rows may be for the call to tell.
  bool IsProduct(int32_t i) const {
    const Node& node = graph_.nodes[i];
    if (!Is(i, "MatMul") || !ByWeights(*node.attrs) ||
        graph_.dtype(node.inputs[0]) != DType::kFloat) {
      return false;
    }
    const PartialShape& a = graph_.shape(node.inputs[0]);
    const std::optional<Shape> b = graph_.shape(node.inputs[1]).ToShape();
    if (!a.known_rank() || a.rank() != 2 || !b || b->rank() != 2 || b->num_elements() == 0) {
      return false;
    }
    return a.dim(0) < 0 || a.dim(0) >= kFewestRows;
  }

  // One product with a bias, or two.
  std::optional<Gates> Match(int32_t i) const {
    const Node& node = graph_.nodes[i];
    if (Is(i, "_GateMatMul")) {
      if (node.output_dtypes.size() != 1) return std::nullopt;
      const std::vector<Edge>& inputs = node.inputs;
      const auto half = static_cast<std::ptrdiff_t>(inputs.size() / 2);
      return Gates{{inputs.begin(), inputs.begin() + half},
                   {inputs.begin() + half, inputs.end() - 1},
                   inputs.back()};
    }
    Gates gates;
    if (!AddTerm({i, 0}, kMostNested, gates) || gates.b.empty() || gates.bias.node < 0) {
      return std::nullopt;
    }
    const int64_t columns = Columns(gates.b[0]);
    const std::optional<Shape> bias = graph_.shape(gates.bias).ToShape();
    if (!bias || bias->rank() != 1 || bias->num_elements() != columns) return std::nullopt;
    for (const Edge& b : gates.b) {
      if (Columns(b) != columns) return std::nullopt;
    }
    return gates;
  }
  int64_t Columns(Edge b) const { return graph_.shape(b).dim(1); }

  // Adds to `gates` what the edge is the sum of: at most two products and a bias. Where rows are
  // known FuseEpilogues has made one node of it.
  bool AddTerm(Edge edge, int nested, Gates& gates) const {
    const int32_t i = edge.node;
    const Node& node = graph_.nodes[i];
    if (IsProduct(i)) return AddProduct(node, nested, gates);
    const bool bias_add = Is(i, "BiasAdd");
    if ((!bias_add && !Is(i, "AddV2")) || graph_.dtype(edge) != DType::kFloat) return false;
    if (bias_add && node.attrs->GetOr<std::string>("data_format", "NHWC") != "NHWC") return false;
    return AddRead(node.inputs[0], nested, gates) && AddRead(node.inputs[1], nested, gates);
  }
  // What a node of the sum reads: nobody else does.
  bool AddRead(Edge edge, int nested, Gates& gates) const {
    if (gates.bias.node < 0 && graph_.shape(edge).known_rank() && graph_.shape(edge).rank() == 1) {
      gates.bias = edge;
      return true;
    }
    return nested > 0 && uses_[edge.node] == 1 && AddTerm(edge, nested - 1, gates);
  }
  bool AddProduct(const Node& node, int nested, Gates& gates) const {
    const absl::StatusOr<Epilogue> epilogue = Epilogue::FromAttrs(*node.attrs, node.inputs.size());
    if (!epilogue.ok() || epilogue->scale || epilogue->activation != Activation::kNone ||
        gates.a.size() == 2) {
      return false;
    }
    gates.a.push_back(node.inputs[0]);
    gates.b.push_back(node.inputs[1]);
    for (size_t k = 2; k < node.inputs.size(); ++k) {
      if (!AddRead(node.inputs[k], nested, gates)) return false;
    }
    return true;
  }

  // Along the last dimension of a matrix, into whole panels.
  bool CutsColumns(const Node& split) const {
    const Node& axis = graph_.nodes[split.inputs[0].node];
    const PartialShape& part = split.output_shapes[0];
    if (axis.kind != NodeKind::kConstant || axis.constant.num_elements() != 1 ||
        !part.known_rank() || part.rank() != 2) {
      return false;
    }
    const int32_t at = axis.constant.data<int32_t>()[0];
    return (at == 1 || at == -1) && part.dim(1) > 0 && part.dim(1) % kPanelColumns == 0;
  }

  // In the place of the last node, whose outputs it has; the others are left for Prune.
  void Replace(Node& node, const Gates& gates, size_t parts) const {
    node.op = context_.ops.Find("_GateMatMul");
    auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*node.op));
    attrs->Set("T", DType::kFloat);
    attrs->Set("N", static_cast<int64_t>(gates.a.size()));
    attrs->Set("num_parts", static_cast<int64_t>(parts));
    node.attrs = std::move(attrs);
    node.inputs = gates.a;
    node.inputs.insert(node.inputs.end(), gates.b.begin(), gates.b.end());
    node.inputs.push_back(gates.bias);
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<int32_t> uses_;  // Reads of a node's outputs, the graph's results among them.
};

}  // namespace

void FuseGates(Graph& graph, const PassContext& context) {
  for (Node& node : graph.nodes) {
    for (Graph& body : node.bodies) FuseGates(body, context);
  }
  GateFusion(graph, context).Run();
}

}  // namespace formwork
