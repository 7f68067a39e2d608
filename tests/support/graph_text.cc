#include "tests/support/graph_text.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "tests/support/op_case.h"
#include "tests/support/op_case_text.h"

namespace formwork::testing {
namespace {

using absl::StripAsciiWhitespace;

// "a, b" -> {"a", "b"}: commas count outside of brackets and quotes alone.
std::vector<std::string> Items(absl::string_view text) {
  std::vector<std::string> items;
  std::string item;
  int depth = 0;
  bool quoted = false;
  for (char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '(')) ++depth;
    if (!quoted && (c == ']' || c == ')')) --depth;
    if (c == ',' && depth == 0 && !quoted) {
      items.emplace_back(StripAsciiWhitespace(item));
      item.clear();
    } else {
      item += c;
    }
  }
  if (!StripAsciiWhitespace(item).empty()) items.emplace_back(StripAsciiWhitespace(item));
  return items;
}

// "Op(a, b)" -> "Op" and its items.
std::pair<std::string, std::vector<std::string>> Applied(absl::string_view token) {
  const size_t open = token.find('(');
  if (open == absl::string_view::npos) return {std::string(token), {}};
  return {std::string(token.substr(0, open)),
          Items(token.substr(open + 1, token.size() - open - 2))};
}

absl::StatusOr<tf::TensorProto> ParseTensor(std::vector<std::string> tokens) {
  FORMWORK_ASSIGN_OR_RETURN(ValueText text, ParseValue(std::move(tokens)));
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, MakeValue(text, ProcessAllocator()));
  return ToProto(tensor);
}

absl::Status ParseAttr(absl::string_view text, tf::AttrValue* value);

absl::Status ParseList(absl::string_view inside, tf::AttrValue::ListValue* list) {
  for (const std::string& item : Items(inside)) {
    tf::AttrValue value;
    FORMWORK_RETURN_IF_ERROR(ParseAttr(item, &value));
    switch (value.value_case()) {
      case tf::AttrValue::kType:
        list->add_type(value.type());
        break;
      case tf::AttrValue::kI:
        list->add_i(value.i());
        break;
      case tf::AttrValue::kF:
        list->add_f(value.f());
        break;
      case tf::AttrValue::kB:
        list->add_b(value.b());
        break;
      case tf::AttrValue::kS:
        list->add_s(value.s());
        break;
      case tf::AttrValue::kFunc:
        *list->add_func() = value.func();
        break;
      case tf::AttrValue::kShape:
        *list->add_shape() = value.shape();
        break;
      case tf::AttrValue::kTensor:
        *list->add_tensor() = value.tensor();
        break;
      default:
        return InvalidArgument("not an item of a list: ", item);
    }
  }
  return absl::OkStatus();
}

absl::Status ParseAttr(absl::string_view text, tf::AttrValue* value) {
  int64_t integer;
  float number;
  if (absl::ConsumePrefix(&text, "@")) {
    value->mutable_func()->set_name(std::string(text));
  } else if (absl::ConsumePrefix(&text, "shape:")) {
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ParsePartialShape(text));
    tf::TensorShapeProto* proto = value->mutable_shape();
    proto->set_unknown_rank(!shape.known_rank());
    for (int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
  } else if (absl::StartsWith(text, "[")) {
    return ParseList(text.substr(1, text.size() - 2), value->mutable_list());
  } else if (absl::StartsWith(text, "(")) {
    FORMWORK_ASSIGN_OR_RETURN(*value->mutable_tensor(),
                              ParseTensor(Tokens(text.substr(1, text.size() - 2))));
  } else if (absl::StartsWith(text, "\"")) {
    FORMWORK_ASSIGN_OR_RETURN(*value->mutable_s(), Unquote(text));
  } else if (text == "true" || text == "false") {
    value->set_b(text == "true");
  } else if (absl::SimpleAtoi(text, &integer)) {
    value->set_i(integer);
  } else if (absl::SimpleAtof(text, &number)) {
    value->set_f(number);
  } else {
    FORMWORK_ASSIGN_OR_RETURN(DType dtype, ParseDType(text));
    value->set_type(static_cast<tf::DataType>(dtype));
  }
  return absl::OkStatus();
}

// "name = Op(inputs) attr=value ..."
absl::Status ParseNode(std::vector<std::string> tokens, tf::NodeDef* node) {
  if (tokens.size() < 3 || tokens[1] != "=") return InvalidArgument("not a node");
  node->set_name(tokens[0]);
  auto [op, inputs] = Applied(tokens[2]);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  if (op == "Const") {
    FORMWORK_ASSIGN_OR_RETURN(tf::TensorProto value,
                              ParseTensor({tokens.begin() + 3, tokens.end()}));
    (*node->mutable_attr())["dtype"].set_type(value.dtype());
    *(*node->mutable_attr())["value"].mutable_tensor() = std::move(value);
    return absl::OkStatus();
  }
  for (size_t i = 3; i < tokens.size(); ++i) {
    const std::pair<std::string, std::string> attr =
        absl::StrSplit(tokens[i], absl::MaxSplits('=', 1));
    if (attr.first == "device") {
      FORMWORK_ASSIGN_OR_RETURN(*node->mutable_device(), Unquote(attr.second));
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(ParseAttr(attr.second, &(*node->mutable_attr())[attr.first]));
  }
  return absl::OkStatus();
}

// "function name(a: float) -> (r: float = m:z:0) runs(q)"
absl::Status ParseHeader(const std::vector<std::string>& tokens, tf::FunctionDef* function) {
  if (tokens.size() < 4 || tokens[2] != "->") return InvalidArgument("not a function");
  const auto [name, parameters] = Applied(tokens[1]);
  function->mutable_signature()->set_name(name);
  auto add = [](const std::string& text, tf::OpDef::ArgDef* arg) -> absl::Status {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits(": ", 1));
    FORMWORK_ASSIGN_OR_RETURN(DType dtype, ParseDType(parts.second));
    arg->set_name(parts.first);
    arg->set_type(static_cast<tf::DataType>(dtype));
    return absl::OkStatus();
  };
  for (const std::string& text : parameters) {
    FORMWORK_RETURN_IF_ERROR(add(text, function->mutable_signature()->add_input_arg()));
  }
  for (const std::string& text : Applied(tokens[3]).second) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits(" = ", 1));
    tf::OpDef::ArgDef* arg = function->mutable_signature()->add_output_arg();
    FORMWORK_RETURN_IF_ERROR(add(parts.first, arg));
    (*function->mutable_ret())[arg->name()] = parts.second;
  }
  if (tokens.size() > 4) {
    for (const std::string& node : Applied(tokens[4]).second) {
      (*function->mutable_control_ret())[node] = node;
    }
  }
  return absl::OkStatus();
}

