// Makes one node of attention: a softmax between two products of stacks of matrices, as Einsum and
// BatchMatMul write it, with what scales and masks the scores, and with transposed operands, which
// are then read where they lie.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/stop_flag.h"
#include "core/graph/passes/pipeline.h"
#include "core/ops/attention.h"
#include "core/ops/default_attrs.h"
#include "core/ops/einsum.h"
#include "core/tensor/small_float.h"

namespace formwork {
namespace {

class AttentionFusion {
 public:
  AttentionFusion(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph.nodes.size(), 0) {
    for (const Node& node : graph.nodes) {
      for (const Edge& edge : node.inputs) ++uses_[edge.node];
    }
    for (const Edge& result : graph.results) uses_[result.node] += 2;  // More than a part's.
  }

  void Run() {
    // From the end, because a Transpose of the result comes behind it.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return;
      if (std::optional<Attention> found = Match(static_cast<int32_t>(i))) {
        Replace(graph_.nodes[i], *found);
      }
    }
  }

 private:
  using Labels = std::vector<int>;

  // A product of two operands, by a label for each of their dimensions.
  struct Product {
    Edge x, y;
    Labels of_x = {}, of_y = {}, of_output = {};
    bool broadcast = false;
  };
  // What lies between two products.
  struct Scores {
    Edge product;
    std::optional<Edge> mask;
    float scale = 1;
    float hidden = 0;  // What stands for those that a mask of bools hides.
  };
  struct Attention {
    Edge q, k, v;
    Scores scores;
    std::string equation = {};
    bool broadcast = false;
  };

  const Node& At(Edge edge) const { return graph_.nodes[edge.node]; }
  static bool IsOp(const Node& node, absl::string_view op) {
    return node.kind == NodeKind::kOp && node.op->name == op;
  }
  // Of an op that this reader alone has.
  bool IsOwn(Edge edge, absl::string_view op) const {
    return IsOp(At(edge), op) && uses_[edge.node] == 1;
  }

  std::optional<Attention> Match(int32_t i) const {
    Labels arranged;  // The output's, where what is transposed is the product.
    Edge end = {i, 0};
    if (IsOp(At(end), "Transpose")) {
      const std::optional<Dims> order = OrderOf(At(end));
      if (!order || uses_[At(end).inputs[0].node] != 1) return std::nullopt;
      end = At(end).inputs[0];
      for (int64_t d : *order) arranged.push_back(static_cast<int>(d));
    }
    const std::optional<Product> outer = ProductAt(end);
    if (!outer) return std::nullopt;
    for (const bool first : {true, false}) {
      const Edge weights = first ? outer->x : outer->y;
      if (!IsOwn(weights, "Softmax")) continue;
      const std::optional<Scores> scores = ScoresAt(At(weights).inputs[0]);
      if (!scores) continue;
      const std::optional<Product> inner = ProductAt(scores->product);
      if (!inner) continue;
      Labels output = outer->of_output;
      if (!arranged.empty()) {
        for (size_t d = 0; d < arranged.size(); ++d) output[d] = outer->of_output[arranged[d]];
      }
      if (std::optional<Attention> found = Joined(*inner, *scores, *outer, first, output)) {
        return found;
      }
    }
    return std::nullopt;
  }

  std::optional<float> Scalar(Edge edge) const {
    const Node& node = At(edge);
    if (node.kind != NodeKind::kConstant || node.constant.num_elements() != 1 ||
        node.constant.rank() != 0) {
      return std::nullopt;
    }
    switch (node.constant.dtype()) {
      case DType::kFloat:
        return node.constant.data<float>()[0];
      case DType::kHalf:
        return static_cast<float>(node.constant.data<half>()[0]);
      case DType::kBfloat16:
        return static_cast<float>(node.constant.data<bfloat16>()[0]);
      default:
        return std::nullopt;
    }
  }

  // What all elements of the other operand are multiplied by.
  std::optional<float> Factor(const Node& node, int operand) const {
    const bool divides = IsOp(node, "RealDiv");
    if (!divides && !IsOp(node, "Mul")) return std::nullopt;
    if (divides && operand == 0) return std::nullopt;
    const std::optional<float> by = Scalar(node.inputs[operand]);
    return by && divides ? 1 / *by : by;
  }

  // Behind what scales `at` and belongs to this reader alone.
  Edge Unscaled(Edge at, float& scale) const {
    while (uses_[at.node] == 1) {
      std::optional<float> factor;
      int other = 0;
      for (int operand = 0; operand < 2 && !factor && At(at).inputs.size() == 2; ++operand) {
        factor = Factor(At(at), operand);
        other = 1 - operand;
      }
      if (!factor) break;
      scale *= *factor;
      at = At(at).inputs[other];
    }
    return at;
  }

