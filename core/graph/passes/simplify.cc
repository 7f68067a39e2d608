#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/graph/passes/pipeline.h"
#include "core/graph/passes/state_values.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// A folded value is kept for good: larger ones are cheaper to compute again.
constexpr size_t kLargestFolded = size_t{1} << 20;
constexpr int64_t kLargestSizedByValue = 1 << 14;  // Elements.

void AppendKey(std::string& key, const AttrValue& value) {
  absl::StrAppend(&key, value.index(), ":");
  auto scalar = [&key](const auto& x) {
    using X = std::decay_t<decltype(x)>;
    if constexpr (std::is_same_v<X, DType>) {
      absl::StrAppend(&key, static_cast<int>(x), ",");
    } else if constexpr (std::is_same_v<X, PartialShape>) {
      absl::StrAppend(&key, x.ToString(), ",");
    } else if constexpr (std::is_same_v<X, std::string>) {
      absl::StrAppend(&key, x.size(), "=", x, ",");
    } else if constexpr (std::is_same_v<X, float>) {
      key.append(reinterpret_cast<const char*>(&x), sizeof(x));
    } else if constexpr (std::is_arithmetic_v<X>) {
      absl::StrAppend(&key, x, ",");
    } else {
      // Tensors and functions: equal only to themselves.
      absl::StrAppend(&key, reinterpret_cast<uintptr_t>(&x), ",");
    }
  };
  std::visit(
      [&](const auto& x) {
        using X = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<X, std::monostate>) {
          key += "-";
        } else if constexpr (std::is_same_v<X, std::vector<bool>>) {
          for (bool b : x) key += b ? '1' : '0';
        } else if constexpr (requires { x.begin(); } && !std::is_same_v<X, std::string>) {
          for (const auto& element : x) scalar(element);
        } else {
          scalar(x);
        }
      },
      value);
}

std::string NodeKey(const Node& node) {
  std::string key = absl::StrCat(node.op->name, "(");
  std::vector<Edge> inputs = node.inputs;
  if (node.op->commutative && inputs.size() == 2 &&
      std::make_pair(inputs[1].node, inputs[1].index) <
          std::make_pair(inputs[0].node, inputs[0].index)) {
    std::swap(inputs[0], inputs[1]);
  }
  for (const Edge& edge : inputs) absl::StrAppend(&key, edge.node, ".", edge.index, ",");
  for (const auto& [name, value] : node.attrs->entries()) {
    if (name[0] == '_') continue;
    absl::StrAppend(&key, name, "=");
    AppendKey(key, value);
  }
  return key;
}

// Small constants are merged by value.
std::optional<std::string> ConstantKey(const Tensor& value) {
  if (!IsPlainData(value.dtype()) || value.bytes() > 256) return std::nullopt;
  return absl::StrCat("const ", static_cast<int>(value.dtype()), value.shape().ToString(),
                      absl::string_view(static_cast<const char*>(value.raw()), value.bytes()));
}

// One forward walk that builds the new list.
class Simplifier {
 public:
  Simplifier(Graph& graph, const std::vector<PartialShape>& arg_shapes, const PassContext& context)
      : graph_(graph), arg_shapes_(arg_shapes), context_(context) {}

