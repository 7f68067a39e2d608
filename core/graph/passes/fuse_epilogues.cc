// Moves what follows a convolution or matrix product of floats into it: scaling and bias by
// channel (a batch normalisation at inference is both), a residual, an activation. Where something
// does, a Pad before the convolution goes in too.

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "core/base/hash_map.h"
#include "core/graph/fixed_nodes.h"
#include "core/graph/passes/pipeline.h"
#include "core/ops/default_attrs.h"
#include "core/ops/epilogue.h"

namespace formwork {
namespace {

enum class Head : uint8_t { kNone, kConv, kDepthwise, kProduct };

// A head and the nodes after it that become part of it, each the only reader of the one before.
struct Chain {
  Head kind = Head::kNone;
  int32_t head = -1;
  int32_t last = -1;           // In whose place the whole runs.
  std::vector<int32_t> nodes;  // After the head.
  int64_t channels = -1;
  Epilogue epilogue;
  std::optional<Edge> scale, bias, residual;
  std::optional<Edge> unpadded;  // What a Pad before a convolution pads, and by how much.
  std::vector<int64_t> padding;
  // A bias that came before the scale: it is to be scaled, and added to `bias` if there is one.
  std::optional<Edge> unscaled_bias;
  std::optional<Edge> reshape;  // The shape that the last Reshape gave.
  PartialShape shape;           // Of the result so far.
};

class EpilogueFusion {
 public:
  /// `weights`: by node, WeightsIn the graph.
  EpilogueFusion(Graph& graph, const PassContext& context, const std::vector<bool>& weights)
      : graph_(graph), context_(context), weights_(weights) {}

  void Run() {
    CountUses();
    std::vector<Chain> chains;
    std::vector<int32_t> chain_of(graph_.nodes.size(), -1);  // By its last node.
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return;
      const Head kind = HeadKind(graph_.nodes[i]);
      if (kind == Head::kNone) continue;
      Chain chain = Follow(kind, static_cast<int32_t>(i));
      if (kind == Head::kProduct && weights_[graph_.nodes[i].inputs[1].node]) {
        auto attrs = std::make_shared<AttrMap>(*graph_.nodes[i].attrs);
        SetByWeights(*attrs);
        graph_.nodes[i].attrs = std::move(attrs);
      }
      if (chain.epilogue.empty()) continue;
      for (int32_t n : chain.nodes) taken_[n] = true;
      chain_of[chain.last] = static_cast<int32_t>(chains.size());
      chains.push_back(std::move(chain));
    }
    if (!chains.empty()) Rebuild(chains, chain_of);
  }

 private:
  // --- What the graph looks like ----------------------------------------------------------------