  std::optional<Scores> ScoresAt(Edge at) const {
    const std::vector<Edge>& inputs = At(at).inputs;
    if (IsOwn(at, "SelectV2")) {
      const std::optional<float> hidden = Scalar(inputs[2]);
      return hidden ? Masked(inputs[1], inputs[0], *hidden) : std::nullopt;
    }
    if (IsOwn(at, "AddV2")) {
      std::optional<Scores> scores = Masked(inputs[0], inputs[1], 0);
      return scores ? scores : Masked(inputs[1], inputs[0], 0);
    }
    return Masked(at, std::nullopt, 0);
  }
  std::optional<Scores> Masked(Edge at, std::optional<Edge> mask, float hidden) const {
    Scores scores = {.product = {}, .mask = mask, .scale = 1, .hidden = hidden};
    scores.product = Unscaled(at, scores.scale);
    if (uses_[scores.product.node] != 1 || !ProductAt(scores.product)) return std::nullopt;
    if (mask && !Fits(*mask, scores.product)) return std::nullopt;
    return scores;
  }

  // Whether what it is applied to keeps the shape of the scores, as far as that is known.
  bool Fits(Edge mask, Edge scores) const {
    const PartialShape &small = graph_.shape(mask), &large = graph_.shape(scores);
    if (!small.known_rank() || !large.known_rank() || small.rank() > large.rank()) return false;
    for (int d = 1; d <= small.rank(); ++d) {
      const int64_t one = small.dim(small.rank() - d), all = large.dim(large.rank() - d);
      if (one != 1 && one != all) return false;
    }
    return true;
  }

  std::optional<Product> ProductAt(Edge edge) const {
    const Node& node = At(edge);
    const bool einsum = IsOp(node, "Einsum"), broadcast = IsOp(node, "BatchMatMulV2");
    if (!einsum && !broadcast && !IsOp(node, "BatchMatMul")) return std::nullopt;
    if (node.inputs.size() != 2) return std::nullopt;
    Product product = {.x = node.inputs[0], .y = node.inputs[1]};
    const PartialShape &x = graph_.shape(product.x), &y = graph_.shape(product.y);
    if (!x.known_rank() || !y.known_rank()) return std::nullopt;
    if (einsum) {
      absl::StatusOr<EinsumEquation> equation = EinsumEquation::FromAttrs(*node.attrs, 2);
      if (!equation.ok() || !ExpandEllipses(*equation, {x.rank(), y.rank()}).ok()) {
        return std::nullopt;
      }
      product.of_x = std::move(equation->inputs[0]);
      product.of_y = std::move(equation->inputs[1]);
      product.of_output = std::move(equation->output);
      product.broadcast = std::any_of(product.of_output.begin(), product.of_output.end(),
                                      [](int label) { return IsBroadcastLabel(label); });
      return product;
    }
    if (x.rank() != y.rank()) return std::nullopt;
    enum { kRow = -1, kInner = -2, kColumn = -3 };
    for (int d = 0; d + 2 < x.rank(); ++d) product.of_x.push_back(d);
    product.of_y = product.of_output = product.of_x;
    for (Labels* labels : {&product.of_x, &product.of_y, &product.of_output}) {
      labels->push_back(labels == &product.of_y ? kInner : kRow);
      labels->push_back(labels == &product.of_x ? kInner : kColumn);
    }
    if (node.attrs->GetOr("adj_x", false)) SwapLast(product.of_x);
    if (node.attrs->GetOr("adj_y", false)) SwapLast(product.of_y);
    product.broadcast = broadcast;
    return product;
  }
  static void SwapLast(Labels& labels) { std::swap(labels.back(), labels[labels.size() - 2]); }

  // Where each dimension of a Transpose's output comes from.
  std::optional<Dims> OrderOf(const Node& node) const {
    const Node& order = At(node.inputs[1]);
    const PartialShape& shape = graph_.shape(node.inputs[0]);
    if (order.kind != NodeKind::kConstant || !shape.known_rank() ||
        order.constant.num_elements() != shape.rank()) {
      return std::nullopt;
    }
    Dims from;
    for (int d = 0; d < shape.rank(); ++d) {
      const int64_t at = order.constant.dtype() == DType::kInt32
                             ? int64_t{order.constant.data<int32_t>()[d]}
                             : order.constant.data<int64_t>()[d];
      if (at < 0 || at >= shape.rank()) return std::nullopt;
      from.push_back(at);
    }
    return from;
  }

  // Behind a Transpose that belongs to this reader alone.
  void TakeTransposed(Edge& operand, std::string& labels) const {
    if (!IsOwn(operand, "Transpose")) return;
    const std::optional<Dims> order = OrderOf(At(operand));
    if (!order) return;
    std::string before = labels;
    for (size_t d = 0; d < order->size(); ++d) before[(*order)[d]] = labels[d];
    labels = std::move(before);
    operand = At(operand).inputs[0];
  }