  absl::Status Run() {
    moved_.resize(graph_.nodes.size());
    nodes_.reserve(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCut()) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(Visit(static_cast<int32_t>(i)));
    }
    for (int32_t& arg : graph_.args) arg = moved_[arg][0].node;
    for (Edge& result : graph_.results) result = moved_[result.node][result.index];
    graph_.nodes = std::move(nodes_);
    return absl::OkStatus();
  }

 private:
  absl::Status Visit(int32_t i) {
    Node& node = graph_.nodes[i];
    if (node.kind == NodeKind::kArg) {
      node.output_shapes = {arg_shapes_[node.arg]};
      Keep(i);
      return absl::OkStatus();
    }
    if (node.kind == NodeKind::kConstant) {
      moved_[i] = {AddConstant(node.name, std::move(node.constant))};
      return absl::OkStatus();
    }
    for (Edge& edge : node.inputs) edge = moved_[edge.node][edge.index];
    if (node.op->forwards_inputs && node.inputs.size() == node.output_dtypes.size()) {
      moved_[i].assign(node.inputs.begin(), node.inputs.end());
      return absl::OkStatus();
    }
    FORMWORK_RETURN_IF_ERROR(InferShapes(node));
    if (node.op->effect == Effect::kNone && !HasResource(node)) {
      if (Fold(i)) return absl::OkStatus();
      auto [found, inserted] = known_.try_emplace(NodeKey(node), nodes_.size());
      if (!inserted) {
        for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
          moved_[i].push_back({static_cast<int32_t>(found->second), static_cast<int32_t>(k)});
        }
        return absl::OkStatus();
      }
    }
    if (std::optional<Edge> value = state_.Known(node)) {
      moved_[i] = {*value};
      return absl::OkStatus();
    }
    Keep(i);
    state_.Note(nodes_.back(), static_cast<int32_t>(nodes_.size()) - 1);
    return absl::OkStatus();
  }

  void Keep(int32_t i) {
    for (size_t k = 0; k < graph_.nodes[i].output_dtypes.size(); ++k) {
      moved_[i].push_back({static_cast<int32_t>(nodes_.size()), static_cast<int32_t>(k)});
    }
    nodes_.push_back(std::move(graph_.nodes[i]));
  }

  Edge AddConstant(const std::string& name, Tensor value) {
    std::optional<std::string> key = ConstantKey(value);
    if (key) {
      auto [found, inserted] = known_.try_emplace(*key, nodes_.size());
      if (!inserted) return {static_cast<int32_t>(found->second), 0};
    }
    Node node;
    node.kind = NodeKind::kConstant;
    node.name = name;
    node.op = context_.ops.Find("Const");
    node.attrs = no_attrs_;
    node.output_dtypes = {value.dtype()};
    node.output_shapes = {PartialShape(value.shape())};
    node.constant = std::move(value);
    nodes_.push_back(std::move(node));
    return {static_cast<int32_t>(nodes_.size()) - 1, 0};
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
    // A node that cannot work fails the call that runs it, not the whole graph: TensorFlow too
    // lets a branch that is never taken be wrong.
    if (!node.op->shape_fn(inference).ok()) return absl::OkStatus();
    for (size_t k = 0; k < n; ++k) node.output_shapes[k] = inference.outputs()[k];
    return absl::OkStatus();
  }

  // Replaces node i by constants where they are known now.
  bool Fold(int32_t i) {
    Node& node = graph_.nodes[i];
    if (node.output_dtypes.empty()) return false;
    std::vector<const Tensor*> inputs;
    std::vector<Tensor> stand_ins;
    stand_ins.reserve(node.inputs.size());
    size_t input_bytes = 0;
    for (const Edge& edge : node.inputs) {
      const Tensor* constant = ConstantOf(edge);
      if (constant == nullptr) {
        if (!node.op->shape_only) return false;
        const DType dtype = nodes_[edge.node].output_dtypes[edge.index];
        std::optional<Shape> shape = nodes_[edge.node].output_shapes[edge.index].ToShape();
        if (!shape || !IsPlainData(dtype)) return false;
        stand_ins.push_back(Tensor::ShapeOnly(dtype, *shape));
        constant = &stand_ins.back();
      } else {
        input_bytes += constant->bytes();
      }
      inputs.push_back(constant);
    }
    size_t output_bytes = 0;
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      if (node.output_dtypes[k] == DType::kVariant) return false;
      std::optional<Shape> shape = node.output_shapes[k].ToShape();
      if (!shape) {
        if (node.op->sized_by_value) return false;
        continue;
      }
      if (node.op->sized_by_value && shape->num_elements() > kLargestSizedByValue) return false;
      output_bytes += static_cast<size_t>(shape->num_elements()) * DTypeSize(node.output_dtypes[k]);
    }
    if (output_bytes > kLargestFolded || input_bytes > kLargestFolded) return false;
    PassBudget& budget = context_.budget;
    if (budget.folding <= absl::ZeroDuration() || output_bytes > budget.folded_bytes) return false;
    absl::StatusOr<std::vector<Tensor>> values = EvaluateNode(node, inputs, context_);
    if (!values.ok()) return false;
    size_t folded_bytes = 0;
    for (const Tensor& value : *values) {
      if (!value.has_value() || value.bytes() > kLargestFolded) return false;
      folded_bytes += value.bytes();
    }
    if (folded_bytes > budget.folded_bytes) return false;
    budget.folded_bytes -= folded_bytes;
    for (Tensor& value : *values) moved_[i].push_back(AddConstant(node.name, std::move(value)));
    return true;
  }

  Graph& graph_;
  const std::vector<PartialShape>& arg_shapes_;
  const PassContext& context_;
  const std::shared_ptr<const AttrMap> no_attrs_ = std::make_shared<AttrMap>();
  std::vector<Node> nodes_;
  std::vector<std::vector<Edge>> moved_;
  HashMap<std::string, size_t> known_;
  StateValues state_{nodes_};
};

}  // namespace

absl::Status Simplify(Graph& graph, const std::vector<PartialShape>& arg_shapes,
                      const PassContext& context) {
  return Simplifier(graph, arg_shapes, context).Run();
}

}  // namespace formwork
