#include "core/graph/passes/known_elements.h"

#include <algorithm>
#include <limits>

#include "core/ops/join.h"
#include "core/ops/strided_slice.h"

namespace formwork {
namespace {

constexpr int kMostNodes = 64;  // Looked at for one value.

class ElementsReader {
 public:
  explicit ElementsReader(const std::vector<Node>& nodes) : nodes_(nodes) {}

  std::optional<Dims> Of(const Node& node, int32_t index) {
    const DType dtype = node.output_dtypes[index];
    if ((dtype != DType::kInt32 && dtype != DType::kInt64) || --left_ < 0) return std::nullopt;
    std::optional<Dims> elements = node.kind == NodeKind::kConstant ? Integers(node.constant)
                                   : node.kind == NodeKind::kOp     ? Computed(node, index)
                                                                    : std::nullopt;
    if (!elements) elements = Unknown(node, index);
    if (!elements || elements->size() > kMaxRank) return std::nullopt;
    for (int64_t& element : *elements) {
      // What wraps around is not worth knowing.
      const bool fits = dtype == DType::kInt64 || element <= std::numeric_limits<int32_t>::max();
      if (element < 0 || !fits) element = -1;
    }
    return elements;
  }

 private:
  std::optional<Dims> Of(Edge edge) { return Of(nodes_[edge.node], edge.index); }

  // As many as the shape says, all unknown.
  static std::optional<Dims> Unknown(const Node& node, int32_t index) {
    if (node.output_shapes.empty()) return std::nullopt;
    const PartialShape& shape = node.output_shapes[index];
    if (shape.rank() == 0) return Dims{-1};
    if (shape.rank() != 1 || shape.dim(0) < 0 || shape.dim(0) > kMaxRank) return std::nullopt;
    return Dims(static_cast<size_t>(shape.dim(0)), -1);
  }

  static std::optional<Dims> Integers(const Tensor& tensor) {
    if (tensor.rank() > 1 || tensor.num_elements() > kMaxRank) return std::nullopt;
    const absl::StatusOr<Dims> elements = IntegersOf(tensor, "elements");
    return elements.ok() ? std::optional(*elements) : std::nullopt;
  }

  std::optional<Dims> ConstantInput(const Node& node, size_t i) const {
    const Node& input = nodes_[node.inputs[i].node];
    if (input.kind != NodeKind::kConstant) return std::nullopt;
    return Integers(input.constant);
  }

  // By the ops that shape arithmetic is made of. The op's name says which.
  std::optional<Dims> Computed(const Node& node, int32_t index) {
    const std::string& op = node.op->name;
    if (op == "Shape" || op == "ShapeN" || op == "VariableShape") {
      const Edge input = node.inputs[op == "ShapeN" ? index : 0];
      const PartialShape& shape = ShapeOf(input);
      if (!shape.known_rank()) return std::nullopt;
      return Dims(shape.dims().begin(), shape.dims().end());
    }
    if (op == "Cast") return Of(node.inputs[0]);
    if (op == "Pack") return Packed(node);
    if (op == "ConcatV2") return Joined(node);
    if (op == "StridedSlice") return Sliced(node);
    if (op == "GatherV2") return Gathered(node);
    if (op == "ExpandDims" || op == "Reshape" || op == "Squeeze") {
      // Of one element, or a vector that stays one.
      std::optional<Dims> elements = Of(node.inputs[0]);
      const PartialShape& shape = node.output_shapes[0];
      if (!elements || shape.rank() < 0 || shape.rank() > 1) return std::nullopt;
      return elements;
    }
    return std::nullopt;
  }

  std::optional<Dims> Packed(const Node& node) {
    if (node.inputs.size() > kMaxRank || node.output_shapes[0].rank() != 1) return std::nullopt;
    Dims elements;
    for (const Edge& input : node.inputs) {
      const std::optional<Dims> element = Of(input);
      elements.push_back(element && element->size() == 1 ? (*element)[0] : -1);
    }
    return elements;
  }

  std::optional<Dims> Joined(const Node& node) {
    if (node.output_shapes[0].rank() != 1) return std::nullopt;
    Dims elements;
    for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
      const std::optional<Dims> part = Of(node.inputs[i]);
      if (!part || elements.size() + part->size() > kMaxRank) return std::nullopt;
      elements.insert(elements.end(), part->begin(), part->end());
    }
    return elements;
  }

  std::optional<Dims> Sliced(const Node& node) {
    const std::optional<Dims> begin = ConstantInput(node, 1), end = ConstantInput(node, 2),
                              strides = ConstantInput(node, 3);
    if (!begin || !end || !strides || ShapeOf(node.inputs[0]).rank() != 1) return std::nullopt;
    const std::optional<Dims> input = Of(node.inputs[0]);
    const absl::StatusOr<SliceMasks> masks = SliceMasks::FromAttrs(*node.attrs);
    if (!input || !masks.ok()) return std::nullopt;
    SliceBounds bounds;
    const int64_t length = static_cast<int64_t>(input->size());
    if (!ResolveStridedSlice(*masks, &*begin, &*end, *strides, {length}, bounds).ok() ||
        bounds.dims.size() != 1 || bounds.output.size() > 1) {
      return std::nullopt;
    }
    Dims elements;
    for (int64_t i = 0; i < bounds.dims[0].size; ++i) {
      elements.push_back((*input)[bounds.dims[0].begin + i * bounds.dims[0].stride]);
    }
    return elements;
  }

  std::optional<Dims> Gathered(const Node& node) {
    const std::optional<Dims> indices = ConstantInput(node, 1);
    if (!indices || ShapeOf(node.inputs[0]).rank() != 1) return std::nullopt;
    const std::optional<Dims> input = Of(node.inputs[0]);
    if (!input) return std::nullopt;
    Dims elements;
    for (const int64_t i : *indices) {
      if (i < 0 || i >= static_cast<int64_t>(input->size())) return std::nullopt;
      elements.push_back((*input)[i]);
    }
    return elements;
  }

  const PartialShape& ShapeOf(Edge edge) const {
    static const PartialShape kUnknown;
    const std::vector<PartialShape>& shapes = nodes_[edge.node].output_shapes;
    return shapes.empty() ? kUnknown : shapes[edge.index];
  }

  const std::vector<Node>& nodes_;
  int left_ = kMostNodes;
};

}  // namespace

std::optional<Dims> KnownElements(const std::vector<Node>& nodes, const Node& node, int32_t index) {
  return ElementsReader(nodes).Of(node, index);
}

std::optional<Tensor> KnownValue(const std::vector<Node>& nodes, const Node& node,
                                 Allocator& allocator) {
  const std::optional<Shape> shape = node.output_shapes[0].ToShape();
  if (!shape || shape->rank() > 1 || shape->num_elements() > kMaxRank) return std::nullopt;
  const std::optional<Dims> elements = KnownElements(nodes, node, 0);
  if (!elements || static_cast<int64_t>(elements->size()) != shape->num_elements() ||
      std::find(elements->begin(), elements->end(), -1) != elements->end()) {
    return std::nullopt;
  }
  absl::StatusOr<Tensor> value = Tensor::Allocate(allocator, node.output_dtypes[0], *shape);
  if (!value.ok()) return std::nullopt;
  for (size_t i = 0; i < elements->size(); ++i) {
    if (node.output_dtypes[0] == DType::kInt32) {
      value->mutable_data<int32_t>()[i] = static_cast<int32_t>((*elements)[i]);
    } else {
      value->mutable_data<int64_t>()[i] = (*elements)[i];
    }
  }
  return *std::move(value);
}

}  // namespace formwork
