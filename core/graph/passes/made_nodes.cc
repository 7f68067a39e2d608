#include "core/graph/passes/made_nodes.h"

#include <memory>
#include <utility>

#include "core/ops/default_attrs.h"

namespace formwork {

Node MadeNode(const std::string& name, const OpDef* op, const char* dtype_attr, DType dtype,
              std::vector<Edge> inputs, const PartialShape& shape) {
  Node made;
  made.name = name;
  made.op = op;
  auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*op));
  attrs->Set(dtype_attr, dtype);
  made.attrs = std::move(attrs);
  made.inputs = std::move(inputs);
  if (op->outputs.empty()) return made;
  made.output_dtypes = {dtype};
  made.output_shapes = {shape};
  return made;
}

Node MadeConstant(const std::string& name, Tensor value, const OpRegistry& ops) {
  static const auto* const none = new std::shared_ptr<const AttrMap>(std::make_shared<AttrMap>());
  Node made;
  made.kind = NodeKind::kConstant;
  made.name = name;
  made.op = ops.Find("Const");
  made.attrs = *none;
  made.output_dtypes = {value.dtype()};
  made.output_shapes = {PartialShape(value.shape())};
  made.constant = std::move(value);
  return made;
}

Edge Append(Node node, std::vector<Node>& nodes) {
  nodes.push_back(std::move(node));
  return {static_cast<int32_t>(nodes.size()) - 1, 0};
}

}  // namespace formwork
