// Gives the nodes of control flow their bodies and puts those of calls in their places.

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/graph/passes/pipeline.h"
#include "core/ops/default_attrs.h"

namespace formwork {
namespace {

// Deeper calls stay calls.
constexpr int kMostDepth = 64;

bool RunsFunctions(const Node& node) {
  return node.kind == NodeKind::kOp && node.op->is_control_flow();
}

// What node names inside one of the bodies begin with after the node's own.
std::string NameOfBody(ControlFlow kind, size_t i) {
  switch (kind) {
    case ControlFlow::kIf:
      return i == 0 ? "then" : "else";
    case ControlFlow::kWhile:
      return i == 0 ? "cond" : "body";
    default:
      return absl::StrCat("branch", i);
  }
}

// Copies a body and what it calls, depth first.
class Inliner {
 public:
  explicit Inliner(const PassContext& context) : context_(context) {}

  void Run(Graph& graph) {
    std::vector<Node> nodes;
    Edges results;
    Copy(graph, nullptr, "", 0, nodes, &graph.args, results);
    graph.results.assign(results.begin(), results.end());
    graph.nodes = std::move(nodes);
  }

 private:
  using Edges = std::vector<Edge>;

  // Adds the nodes of `body` to `nodes`. `arguments`: null where its parameters stay nodes, told in
  // `args`.
  void Copy(const Graph& body, const Edges* arguments, absl::string_view call, int depth,
            std::vector<Node>& nodes, std::vector<int32_t>* args, Edges& results) {
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
      const bool is_call = RunsFunctions(node) && node.op->control_flow == ControlFlow::kCall;
      if (is_call) {
        const FuncAttr& function = *FunctionsOf(*node.op, *node.attrs)[0];
        if (const Graph* callee = ToInline(function, depth)) {
          Edges inner;
          Copy(*callee, &inputs, NameInside(call, node.name), depth + 1, nodes, nullptr, inner);
          moved[i].assign(inner.begin(), inner.end());
          continue;
        }
      }
      const int32_t at = static_cast<int32_t>(nodes.size());
      if (node.kind == NodeKind::kArg) (*args)[node.arg] = at;
      for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
        moved[i].push_back({at, static_cast<int32_t>(k)});
      }
      Node copy = node;
      copy.inputs = std::move(inputs);
      // A resource without a shared_name is known by the node's name, wherever it is called from.
      if (node.op == nullptr || node.op->handle_of == nullptr)
        copy.name = NameInside(call, node.name);
      if (RunsFunctions(node) && !is_call) {
        const std::string name = NameInside(call, node.name);
        for (const FuncAttr* function : FunctionsOf(*node.op, *node.attrs)) {
          const std::string body = NameOfBody(node.op->control_flow, copy.bodies.size());
          copy.bodies.push_back(MakeBody(node, *function, NameInside(name, body), depth));
        }
      }
      nodes.push_back(std::move(copy));
    }
    results.reserve(body.results.size());
    for (const Edge& result : body.results) results.push_back(moved[result.node][result.index]);
  }

  // The body of a loop or branch, or a call of it where that is not to be copied.
  Graph MakeBody(const Node& owner, const FuncAttr& function, const std::string& call, int depth) {
    const Graph& callee = *context_.library.at(function.name);
    Graph body;
    body.name = callee.name;
    body.arg_dtypes = callee.arg_dtypes;
    body.args.resize(callee.args.size());
    if (ToInline(function, depth) != nullptr) {
      Copy(callee, nullptr, call, depth + 1, body.nodes, &body.args, body.results);
      return body;
    }
    Node node;
    node.name = call;
    node.op = context_.ops.Find(owner.op->effect == Effect::kNone ? "PartitionedCall"
                                                                  : "StatefulPartitionedCall");
    auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*node.op));
    attrs->Set("f", function);
    node.attrs = std::move(attrs);
    for (const Edge& result : callee.results) node.output_dtypes.push_back(callee.dtype(result));
    for (size_t i = 0; i < callee.args.size(); ++i) {
      body.args[i] = static_cast<int32_t>(i);
      node.inputs.push_back({static_cast<int32_t>(i), 0});
      body.nodes.push_back(callee.nodes[callee.args[i]]);
    }
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      body.results.push_back({static_cast<int32_t>(body.nodes.size()), static_cast<int32_t>(k)});
    }
    body.nodes.push_back(std::move(node));
    return body;
  }

  // The body to put in a call's place; null where the call stays.
  const Graph* ToInline(const FuncAttr& function, int depth) {
    if (depth >= kMostDepth) return nullptr;
    const Graph* const body = context_.library.at(function.name).get();
    auto [size, inserted] = sizes_.try_emplace(body, 0);
    if (inserted) size->second = SizeOf(*body);
    if (size->second > context_.budget.inlined) return nullptr;
    context_.budget.inlined -= size->second;
    return body;
  }

  const PassContext& context_;
  HashMap<const Graph*, int64_t> sizes_;
};

}  // namespace

void InlineCalls(Graph& graph, const PassContext& context) {
  for (const Node& node : graph.nodes) {
    if (RunsFunctions(node)) return Inliner(context).Run(graph);
  }
}

}  // namespace formwork
