#include "core/graph/saved_model.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/decode.h"
#include "core/graph/import_problems.h"
#include "core/graph/parse_message.h"
#include "formwork/tf/saved_model.pb.h"
#include "google/protobuf/arena.h"

namespace formwork {
namespace {

constexpr char kServe[] = "serve";
// What is called so is not for callers.
constexpr char kInitialize[] = "__saved_model_init_op";
constexpr char kTrain[] = "__saved_model_train_op";

// Of a tensor's name, or of an input's.
std::string NodeOf(absl::string_view name) {
  name = absl::StripPrefix(name, "^");
  return std::string(name.substr(0, name.find(':')));
}

std::set<std::string> TagsOf(const tf::MetaGraphDef& graph) {
  const auto& tags = graph.meta_info_def().tags();
  return {tags.begin(), tags.end()};
}

absl::StatusOr<tf::MetaGraphDef*> Choose(tf::SavedModel& model,
                                         absl::Span<const std::string> tags) {
  if (tags.empty() && model.meta_graphs_size() == 1) return model.mutable_meta_graphs(0);
  const std::set<std::string> wanted = tags.empty()
                                           ? std::set<std::string>{kServe}
                                           : std::set<std::string>(tags.begin(), tags.end());
  std::vector<std::string> there;
  for (tf::MetaGraphDef& graph : *model.mutable_meta_graphs()) {
    const std::set<std::string> its = TagsOf(graph);
    if (its == wanted) return &graph;
    there.push_back(absl::StrCat("'", Shown(absl::StrJoin(its, ",")), "'"));
  }
  return NotFound("the SavedModel has no graph with the tags '", Shown(absl::StrJoin(wanted, ",")),
                  "'; it has ", there.empty() ? "none" : absl::StrJoin(there, ", "));
}

// Adds what stands for `info`.
absl::Status AddArguments(const std::string& name, const tf::TensorInfo& info,
                          std::vector<SavedModel::Argument>& arguments) {
  if (info.has_composite_tensor()) {
    int i = 0;
    for (const tf::TensorInfo& part : info.composite_tensor().components()) {
      FORMWORK_RETURN_IF_ERROR(
          AddArguments(absl::StrCat(name, "_component_", i++), part, arguments));
    }
    return absl::OkStatus();
  }
  const DType dtype = DTypeFromNumber(info.dtype());
  if (!IsKnown(dtype)) return InvalidArgument("it has an unknown dtype: ", info.dtype());
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, DecodeShape(info.tensor_shape()));
  if (info.has_coo_sparse()) {
    const tf::TensorInfo::CooSparse& sparse = info.coo_sparse();
    const auto add = [&](const char* part, const std::string& tensor, DType of,
                         std::initializer_list<int64_t> dims) {
      arguments.push_back({absl::StrCat(name, part), {tensor, of, PartialShape::Trusted(dims)}});
    };
    add("_indices", sparse.indices_tensor_name(), DType::kInt64, {-1, shape.rank()});
    add("_values", sparse.values_tensor_name(), dtype, {-1});
    add("_dense_shape", sparse.dense_shape_tensor_name(), DType::kInt64, {shape.rank()});
    return absl::OkStatus();
  }
  arguments.push_back({name, {info.name(), dtype, std::move(shape)}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SavedModel::Argument>> ArgumentsOf(
    const google::protobuf::Map<std::string, tf::TensorInfo>& infos) {
  std::map<std::string, const tf::TensorInfo*> by_name;
  for (const auto& [name, info] : infos) by_name.emplace(name, &info);
  std::vector<SavedModel::Argument> arguments;
  for (const auto& [name, info] : by_name) {
    FORMWORK_RETURN_IF_ERROR(
        Annotate(AddArguments(name, *info, arguments), absl::StrCat("'", Shown(name), "'")));
  }
  std::stable_sort(arguments.begin(), arguments.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  return arguments;
}

absl::StatusOr<std::vector<SavedModel::Signature>> SignaturesOf(const tf::MetaGraphDef& graph) {
  std::map<std::string, SavedModel::Signature> signatures;
  for (const auto& [name, def] : graph.signature_def()) {
    if (name == kInitialize || name == kTrain) continue;
    const std::string where = absl::StrCat("signature '", Shown(name), "'");
    auto inputs = ArgumentsOf(def.inputs());
    FORMWORK_RETURN_IF_ERROR(Annotate(inputs.status(), where));
    auto outputs = ArgumentsOf(def.outputs());
    FORMWORK_RETURN_IF_ERROR(Annotate(outputs.status(), where));
    signatures.emplace(name, SavedModel::Signature{name, *std::move(inputs), *std::move(outputs)});
  }
  std::vector<SavedModel::Signature> by_name;
  for (auto& [name, signature] : signatures) by_name.push_back(std::move(signature));
  return by_name;
}

// The node that TensorFlow's own loader runs once variables have their values; empty: none.
std::string InitializeOf(const tf::MetaGraphDef& graph) {
  const auto signature = graph.signature_def().find(kInitialize);
  if (signature != graph.signature_def().end()) {
    const auto output = signature->second.outputs().find(kInitialize);
    if (output != signature->second.outputs().end()) return NodeOf(output->second.name());
  }
  for (const char* name : {"saved_model_main_op", "legacy_init_op"}) {
    const auto collection = graph.collection_def().find(name);
    if (collection == graph.collection_def().end()) continue;
    const auto& nodes = collection->second.node_list().value();
    if (!nodes.empty()) return NodeOf(nodes[0]);
  }
  return "";
}

// TensorFlow 1 has them in a collection alone.
absl::StatusOr<std::vector<SavedModel::Asset>> AssetsOf(const tf::MetaGraphDef& graph) {
  std::vector<SavedModel::Asset> assets;
  for (const tf::AssetFileDef& asset : graph.asset_file_def()) {
    assets.push_back({asset.tensor_info().name(), asset.filename()});
  }
  const auto collection = graph.collection_def().find("saved_model_assets");
  if (!assets.empty() || collection == graph.collection_def().end()) return assets;
  for (const tf::CollectionDef::Any& any : collection->second.any_list().value()) {
    tf::AssetFileDef asset;
    FORMWORK_RETURN_IF_ERROR(ParseMessage(any.value(), "AssetFileDef", asset));
    assets.push_back({asset.tensor_info().name(), asset.filename()});
  }
  return assets;
}

// Whether it may name a resource: by its attr `container`, which is left out where it is empty.
bool MayNameResource(const tf::NodeDef& node, const OpRegistry& ops) {
  if (node.op() == "VariableV2" || node.op() == "Variable") return true;
  const OpDef* const op = ops.Find(node.op());
  return node.attr().contains("container") ||
         (op != nullptr && op->FindAttr("container") != nullptr);
}

void PutIntoContainer(google::protobuf::RepeatedPtrField<tf::NodeDef>& nodes,
                      absl::string_view container, const OpRegistry& ops) {
  for (tf::NodeDef& node : nodes) {
    if (WorkIsCut()) return;
    if (!MayNameResource(node, ops)) continue;
    std::string& own = *(*node.mutable_attr())["container"].mutable_s();
    own = own.empty() ? std::string(container) : absl::StrCat(container, "/", own);
  }
}

}  // namespace

absl::StatusOr<SavedModel> ParseSavedModel(absl::string_view bytes,
                                           absl::Span<const std::string> tags,
                                           absl::string_view container, const OpRegistry& ops) {
  // In an arena, because a parse that an exception ends leaves maps that cannot be destroyed.
  google::protobuf::Arena arena;
  tf::SavedModel& message = *google::protobuf::Arena::CreateMessage<tf::SavedModel>(&arena);
  FORMWORK_RETURN_IF_ERROR(ParseMessage(bytes, "SavedModel", message));
  FORMWORK_ASSIGN_OR_RETURN(tf::MetaGraphDef* const graph, Choose(message, tags));
  SavedModel model;
  FORMWORK_ASSIGN_OR_RETURN(model.signatures, SignaturesOf(*graph));
  const tf::SaverDef& saver = graph->saver_def();
  if (!saver.restore_op_name().empty()) {
    model.restore = NodeOf(saver.restore_op_name());
    model.restored_prefix = saver.filename_tensor_name();
  }
  model.initialize = InitializeOf(*graph);
  FORMWORK_ASSIGN_OR_RETURN(model.assets, AssetsOf(*graph));
  tf::GraphDef& nodes = *graph->mutable_graph_def();
  PutIntoContainer(*nodes.mutable_node(), container, ops);
  for (tf::FunctionDef& function : *nodes.mutable_library()->mutable_function()) {
    PutIntoContainer(*function.mutable_node_def(), container, ops);
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (nodes.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !nodes.SerializeToString(&model.graph_def)) {
    return InvalidArgument("the SavedModel's graph is too large: bytes=", nodes.ByteSizeLong());
  }
  return model;
}

}  // namespace formwork
