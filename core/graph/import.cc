#include "core/graph/import.h"

#include <algorithm>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/import_body.h"
#include "core/graph/parse_message.h"
#include "core/graph/select_implementations.h"

namespace formwork {
namespace {

// The names of the functions, callees before callers. Refuses recursion, which a plan cannot hold.
absl::StatusOr<std::vector<std::string>> CallOrder(const GraphLibrary& library) {
  HashMap<std::string, std::vector<std::string>> callees;
  HashMap<std::string, int> callers;
  for (const auto& [name, graph] : library) callers.try_emplace(name, 0);
  for (const auto& [name, graph] : library) {
    HashSet<std::string> seen;
    std::vector<std::string>& own = callees[name];
    for (const Node& node : graph->nodes) {
      if (node.op == nullptr) continue;
      for (const FuncAttr* callee : FunctionsOf(*node.op, *node.attrs)) {
        if (library.contains(callee->name) && seen.insert(callee->name).second) {
          own.push_back(callee->name);
          ++callers[callee->name];
        }
      }
    }
  }
  std::vector<std::string> ready;
  for (const auto& [name, count] : callers) {
    if (count == 0) ready.push_back(name);
  }
  std::vector<std::string> order;
  order.reserve(library.size());
  while (!ready.empty()) {
    order.push_back(std::move(ready.back()));
    ready.pop_back();
    for (const std::string& callee : callees[order.back()]) {
      if (--callers[callee] == 0) ready.push_back(callee);
    }
  }
  if (order.size() == library.size()) {
    std::reverse(order.begin(), order.end());
    return order;
  }
  std::vector<std::string> recursive;
  for (const auto& [name, count] : callers) {
    if (count > 0) recursive.push_back(name);
  }
  return InvalidArgument("function '", Shown(*std::min_element(recursive.begin(), recursive.end())),
                         "' is recursive, or is called by a recursive one: that is not supported");
}

bool KernelsRunFunctions(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op != nullptr && node.op->control_flow == ControlFlow::kKernel;
  });
}

// Makes a SymbolicGradient a call of the gradient that the library names.
void CallGradient(const ImportScope& scope, tf::NodeDef& node) {
  if (node.op() != "SymbolicGradient") return;
  tf::NameAttrList& function = *(*node.mutable_attr())["f"].mutable_func();
  const auto gradient = scope.gradients.find(function.name());
  if (gradient == scope.gradients.end()) return;  // It is not reached.
  node.set_op("PartitionedCall");
  function.set_name(gradient->second);
}

// ImportedGraph::definitions.
std::shared_ptr<const std::string> DefinitionsOf(const ImportedGraph& imported,
                                                 const ImportScope& scope) {
  bool run = KernelsRunFunctions(*imported.graph);
  tf::FunctionDefLibrary library;
  for (const auto& [name, graph] : imported.library) run = run || KernelsRunFunctions(*graph);
  if (!run) return nullptr;
  for (const auto& [name, graph] : imported.library) {
    tf::FunctionDef& definition = *library.add_function();
    definition = *scope.functions.at(name);
    definition.mutable_signature()->set_name(name);
    for (tf::NodeDef& node : *definition.mutable_node_def()) CallGradient(scope, node);
  }
  return std::make_shared<const std::string>(library.SerializeAsString());
}

}  // namespace

absl::Status ParseGraphDef(absl::string_view bytes, tf::GraphDef& graph_def) {
  return ParseMessage(bytes, "GraphDef", graph_def);
}

absl::StatusOr<ImportedGraph> ImportGraph(const tf::GraphDef& graph_def, const Cut& cut,
                                          const OpRegistry& ops, Allocator& allocator,
                                          std::vector<std::string>* culprits) {
  ImportScope scope{ops, allocator, {}, {}, {}, {}, {}, 0, 0, {}};
  for (const tf::FunctionDef& function : graph_def.library().function()) {
    if (!scope.functions.try_emplace(function.signature().name(), &function).second) {
      scope.problems.Wrong(
          absl::StrCat("function '", Shown(function.signature().name()), "' is defined twice"));
    }
  }
  SelectImplementations(graph_def.library(), cut.device_type, scope);
  for (const tf::GradientDef& gradient : graph_def.library().gradient()) {
    if (!scope.gradients.try_emplace(gradient.function_name(), gradient.gradient_func()).second) {
      scope.problems.Wrong(
          absl::StrCat("function '", Shown(gradient.function_name()), "' has two gradients"));
    }
  }
  ImportedGraph imported;
  imported.graph = ImportCut(graph_def, cut, scope);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  while (!scope.called.empty()) {
    std::vector<std::string> called;
    called.swap(scope.called);
    for (const std::string& name : called) {
      if (imported.library.contains(name)) continue;
      imported.library[name] = ImportFunction(*scope.functions.at(name), scope);
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
    }
  }
  if (!scope.problems.empty()) {
    if (culprits != nullptr) *culprits = scope.problems.All();
    return scope.problems.ToStatus();
  }
  imported.devices.assign(scope.devices.begin(), scope.devices.end());
  FORMWORK_ASSIGN_OR_RETURN(imported.order, CallOrder(imported.library));
  imported.definitions = DefinitionsOf(imported, scope);
  return imported;
}

}  // namespace formwork