  void CountUses() {
    uses_.assign(graph_.nodes.size(), 0);
    taken_.assign(graph_.nodes.size(), false);
    readers_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const Edge& edge : graph_.nodes[i].inputs) {
        if (++uses_[edge.node] <= 2) readers_[edge.node].push_back(static_cast<int32_t>(i));
      }
    }
    for (const Edge& result : graph_.results) uses_[result.node] += 3;  // More than any pattern's.
  }

  bool Is(int32_t i, absl::string_view op) const {
    const Node& node = graph_.nodes[i];
    return node.kind == NodeKind::kOp && node.op->name == op;
  }
  bool IsFloat(Edge edge) const { return graph_.dtype(edge) == DType::kFloat; }

  Head HeadKind(const Node& node) const {
    if (node.kind != NodeKind::kOp || node.inputs.size() != 2 || !IsFloat(node.inputs[0]) ||
        !IsFloat(node.inputs[1]) || !node.output_shapes[0].known_rank()) {
      return Head::kNone;
    }
    const bool conv = node.op->name == "Conv2D";
    if (conv || node.op->name == "DepthwiseConv2dNative") {
      if (node.attrs->GetOr<std::string>("data_format", "NHWC") != "NHWC") return Head::kNone;
      return conv ? Head::kConv : Head::kDepthwise;
    }
    if (node.op->name == "MatMul" || node.op->name == "BatchMatMulV2") {
      for (const char* attr : {"transpose_a", "transpose_b", "adj_x", "adj_y"}) {
        if (node.attrs->GetOr(attr, false)) return Head::kNone;
      }
      const PartialShape& b = graph_.shape(node.inputs[1]);
      if (b.known_rank() && b.rank() == 2) return Head::kProduct;
    }
    return Head::kNone;
  }

  // A vector of the result's last dimension, added or multiplied along it.
  bool IsVector(Edge edge, const Chain& chain) const {
    if (!IsFloat(edge)) return false;
    const std::optional<Shape> shape = graph_.shape(edge).ToShape();
    if (!shape || shape->num_elements() != chain.channels || !chain.shape.known_rank() ||
        shape->rank() > chain.shape.rank()) {
      return false;
    }
    // Its dimensions but those of 1 at the front are the result's last ones; after a Reshape the
    // last dimension of the product may have become several.
    int64_t product = 1;
    for (int back = 1; back <= shape->rank(); ++back) {
      const int64_t dim = shape->dim(shape->rank() - back);
      if (product < chain.channels && dim != chain.shape.dim(chain.shape.rank() - back)) {
        return false;
      }
      product *= dim;
    }
    return true;
  }

  bool SameKnownShape(Edge edge, const Chain& chain) const {
    return IsFloat(edge) && graph_.shape(edge).ToShape().has_value() &&
           graph_.shape(edge) == chain.shape;
  }

  // --- Chains -----------------------------------------------------------------------------------

  Chain Follow(Head kind, int32_t head) {
    const Node& node = graph_.nodes[head];
    Chain chain;
    chain.kind = kind;
    chain.head = chain.last = head;
    chain.shape = node.output_shapes[0];
    chain.channels = chain.shape.dim(chain.shape.rank() - 1);
    if (chain.channels <= 0) return chain;
    if (kind != Head::kProduct) TakePad(chain);
    Chain longest = chain;  // Without a Reshape that nothing follows.
    while (chain.epilogue.activation == Activation::kNone) {
      if (!Extend(chain)) break;
      if (!Is(chain.last, "Reshape")) longest = chain;
    }
    return longest;
  }

  // A Pad of rows and columns by constants, before a convolution that pads nothing itself.
  void TakePad(Chain& chain) const {
    const Node& conv = graph_.nodes[chain.head];
    const Edge padded = conv.inputs[0];
    if (!Is(padded.node, "Pad") || conv.attrs->GetOr<std::string>("padding", "") != "VALID") return;
    const Edge source = graph_.nodes[padded.node].inputs[0];
    const Edge paddings = graph_.nodes[padded.node].inputs[1];
    const Node& constant = graph_.nodes[paddings.node];
    if (constant.kind != NodeKind::kConstant || constant.constant.dtype() != DType::kInt32 ||
        constant.constant.num_elements() != 8 || !graph_.shape(source).known_rank() ||
        graph_.shape(source).rank() != 4) {
      return;
    }
    const int32_t* by = constant.constant.data<int32_t>();
    if (by[0] != 0 || by[1] != 0 || by[6] != 0 || by[7] != 0) return;
    if (std::any_of(by, by + 8, [](int32_t p) { return p < 0; })) return;
    chain.padding.assign(by, by + 8);
    chain.unpadded = source;
  }

  // Takes the next node in. False where that cannot be.
  bool Extend(Chain& chain) {
    if (uses_[chain.last] == 2) return ExtendByGelu(chain);
    if (uses_[chain.last] != 1) return false;
    const int32_t next = readers_[chain.last][0];
    const Node& node = graph_.nodes[next];
    // Where two heads are added the first takes the sum.
    if (node.kind != NodeKind::kOp || taken_[next]) return false;
    if (!(node.op->name == "Reshape" ? TakeReshape(chain, node) : TakeStep(chain, node))) {
      return false;
    }
    Append(chain, next);
    return true;
  }
  void Append(Chain& chain, int32_t next) const {
    chain.nodes.push_back(next);
    chain.last = next;
    chain.shape = graph_.nodes[next].output_shapes[0];
  }

  bool TakeReshape(Chain& chain, const Node& node) const {
    const PartialShape& shape = node.output_shapes[0];
    if (chain.kind != Head::kProduct || node.inputs[0].node != chain.last || !shape.known_rank()) {
      return false;
    }
    // The channels are to be the last dimensions still.
    int64_t product = 1;
    for (int d = shape.rank() - 1; d >= 0 && product < chain.channels; --d) {
      if (shape.dim(d) <= 0) return false;
      product *= shape.dim(d);
    }
    if (product != chain.channels) return false;
    chain.reshape = node.inputs[1];
    return true;
  }

  bool TakeStep(Chain& chain, const Node& node) const {
    const std::string& op = node.op->name;
    Epilogue& epilogue = chain.epilogue;
    if (op == "Relu" || op == "Relu6") {
      epilogue.activation = op == "Relu" ? Activation::kRelu : Activation::kRelu6;
      return true;
    }
    if (node.inputs.size() != 2) return false;
    const bool first = node.inputs[0].node == chain.last;
    const Edge other = node.inputs[first ? 1 : 0];
    if (op == "BiasAdd") {
      const bool last_dim = node.attrs->GetOr<std::string>("data_format", "NHWC") == "NHWC";
      return first && last_dim && graph_.shape(other).known_rank() &&
             graph_.shape(other).rank() == 1 && TakeBias(chain, other);
    }
    if (op == "Mul") {
      if (chain.kind == Head::kProduct || epilogue.scale || epilogue.residual ||
          !IsVector(other, chain)) {
        return false;
      }
      epilogue.scale = true;
      chain.scale = other;
      chain.unscaled_bias = std::exchange(chain.bias, std::nullopt);
      return true;
    }
    if (op != "AddV2" && op != "Add") return false;
    if (TakeBias(chain, other)) return true;
    if (chain.kind == Head::kDepthwise || epilogue.residual || !SameKnownShape(other, chain)) {
      return false;
    }
    epilogue.residual = true;
    chain.residual = other;
    return true;
  }

  bool TakeBias(Chain& chain, Edge bias) const {
    if (chain.bias.has_value() || !IsVector(bias, chain)) return false;
    chain.epilogue.bias = true;
    chain.bias = bias;
    return true;
  }

  // The constant that all elements of an edge are; NaN where there is none.
  float ScalarOf(Edge edge) const {
    const Node& node = graph_.nodes[edge.node];
    if (node.kind != NodeKind::kConstant || node.constant.dtype() != DType::kFloat ||
        node.constant.num_elements() != 1) {
      return std::nanf("");
    }
    return node.constant.data<float>()[0];
  }
  // The other factor where `i` is a product by `by` that one node reads.
  std::optional<Edge> TimesScalar(int32_t i, float by) const {
    if (!Is(i, "Mul") || uses_[i] != 1) return std::nullopt;
    const std::vector<Edge>& inputs = graph_.nodes[i].inputs;
    for (int k = 0; k < 2; ++k) {
      if (std::abs(ScalarOf(inputs[k]) - by) <= 1e-6f) return inputs[1 - k];
    }
    return std::nullopt;
  }

  // Whether `i` is 1 + erf(x / sqrt 2), or erfc(-x / sqrt 2), of x = output 0 of `x`.
  bool IsErfOf(int32_t i, int32_t x) const {
    constexpr float kRoot = 0.70710678f;
    if (uses_[i] != 1) return false;
    const std::vector<Edge>& inputs = graph_.nodes[i].inputs;
    if (Is(i, "Erfc")) {
      const std::optional<Edge> half = TimesScalar(inputs[0].node, kRoot);
      if (half.has_value()) {
        return Is(half->node, "Neg") && uses_[half->node] == 1 &&
               graph_.nodes[half->node].inputs[0].node == x;
      }
      const std::optional<Edge> negative = TimesScalar(inputs[0].node, -kRoot);
      return negative.has_value() && negative->node == x;
    }
    if (!Is(i, "AddV2")) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t erf = inputs[k].node;
      if (ScalarOf(inputs[1 - k]) != 1.0f || !Is(erf, "Erf") || uses_[erf] != 1) continue;
      const Edge in = graph_.nodes[erf].inputs[0];
      if (const std::optional<Edge> factor = TimesScalar(in.node, kRoot)) return factor->node == x;
      const std::vector<Edge>& quotient = graph_.nodes[in.node].inputs;
      return Is(in.node, "RealDiv") && uses_[in.node] == 1 && quotient[0].node == x &&
             std::abs(ScalarOf(quotient[1]) - 1.41421356f) <= 1e-6f;
    }
    return false;
  }

  // x / 2 * (1 + erf(x / sqrt 2)), x being what the chain makes.
  bool ExtendByGelu(Chain& chain) const {
    if (chain.kind == Head::kDepthwise) return false;
    for (int32_t reader : readers_[chain.last]) {
      const std::optional<Edge> half = TimesScalar(reader, 0.5f);
      if (!half.has_value() || half->node != chain.last) continue;
      const int32_t product = readers_[reader][0];
      if (!Is(product, "Mul")) return false;
      const std::vector<Edge>& inputs = graph_.nodes[product].inputs;
      const int32_t other = inputs[inputs[0].node == reader ? 1 : 0].node;
      if (!IsErfOf(other, chain.last)) return false;
      chain.epilogue.activation = Activation::kGelu;
      Append(chain, product);
      return true;
    }
    return false;
  }

  // --- The new list -----------------------------------------------------------------------------

  // A chain's nodes are left in the list without readers, for Prune.
  void Rebuild(const std::vector<Chain>& chains, const std::vector<int32_t>& chain_of) {
    std::vector<Node> old = std::move(graph_.nodes);
    std::vector<Edge> first(old.size());  // Where a node is now.
    nodes_.clear();
    for (size_t i = 0; i < old.size(); ++i) {
      if (chain_of[i] >= 0) {
        first[i] = AddFused(chains[chain_of[i]], old, first);
        continue;
      }
      first[i] = {static_cast<int32_t>(nodes_.size()), 0};
      // Heads are read once more, when their chain ends.
      Node node = HeadOf(chains, static_cast<int32_t>(i)) ? old[i] : std::move(old[i]);
      for (Edge& edge : node.inputs) edge = Moved(edge, first);
      nodes_.push_back(std::move(node));
    }
    for (int32_t& arg : graph_.args) arg = first[arg].node;
    for (Edge& result : graph_.results) result = Moved(result, first);
    graph_.nodes = std::move(nodes_);
  }
  static Edge Moved(Edge edge, const std::vector<Edge>& first) {
    return {first[edge.node].node, edge.index};
  }
  static bool HeadOf(const std::vector<Chain>& chains, int32_t i) {
    return std::binary_search(chains.begin(), chains.end(), i, ByHead{});
  }
  struct ByHead {
    bool operator()(const Chain& chain, int32_t i) const { return chain.head < i; }
    bool operator()(int32_t i, const Chain& chain) const { return i < chain.head; }
  };

  Edge Add(Node node) {
    nodes_.push_back(std::move(node));
    return {static_cast<int32_t>(nodes_.size()) - 1, 0};
  }
  Edge AddElementwise(absl::string_view op, const Node& after, Edge a, Edge b) {
    Node node;
    node.name = after.name;
    node.op = context_.ops.Find(op);
    auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*node.op));
    attrs->Set("T", DType::kFloat);
    node.attrs = std::move(attrs);
    node.inputs = {a, b};
    node.output_dtypes = {DType::kFloat};
    node.output_shapes = {nodes_[a.node].output_shapes[a.index]};
    return Add(std::move(node));
  }

  Edge AddFused(const Chain& chain, const std::vector<Node>& old, const std::vector<Edge>& first) {
    const Node& last = old[chain.last];
    Node node = old[chain.head];
    auto moved = [&first](const std::optional<Edge>& edge) { return Moved(*edge, first); };
    for (Edge& edge : node.inputs) edge = Moved(edge, first);
    std::optional<Edge> bias = chain.bias;
    if (bias.has_value()) bias = moved(bias);
    if (chain.unscaled_bias.has_value()) {
      const Edge scaled =
          AddElementwise("Mul", last, moved(chain.unscaled_bias), moved(chain.scale));
      bias = bias.has_value() ? AddElementwise("AddV2", last, scaled, *bias) : scaled;
    }
    Epilogue epilogue = chain.epilogue;
    // On a device the filter is scaled instead, which follows from variables, as a rule, and is
    // then kept. The CPU's kernel scales what it packs.
    if (epilogue.scale && chain.kind == Head::kConv && context_.device_kernels != nullptr) {
      node.inputs[1] = AddElementwise("Mul", last, node.inputs[1], moved(chain.scale));
      epilogue.scale = false;
    }
    if (epilogue.scale) node.inputs.push_back(moved(chain.scale));
    if (bias.has_value()) node.inputs.push_back(*bias);
    if (chain.residual.has_value()) node.inputs.push_back(moved(chain.residual));
    auto attrs = std::make_shared<AttrMap>(*node.attrs);
    if (chain.unpadded.has_value()) {
      node.inputs[0] = moved(chain.unpadded);
      attrs->Set("padding", std::string("EXPLICIT"));
      attrs->Set("explicit_paddings", chain.padding);
    }
    epilogue.AddTo(*attrs);
    node.attrs = std::move(attrs);
    const Edge fused = Add(std::move(node));
    if (!chain.reshape.has_value()) return fused;
    Node reshape;
    reshape.name = last.name;
    reshape.op = context_.ops.Find("Reshape");
    reshape.attrs = std::make_shared<AttrMap>(DefaultAttrs(*reshape.op));
    reshape.inputs = {fused, moved(chain.reshape)};
    reshape.output_dtypes = {DType::kFloat};
    reshape.output_shapes = last.output_shapes;
    return Add(std::move(reshape));
  }

  Graph& graph_;
  const PassContext& context_;
  const std::vector<bool>& weights_;
  std::vector<int32_t> uses_;                  // Reads of a node's outputs; results count 3.
  std::vector<std::vector<int32_t>> readers_;  // The first two.
  std::vector<bool> taken_;                    // Into a chain.
  std::vector<Node> nodes_;
};

