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

Edge Append(Node node, std::vector<Node>& nodes) {
  nodes.push_back(std::move(node));
  return {static_cast<int32_t>(nodes.size()) - 1, 0};
}

}  // namespace formwork