  std::optional<Attention> Joined(const Product& inner, const Scores& scores, const Product& outer,
                                  bool weights_first, const Labels& output) const {
    const Labels& of_weights = weights_first ? outer.of_x : outer.of_y;
    const Labels& of_v = weights_first ? outer.of_y : outer.of_x;
    if (of_weights.size() != inner.of_output.size() || inner.of_output.empty() ||
        inner.broadcast != outer.broadcast) {
      return std::nullopt;
    }
    // One letter for each label of the inner product; those of the outer one follow from the
    // scores, which both have, but for the width.
    std::vector<std::pair<int, char>> inside, outside;
    const auto letter = [](std::vector<std::pair<int, char>>& names, int label, char fresh) {
      for (const auto& [known, name] : names) {
        if (known == label) return name;
      }
      names.push_back({label, fresh});
      return fresh;
    };
    constexpr char kWidth = 'z';
    const auto text = [&](std::vector<std::pair<int, char>>& names, const Labels& labels,
                          bool is_inside) {
      std::string letters;
      for (int label : labels) {
        letters += letter(
            names, label,
            is_inside ? static_cast<char>('a' + std::min<size_t>(names.size(), 24)) : kWidth);
      }
      return letters;
    };
    std::string x = text(inside, inner.of_x, true);
    std::string y = text(inside, inner.of_y, true);
    const std::string of_scores = text(inside, inner.of_output, true);
    for (size_t d = 0; d < of_weights.size(); ++d) outside.push_back({of_weights[d], of_scores[d]});
    const std::string v = text(outside, of_v, false);
    const std::string result = text(outside, output, false);
    Attention found = {.q = inner.x,
                       .k = inner.y,
                       .v = weights_first ? outer.y : outer.x,
                       .scores = scores,
                       .broadcast = inner.broadcast};
    // The softmax is over the last dimension of the scores: the keys'.
    if (x.find(of_scores.back()) != x.npos) {
      std::swap(x, y);
      std::swap(found.q, found.k);
    }
    found.q = Unscaled(found.q, found.scores.scale);
    for (const bool transposed : {true, false}) {  // Not all that is transposed can be read.
      Attention attempt = found;
      std::string of_q = x, of_k = y, of_v = v;
      if (transposed) {
        TakeTransposed(attempt.q, of_q);
        TakeTransposed(attempt.k, of_k);
        TakeTransposed(attempt.v, of_v);
      }
      attempt.equation = absl::StrCat(of_q, ",", of_k, ",", of_v, ",", of_scores, "->", result);
      const absl::StatusOr<AttentionAttrs> attrs = AttentionAttrs::Parse(attempt.equation);
      if (attrs.ok() && context_.plan_kernels().TakesAttention(KindOf(attempt, *attrs))) {
        return attempt;
      }
    }
    return std::nullopt;
  }

  AttentionKind KindOf(const Attention& found, const AttentionAttrs& attrs) const {
    const auto dim = [this](Edge operand, int64_t place) -> int64_t {
      const PartialShape& shape = graph_.shape(operand);
      if (!shape.known_rank() || place >= shape.rank()) return -1;
      return shape.dim(static_cast<int>(place));
    };
    AttentionKind kind = {.dtype = graph_.dtype(found.q),
                          .masked = found.scores.mask.has_value(),
                          .batch_rank = static_cast<int>(attrs.q.batch.size()),
                          .depth = dim(found.q, attrs.q.depth),
                          .width = dim(found.v, attrs.v.width)};
    const auto differ = [](int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; };
    for (size_t b = 0; b < attrs.q.batch.size(); ++b) {
      const int64_t of_q = dim(found.q, attrs.q.batch[b]);
      kind.broadcasts = kind.broadcasts || differ(of_q, dim(found.k, attrs.k.batch[b])) ||
                        differ(of_q, dim(found.v, attrs.v.batch[b]));
    }
    return kind;
  }

  // In the place of the last node; the others are left for Prune.
  void Replace(Node& node, const Attention& found) const {
    node.op = context_.ops.Find("_Attention");
    auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*node.op));
    attrs->Set("T", node.output_dtypes[0]);
    const std::optional<Edge>& mask = found.scores.mask;
    attrs->Set("N", int64_t{mask.has_value()});
    attrs->Set("M", mask ? graph_.dtype(*mask) : node.output_dtypes[0]);
    attrs->Set("equation", found.equation);
    attrs->Set("scale", found.scores.scale);
    attrs->Set("hidden", found.scores.hidden);
    attrs->Set("broadcast", found.broadcast);
    node.attrs = std::move(attrs);
    node.inputs = {found.q, found.k, found.v};
    if (mask) node.inputs.push_back(*mask);
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<int32_t> uses_;  // Reads of a node's outputs; results count 2.
};

}  // namespace

void FuseAttention(Graph& graph, const PassContext& context) {
  for (Node& node : graph.nodes) {
    for (Graph& body : node.bodies) FuseAttention(body, context);
  }
  AttentionFusion(graph, context).Run();
}

}  // namespace formwork