// By node: whether it is a constant or a variable's value, maybe reshaped. `parameters`: which of
// the graph's are.
std::vector<bool> WeightsIn(const Graph& graph, const std::vector<bool>& parameters) {
  std::vector<bool> weights(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind == NodeKind::kConstant) {
      weights[i] = true;
    } else if (node.kind == NodeKind::kArg) {
      weights[i] = parameters[node.arg];
    } else {
      weights[i] =
          node.op->loads_variable || (node.op->name == "Reshape" && weights[node.inputs[0].node]);
    }
  }
  return weights;
}

// Which parameters of the bodies of a node of control flow are weights: a loop's are where no
// iteration changes them.
std::vector<bool> WeightsInto(const Node& node, const std::vector<bool>& weights) {
  const size_t own = node.op->inputs_before_functions();
  const bool loop = node.op->control_flow == ControlFlow::kWhile;
  std::vector<bool> into;
  for (size_t k = 0; own + k < node.inputs.size(); ++k) {
    const bool same = !loop || node.bodies[1].results[k] == Edge{node.bodies[1].args[k], 0};
    into.push_back(same && weights[node.inputs[own + k].node]);
  }
  return into;
}

// `fixed`: whether variables keep their values during a call; else nothing is weights. `computed`:
// by node, what else is.
void FuseIn(Graph& graph, const PassContext& context, bool fixed,
            const std::vector<bool>& parameters, const std::vector<bool>& computed = {}) {
  std::vector<bool> weights =
      fixed ? WeightsIn(graph, parameters) : std::vector<bool>(graph.nodes.size());
  for (size_t i = 0; i < computed.size(); ++i) weights[i] = weights[i] || computed[i];
  for (Node& node : graph.nodes) {
    if (node.bodies.empty()) continue;
    const std::vector<bool> into = WeightsInto(node, weights);
    for (Graph& body : node.bodies) FuseIn(body, context, fixed, into);
  }
  EpilogueFusion(graph, context, weights).Run();
}

}  // namespace

void FuseEpilogues(Graph& graph, const PassContext& context) {
  const bool fixed = std::none_of(graph.nodes.begin(), graph.nodes.end(),
                                  [](const Node& n) { return ChangesState(n); });
  FuseIn(graph, context, fixed, std::vector<bool>(graph.args.size()), FixedNodes(graph));
}

}  // namespace formwork
