#include "core/graph/graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace formwork {
namespace {

constexpr size_t kLongestName = 512;

bool AnyNode(const Node& node, bool (*test)(const Node&)) {
  return std::any_of(node.bodies.begin(), node.bodies.end(), [test](const Graph& body) {
    return std::any_of(body.nodes.begin(), body.nodes.end(), test);
  });
}

}  // namespace

bool HasEffect(const Node& node) {
  if (node.kind != NodeKind::kOp) return false;
  if (!node.bodies.empty()) return AnyNode(node, &HasEffect);
  switch (node.op->effect) {
    case Effect::kWrite:
    case Effect::kExternal:
      return true;
    case Effect::kNone:
    case Effect::kRandom:
    case Effect::kRead:
      return false;
  }
  return true;
}

bool NamesResource(const Node& node) {
  // TensorFlow gives this shared_name to resources that nobody else is to find.
  constexpr absl::string_view kAnonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";
  return node.kind == NodeKind::kOp && node.op->handle_of != nullptr &&
         node.op->FindAttr("shared_name") != nullptr &&
         node.attrs->GetOr<std::string>("shared_name", "") != kAnonymousName;
}

bool ChangesState(const Node& node) {
  if (node.kind != NodeKind::kOp) return false;
  if (!node.bodies.empty()) return AnyNode(node, &ChangesState);
  switch (node.op->effect) {
    case Effect::kNone:
    case Effect::kRandom:
    case Effect::kRead:
      return false;
    case Effect::kWrite:
      return true;
    case Effect::kExternal:  // Prints and asserts do not; a call may.
      return node.op->control_flow != ControlFlow::kNone;
  }
  return true;
}

bool AwaitsState(const Node& node) {
  if (node.kind != NodeKind::kOp) return false;
  if (!node.bodies.empty()) return AnyNode(node, &AwaitsState);
  return node.op->waits && node.op->effect == Effect::kWrite;
}

bool AreDistinct(const std::vector<Node>& nodes, Edge a, Edge b) {
  return a != b && nodes[a.node].distinct && nodes[b.node].distinct;
}

std::string NameInside(absl::string_view call, absl::string_view name) {
  if (call.empty()) return std::string(name);
  std::string full = absl::StrCat(call, "/", name);
  if (full.size() > kLongestName) full = full.substr(full.size() - kLongestName);
  return full;
}

int64_t SizeOf(const Graph& graph) {
  int64_t size = 0;
  for (const Node& node : graph.nodes) {
    size += 1 + static_cast<int64_t>(node.inputs.size() + node.output_dtypes.size());
    for (const Graph& body : node.bodies) size += SizeOf(body);
  }
  return size;
}

}  // namespace formwork
