
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/graph/passes/pipeline.h"

namespace formwork {
namespace {

// Deeper calls stay calls.
constexpr int kMostDepth = 64;
// Names serve errors: of a longer one the end is kept.
constexpr size_t kLongestName = 512;

bool IsCall(const Node& node) {
  // The one attr of kind func of a plain call is `f`; loops and conditionals have others.
  return node.op != nullptr && node.kind == NodeKind::kOp && node.op->attrs.size() >= 3 &&
         node.op->FindAttr("f") != nullptr && node.op->FindAttr("Tin") != nullptr &&
         node.op->FindAttr("Tout") != nullptr;
}

std::string Inside(absl::string_view call, absl::string_view name) {
  if (call.empty()) return std::string(name);
  std::string full = absl::StrCat(call, "/", name);
  if (full.size() > kLongestName) full = full.substr(full.size() - kLongestName);
  return full;
}

// Nodes and outputs: what inlining a body adds.
int64_t SizeOf(const Graph& body) {
  int64_t size = 0;
  for (const Node& node : body.nodes) {
    size += 1 + static_cast<int64_t>(node.inputs.size() + node.output_dtypes.size());
  }
  return size;
}

// Copies a body and what it calls, depth first, into one list.
class Inliner {
 public:
  explicit Inliner(const PassContext& context) : context_(context) {}

  void Run(Graph& graph) {
    Edges results;
    Copy(graph, nullptr, "", 0, &graph.args, results);
    graph.results.assign(results.begin(), results.end());
    graph.nodes = std::move(nodes_);
  }

 private:
  using Edges = std::vector<Edge>;

  // `arguments`: null for the outermost body, whose parameters stay nodes, told in `args`.
  void Copy(const Graph& body, const Edges* arguments, absl::string_view call, int depth,
            std::vector<int32_t>* args, Edges& results) {
    std::vector<absl::InlinedVector<Edge, 1>> moved(body.nodes.size());
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      if (WorkIsCut()) return;
      const Node& node = body.nodes[i];
      if (node.kind == NodeKind::kArg && arguments != nullptr) {
        moved[i] = {(*arguments)[node.arg]};
        continue;
      }
      Edges inputs;
      inputs.reserve(node.inputs.size());
      for (const Edge& edge : node.inputs) inputs.push_back(moved[edge.node][edge.index]);
      if (const Graph* callee = ToInline(node, depth)) {
        Edges inner;
        Copy(*callee, &inputs, Inside(call, node.name), depth + 1, nullptr, inner);
        moved[i].assign(inner.begin(), inner.end());
        continue;
      }
      const int32_t at = static_cast<int32_t>(nodes_.size());
      if (node.kind == NodeKind::kArg) (*args)[node.arg] = at;
      for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
        moved[i].push_back({at, static_cast<int32_t>(k)});
      }
      Node& copy = nodes_.emplace_back(node);
      copy.inputs = std::move(inputs);
      // A variable without a shared_name is known by the node's name, wherever it is called from.
      if (node.op == nullptr || !node.op->names_variable) copy.name = Inside(call, node.name);
    }
    results.reserve(body.results.size());
    for (const Edge& result : body.results) results.push_back(moved[result.node][result.index]);
  }

  // The body to put in a node's place; null where the node stays.
  const Graph* ToInline(const Node& node, int depth) {
    if (depth >= kMostDepth || !IsCall(node)) return nullptr;
    const auto* function = std::get_if<FuncAttr>(node.attrs->Find("f"));
    if (function == nullptr) return nullptr;
    auto found = context_.library.find(function->name);
    if (found == context_.library.end()) return nullptr;
    const Graph* body = found->second.get();
    if (body->args.size() != node.inputs.size()) return nullptr;
    auto [size, inserted] = sizes_.try_emplace(body, 0);
    if (inserted) size->second = SizeOf(*body);
    if (size->second > context_.budget.inlined) return nullptr;
    context_.budget.inlined -= size->second;
    return body;
  }

  const PassContext& context_;
  std::vector<Node> nodes_;
  HashMap<const Graph*, int64_t> sizes_;
};

}  // namespace

void InlineCalls(Graph& graph, const PassContext& context) {
  for (const Node& node : graph.nodes) {
    if (IsCall(node)) return Inliner(context).Run(graph);
  }
}

}  // namespace formwork
