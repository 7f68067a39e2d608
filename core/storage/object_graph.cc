#include "core/storage/object_graph.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "formwork/tf/trackable_object_graph.pb.h"

namespace formwork {
namespace {

constexpr char kAttribute[] = "VARIABLE_VALUE";
constexpr char kSuffix[] = "/.ATTRIBUTES/VARIABLE_VALUE";

}  // namespace

std::string VariableKey(absl::string_view path) {
  // As TensorFlow escapes names: what begins with a single dot is its own.
  return absl::StrCat(absl::StrReplaceAll(path, {{".", ".."}}), kSuffix);
}

std::string PathOfKey(absl::string_view key) {
  if (!absl::ConsumeSuffix(&key, kSuffix)) return "";
  return absl::StrReplaceAll(key, {{"..", "."}, {".S", "/"}});
}

std::string MakeObjectGraph(const std::vector<std::string>& names) {
  tf::TrackableObjectGraph graph;
  graph.add_nodes();
  std::map<std::pair<int, std::string>, int> children;
  for (const std::string& name : names) {
    int node = 0;
    for (const absl::string_view part : absl::StrSplit(name, '/')) {
      const auto [found, made] = children.emplace(std::pair(node, std::string(part)), 0);
      if (made) {
        found->second = graph.nodes_size();
        auto* child = graph.mutable_nodes(node)->add_children();
        child->set_node_id(found->second);
        child->set_local_name(std::string(part));
        graph.add_nodes();
      }
      node = found->second;
    }
    auto* attribute = graph.mutable_nodes(node)->add_attributes();
    attribute->set_name(kAttribute);
    attribute->set_full_name(name);
    attribute->set_checkpoint_key(VariableKey(name));
  }
  return graph.SerializeAsString();
}

absl::StatusOr<std::map<std::string, std::string>> VariableNames(absl::string_view text) {
  tf::TrackableObjectGraph graph;
  if (text.size() > INT32_MAX ||
      !graph.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    return absl::DataLossError("the checkpoint's object graph cannot be read");
  }
  std::map<std::string, std::string> names;
  std::map<std::string, int> times;
  for (const auto& node : graph.nodes()) {
    for (const auto& attribute : node.attributes()) {
      if (attribute.name() != kAttribute || attribute.full_name().empty()) continue;
      if (names.emplace(attribute.checkpoint_key(), attribute.full_name()).second) {
        ++times[attribute.full_name()];
      }
    }
  }
  std::erase_if(names, [&](const auto& entry) { return times[entry.second] > 1; });
  return names;
}

}  // namespace formwork
