#include "core/storage/graph_writer.h"

#include <utility>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "formwork/tf/graph.pb.h"

namespace formwork {
namespace {

void ToMessage(const PartialShape& shape, tf::TensorShapeProto* to) {
  if (!shape.known_rank()) return to->set_unknown_rank(true);
  for (const int64_t dim : shape.dims()) to->add_dim()->set_size(dim);
}

// The functions that a node may run: its op, and those that its attrs name.
template <typename Each>
void ForFunctions(const tf::NodeDef& node, const Each& each) {
  each(node.op());
  for (const auto& [name, value] : node.attr()) {
    if (value.has_func()) each(value.func().name());
    for (const tf::NameAttrList& function : value.list().func()) each(function.name());
  }
}

}  // namespace

struct GraphWriter::Graph {
  tf::GraphDef message;
  HashMap<std::string, std::string> functions;  // As they are serialized.

  tf::AttrValue& attr(const std::string& name) {
    return (*message.mutable_node(message.node_size() - 1)->mutable_attr())[name];
  }
};

GraphWriter::GraphWriter() : graph_(std::make_unique<Graph>()) {}
GraphWriter::~GraphWriter() = default;

void GraphWriter::AddNode(const std::string& name, absl::string_view op,
                          absl::Span<const std::string> inputs) {
  tf::NodeDef* node = graph_->message.add_node();
  node->set_name(name);
  node->set_op(std::string(op));
  for (const std::string& input : inputs) node->add_input(input);
}

void GraphWriter::Set(const std::string& attr, int64_t value) { graph_->attr(attr).set_i(value); }
void GraphWriter::Set(const std::string& attr, float value) { graph_->attr(attr).set_f(value); }
void GraphWriter::Set(const std::string& attr, bool value) { graph_->attr(attr).set_b(value); }
void GraphWriter::Set(const std::string& attr, const std::string& value) {
  graph_->attr(attr).set_s(value);
}
void GraphWriter::Set(const std::string& attr, DType value) {
  graph_->attr(attr).set_type(static_cast<tf::DataType>(value));
}
void GraphWriter::Set(const std::string& attr, const PartialShape& value) {
  ToMessage(value, graph_->attr(attr).mutable_shape());
}
void GraphWriter::Set(const std::string& attr, const std::vector<int64_t>& values) {
  auto* list = graph_->attr(attr).mutable_list();
  for (const int64_t value : values) list->add_i(value);
}
void GraphWriter::Set(const std::string& attr, const std::vector<float>& values) {
  auto* list = graph_->attr(attr).mutable_list();
  for (const float value : values) list->add_f(value);
}
void GraphWriter::Set(const std::string& attr, const std::vector<bool>& values) {
  auto* list = graph_->attr(attr).mutable_list();
  for (const bool value : values) list->add_b(value);
}
void GraphWriter::Set(const std::string& attr, const std::vector<std::string>& values) {
  auto* list = graph_->attr(attr).mutable_list();
  for (const std::string& value : values) list->add_s(value);
}
void GraphWriter::Set(const std::string& attr, const std::vector<DType>& values) {
  auto* list = graph_->attr(attr).mutable_list();
  for (const DType value : values) list->add_type(static_cast<tf::DataType>(value));
}
void GraphWriter::Set(const std::string& attr, const std::vector<PartialShape>& values) {
  auto* list = graph_->attr(attr).mutable_list();
  for (const PartialShape& value : values) ToMessage(value, list->add_shape());
}
void GraphWriter::SetFunction(const std::string& attr, const std::string& function) {
  graph_->attr(attr).mutable_func()->set_name(function);
}

absl::Status GraphWriter::AddFunction(const std::string& function, const std::string& definitions) {
  tf::FunctionDefLibrary library;
  if (!library.ParseFromString(definitions)) {
    return absl::InternalError("a graph's functions cannot be read");
  }
  HashMap<std::string, const tf::FunctionDef*> known;
  for (const tf::FunctionDef& each : library.function()) known[each.signature().name()] = &each;
  if (!known.contains(function)) {
    return absl::InternalError(absl::StrCat("function '", function, "' is not there"));
  }
  std::vector<std::string> todo = {function};
  while (!todo.empty()) {
    const std::string name = std::move(todo.back());
    todo.pop_back();
    const tf::FunctionDef& definition = *known.at(name);
    const auto [added, is_new] = graph_->functions.try_emplace(name);
    std::string text = definition.SerializeAsString();
    if (!is_new) {
      if (added->second == text) continue;
      return Unimplemented("it is made of two functions of the name '", name, "'");
    }
    added->second = std::move(text);
    *graph_->message.mutable_library()->add_function() = definition;
    for (const tf::NodeDef& node : definition.node_def()) {
      ForFunctions(node, [&](const std::string& reached) {
        if (known.contains(reached)) todo.push_back(reached);
      });
    }
  }
  return absl::OkStatus();
}

std::string GraphWriter::Finish() const { return graph_->message.SerializeAsString(); }

}  // namespace formwork