absl::Status ParseLine(std::vector<std::string> tokens, tf::GraphDef& graph,
                       tf::FunctionDef*& function) {
  if (tokens[0] == "function") {
    function = graph.mutable_library()->add_function();
    return ParseHeader(tokens, function);
  }
  if (tokens[0] == "end") {
    function = nullptr;
    return absl::OkStatus();
  }
  return ParseNode(std::move(tokens), function ? function->add_node_def() : graph.add_node());
}

std::string EdgeText(const Graph& graph, Edge edge) {
  const std::string& name = graph.nodes[edge.node].name;
  return edge.index == 0 ? name : absl::StrCat(name, ":", edge.index);
}

std::string AttrText(const AttrValue& value) {
  auto scalar = [](const auto& x) -> std::string {
    using X = std::decay_t<decltype(x)>;
    if constexpr (std::is_same_v<X, FuncAttr>) {
      return absl::StrCat("@", x.name);
    } else if constexpr (std::is_same_v<X, std::string>) {
      return absl::StrCat("\"", x, "\"");
    } else if constexpr (std::is_same_v<X, PartialShape>) {
      return x.known_rank() ? x.ToString() : "?";
    } else if constexpr (std::is_same_v<X, Tensor>) {
      return absl::StrCat("(", x.DebugString(16), ")");
    } else if constexpr (std::is_same_v<X, DType>) {
      return std::string(DTypeName(x));
    } else if constexpr (std::is_same_v<X, bool>) {
      return x ? "true" : "false";
    } else if constexpr (std::is_same_v<X, std::monostate>) {
      return "";
    } else {
      return absl::StrCat(x);
    }
  };
  return std::visit(
      [&](const auto& x) -> std::string {
        using X = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<X, std::string> || !requires { x.begin(); }) {
          return scalar(x);
        } else {
          std::vector<std::string> items;
          for (size_t i = 0; i < x.size(); ++i) {
            items.push_back(scalar(typename X::value_type(x[i])));
          }
          return absl::StrCat("[", absl::StrJoin(items, ","), "]");
        }
      },
      value);
}

std::string NodeText(const Graph& graph, const Node& node) {
  std::string text = absl::StrCat(node.name, " = ");
  if (node.kind == NodeKind::kArg) {
    return absl::StrCat(text, "Arg ", DTypeName(node.output_dtypes[0]));
  }
  if (node.kind == NodeKind::kConstant) {
    return absl::StrCat(text, "Const ", node.constant.DebugString(16));
  }
  absl::StrAppend(&text, node.op->name);
  if (!node.inputs.empty()) {
    std::vector<std::string> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(EdgeText(graph, edge));
    absl::StrAppend(&text, "(", absl::StrJoin(inputs, ", "), ")");
  }
  for (const AttrDef& def : node.op->attrs) {
    const AttrValue* value = node.attrs->Find(def.name);
    if (value == nullptr || def.kind == AttrKind::kType) continue;
    const std::string shown = AttrText(*value);
    if (def.default_value && AttrText(*def.default_value) == shown) continue;
    absl::StrAppend(&text, " ", def.name, "=", shown);
  }
  for (const auto& [name, value] : node.attrs->entries()) {
    if (name[0] == '_') absl::StrAppend(&text, " ", name, "=", AttrText(value));  // The passes'.
  }
  return text;
}

}  // namespace

tf::TensorProto ToProto(const Tensor& tensor) {
  tf::TensorProto proto;
  proto.set_dtype(static_cast<tf::DataType>(tensor.dtype()));
  for (int64_t dim : tensor.shape().dims()) proto.mutable_tensor_shape()->add_dim()->set_size(dim);
  if (tensor.dtype() == DType::kString) {
    for (const std::string& text : tensor.span<std::string>()) proto.add_string_val(text);
  } else {
    proto.set_tensor_content(std::string(static_cast<const char*>(tensor.raw()), tensor.bytes()));
  }
  return proto;
}

absl::StatusOr<tf::GraphDef> ParseGraph(absl::string_view text) {
  tf::GraphDef graph;
  tf::FunctionDef* function = nullptr;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::Status status = ParseLine(Tokens(line), graph, function);
    if (!status.ok()) return InvalidArgument("\"", line, "\": ", status.message());
  }
  return graph;
}

std::string ToText(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) absl::StrAppend(&text, NodeText(graph, node), "\n");
  std::vector<std::string> results;
  for (const Edge& edge : graph.results) results.push_back(EdgeText(graph, edge));
  return absl::StrCat(text, "-> ", absl::StrJoin(results, ", "), "\n");
}

}  // namespace formwork::testing
