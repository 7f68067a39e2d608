// Makes one node of a layer normalisation over the last dimension, as Keras and
// tf.nn.batch_normalization write it: of mean, squared difference, variance, reciprocal root, scale
// and offset.

#include <optional>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/graph/passes/pipeline.h"
#include "core/ops/default_attrs.h"

namespace formwork {
namespace {

class LayerNormFusion {
 public:
  LayerNormFusion(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph.nodes.size(), 0) {
    for (const Node& node : graph.nodes) {
      for (const Edge& edge : node.inputs) ++uses_[edge.node];
    }
    for (const Edge& result : graph.results) uses_[result.node] += 3;  // More than any part's.
  }

  void Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return;
      if (std::optional<LayerNorm> found = Match(static_cast<int32_t>(i))) {
        Replace(graph_.nodes[i], *found);
      }
    }
  }

 private:
  struct LayerNorm {
    Edge x, scale, offset;
    float epsilon;
  };

  bool Is(Edge edge, absl::string_view op, int32_t uses) const {
    const Node& node = graph_.nodes[edge.node];
    return node.kind == NodeKind::kOp && node.op->name == op && uses_[edge.node] == uses;
  }
  const std::vector<Edge>& Inputs(Edge edge) const { return graph_.nodes[edge.node].inputs; }

  // y = x * inverse + (offset - mean * inverse), where inverse = rsqrt(variance + epsilon) * scale.
  std::optional<LayerNorm> Match(int32_t i) const {
    const Node& node = graph_.nodes[i];
    if (node.kind != NodeKind::kOp || node.op->name != "AddV2" ||
        node.output_dtypes[0] != DType::kFloat || !node.output_shapes[0].known_rank()) {
      return std::nullopt;
    }
    for (int k = 0; k < 2; ++k) {
      const Edge product = node.inputs[k];
      if (!Is(product, "Mul", 1)) continue;
      for (int j = 0; j < 2; ++j) {
        const Edge x = Inputs(product)[j];
        const Edge inverse = Inputs(product)[1 - j];
        const std::optional<LayerNorm> found = MatchRest(x, inverse, node.inputs[1 - k]);
        if (found.has_value() && graph_.shape(x) == node.output_shapes[0]) return found;
      }
    }
    return std::nullopt;
  }

  std::optional<LayerNorm> MatchRest(Edge x, Edge inverse, Edge rest) const {
    if (!Is(inverse, "Mul", 2)) return std::nullopt;
    // The rest first, because it tells which the mean is.
    Edge offset, mean;
    if (Is(rest, "Sub", 1)) {  // offset - mean * inverse
      const std::optional<Edge> factor = OtherFactor(Inputs(rest)[1], inverse);
      if (!factor) return std::nullopt;
      offset = Inputs(rest)[0];
      mean = *factor;
    } else if (Is(rest, "AddV2", 1)) {  // -mean * inverse + offset
      const int at = OtherFactor(Inputs(rest)[0], inverse).has_value() ? 0 : 1;
      const std::optional<Edge> negative = OtherFactor(Inputs(rest)[at], inverse);
      if (!negative || !Is(*negative, "Neg", 1)) return std::nullopt;
      offset = Inputs(rest)[1 - at];
      mean = Inputs(*negative)[0];
    } else {
      return std::nullopt;
    }
    if (!IsMeanOf(mean, x, 2)) return std::nullopt;
    for (int k = 0; k < 2; ++k) {
      const Edge root = Inputs(inverse)[k];
      const Edge scale = Inputs(inverse)[1 - k];
      if (!Is(root, "Rsqrt", 1) || !Is(Inputs(root)[0], "AddV2", 1)) continue;
      const std::vector<Edge>& sum = Inputs(Inputs(root)[0]);
      for (int j = 0; j < 2; ++j) {
        const std::optional<float> epsilon = Scalar(sum[1 - j]);
        if (epsilon && IsVarianceOf(sum[j], x, mean) && IsRow(scale, x) && IsRow(offset, x)) {
          return LayerNorm{x, scale, offset, *epsilon};
        }
      }
    }
    return std::nullopt;
  }

  std::optional<Edge> OtherFactor(Edge product, Edge factor) const {
    if (!Is(product, "Mul", 1)) return std::nullopt;
    const std::vector<Edge>& inputs = Inputs(product);
    if (inputs[0] == factor) return inputs[1];
    if (inputs[1] == factor) return inputs[0];
    return std::nullopt;
  }

  // Over the last dimension, which is kept.
  bool IsMeanOf(Edge mean, Edge x, int32_t uses) const {
    if (!Is(mean, "Mean", uses) || Inputs(mean)[0] != x) return false;
    if (!graph_.shape(x).known_rank()) return false;
    const Node& axes = graph_.nodes[Inputs(mean)[1].node];
    if (axes.kind != NodeKind::kConstant || axes.constant.num_elements() != 1 ||
        !graph_.nodes[mean.node].attrs->GetOr("keep_dims", false)) {
      return false;
    }
    const int64_t axis = axes.constant.dtype() == DType::kInt32
                             ? int64_t{axes.constant.data<int32_t>()[0]}
                             : axes.constant.data<int64_t>()[0];
    return axis == -1 || axis == graph_.shape(x).rank() - 1;
  }

  bool IsVarianceOf(Edge variance, Edge x, Edge mean) const {
    if (!Is(variance, "Mean", 1) || !Is(Inputs(variance)[0], "SquaredDifference", 1)) return false;
    const Edge squares = Inputs(variance)[0];
    const std::vector<Edge>& of = Inputs(squares);
    const bool of_both = (of[0] == x && of[1] == mean) || (of[0] == mean && of[1] == x);
    return of_both && IsMeanOf(variance, squares, 1);
  }

  std::optional<float> Scalar(Edge edge) const {
    const Node& node = graph_.nodes[edge.node];
    if (node.kind != NodeKind::kConstant || node.constant.dtype() != DType::kFloat ||
        node.constant.num_elements() != 1 || node.constant.rank() != 0) {
      return std::nullopt;
    }
    return node.constant.data<float>()[0];
  }

  // Whether it has an element for each of the last dimension's of x, along it.
  bool IsRow(Edge row, Edge x) const {
    const std::optional<Shape> shape = graph_.shape(row).ToShape();
    const PartialShape& of = graph_.shape(x);
    return shape && graph_.dtype(row) == DType::kFloat && shape->rank() >= 1 &&
           shape->rank() <= of.rank() && shape->num_elements() == of.dim(of.rank() - 1) &&
           shape->dim(shape->rank() - 1) == shape->num_elements();
  }

  // In the place of the last node; the others are left for Prune.
  void Replace(Node& node, const LayerNorm& found) const {
    node.op = context_.ops.Find("_MklLayerNorm");
    auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*node.op));
    attrs->Set("T", DType::kFloat);
    attrs->Set("epsilon", found.epsilon);
    node.attrs = std::move(attrs);
    node.inputs = {found.x, found.scale, found.offset};
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<int32_t> uses_;  // Reads of a node's outputs; results count 3.
};

}  // namespace

void FuseLayerNorms(Graph& graph, const PassContext& context) {
  for (Node& node : graph.nodes) {
    for (Graph& body : node.bodies) FuseLayerNorms(body, context);
  }
  LayerNormFusion(graph, context).Run();
}

}  // namespace formwork
