#include "core/kernels/data/stored_iterator.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/storage/graph_writer.h"

namespace formwork {
namespace {

// Writes the nodes of datasets, inputs before those that have them.
class Writer {
 public:
  // The name of what makes the dataset again.
  absl::StatusOr<std::string> Add(const Dataset& dataset) {
    const auto known = names_.find(&dataset);
    if (known != names_.end()) return known->second;
    if (dataset.made_by == nullptr) return Unimplemented("a dataset of elements that were held");
    const DatasetNode& node = *dataset.made_by;
    std::vector<std::string> inputs;
    for (const Tensor& input : dataset.inputs) {
      FORMWORK_ASSIGN_OR_RETURN(std::string name, AddInput(input));
      inputs.push_back(std::move(name));
    }
    std::string name = absl::StrCat("d", names_.size());
    graph_.AddNode(name, node.op, inputs);
    for (const auto& [attr, value] : node.attrs.entries()) {
      FORMWORK_RETURN_IF_ERROR(Annotate(Set(attr, value), node.op));
    }
    FORMWORK_RETURN_IF_ERROR(AddFunctions(node));
    names_.emplace(&dataset, name);
    return name;
  }

  StoredDataset Finish(const std::string& dataset) {
    graph_.AddNode("iterator", "Placeholder", {});
    graph_.Set("dtype", DType::kResource);
    graph_.AddNode("revive", "_ReviveIterator", {dataset, "iterator"});
    return {graph_.Finish(), std::move(values_), std::move(resources_)};
  }

 private:
  absl::StatusOr<std::string> AddInput(const Tensor& input) {
    if (input.dtype() == DType::kVariant) {
      const absl::StatusOr<DatasetPtr> dataset = DatasetFromTensor(input);
      if (!dataset.ok()) return Unimplemented("a dataset that has a variant, which is no dataset");
      return Add(**dataset);
    }
    if (input.dtype() != DType::kResource) {
      std::string name = absl::StrCat("t", values_.size());
      AddPlaceholder(name, input.dtype());
      values_.push_back(input);
      return name;
    }
    if (input.rank() != 0) return Unimplemented("a dataset that has several handles");
    const uint64_t id = input.scalar<ResourceHandle>().id;
    if (id == 0) {  // Nothing is behind it (DummySeedGenerator).
      if (nothing_.empty()) {
        nothing_ = "nothing";
        graph_.AddNode(nothing_, "DummySeedGenerator", {});
      }
      return nothing_;
    }
    std::string name = absl::StrCat("r", resources_.size());
    AddPlaceholder(name, DType::kResource);
    resources_.push_back(id);
    return name;
  }

  void AddPlaceholder(const std::string& name, DType dtype) {
    graph_.AddNode(name, "Placeholder", {});
    graph_.Set("dtype", dtype);
  }

  absl::Status Set(const std::string& attr, const AttrValue& value) {
    return std::visit(
        [&](const auto& known) -> absl::Status {
          using T = std::decay_t<decltype(known)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            return absl::OkStatus();
          } else if constexpr (std::is_same_v<T, FuncAttr>) {
            graph_.SetFunction(attr, known.name);
            return absl::OkStatus();
          } else if constexpr (std::is_same_v<T, Tensor> ||
                               std::is_same_v<T, std::vector<Tensor>> ||
                               std::is_same_v<T, std::vector<FuncAttr>>) {
            return Unimplemented("its attr '", attr, "' cannot be stored");
          } else {
            graph_.Set(attr, known);
            return absl::OkStatus();
          }
        },
        value);
  }

  absl::Status AddFunctions(const DatasetNode& node) {
    for (const auto& [attr, value] : node.attrs.entries()) {
      const FuncAttr* function = std::get_if<FuncAttr>(&value);
      if (function == nullptr) continue;
      if (node.definitions == nullptr) return Unimplemented("its functions cannot be stored");
      FORMWORK_RETURN_IF_ERROR(
          Annotate(graph_.AddFunction(function->name, *node.definitions), node.op));
    }
    return absl::OkStatus();
  }

  GraphWriter graph_;
  HashMap<const Dataset*, std::string> names_;
  Element values_;
  std::vector<uint64_t> resources_;
  std::string nothing_;
};

absl::Status Malformed() { return InvalidArgument("it is no stored iterator"); }

}  // namespace

absl::StatusOr<StoredDataset> StoredDataset::Of(const Dataset& dataset) {
  Writer writer;
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, writer.Add(dataset));
  return writer.Finish(name);
}

std::shared_ptr<const UsedResources> StoredDataset::ToUses() const {
  if (resources.empty()) return nullptr;
  UsedResources uses;
  for (uint64_t id : resources) uses.push_back({id, Access::kWrite});
  std::sort(uses.begin(), uses.end(),
            [](const UsedResource& a, const UsedResource& b) { return a.id < b.id; });
  uses.erase(std::unique(uses.begin(), uses.end(),
                         [](const UsedResource& a, const UsedResource& b) { return a.id == b.id; }),
             uses.end());
  return std::make_shared<const UsedResources>(std::move(uses));
}

Revival StoredDataset::ToRevival() const {
  Revival revival{graph_def, {}, {}, "iterator:0", "revive"};
  for (size_t i = 0; i < values.size(); ++i) {
    revival.values.emplace_back(absl::StrCat("t", i, ":0"), values[i]);
  }
  for (size_t i = 0; i < resources.size(); ++i) {
    revival.resources.emplace_back(absl::StrCat("r", i, ":0"), resources[i]);
  }
  return revival;
}

// The graph; how many values and IDs, the IDs, the position's numbers; the values; its tensors.
absl::StatusOr<std::vector<Tensor>> StoredIterator::ToParts(Allocator& allocator) const {
  std::vector<int64_t> all = {static_cast<int64_t>(dataset.values.size()),
                              static_cast<int64_t>(dataset.resources.size())};
  for (const uint64_t id : dataset.resources) all.push_back(static_cast<int64_t>(id));
  all.insert(all.end(), numbers.begin(), numbers.end());
  std::vector<Tensor> parts = {Tensor::StringScalar(dataset.graph_def)};
  FORMWORK_ASSIGN_OR_RETURN(Tensor held, Tensor::Allocate(allocator, DType::kInt64,
                                                          Shape{static_cast<int64_t>(all.size())}));
  std::copy(all.begin(), all.end(), held.mutable_data<int64_t>());
  parts.push_back(std::move(held));
  parts.insert(parts.end(), dataset.values.begin(), dataset.values.end());
  parts.insert(parts.end(), tensors.begin(), tensors.end());
  return parts;
}

absl::StatusOr<StoredIterator> StoredIterator::FromParts(const std::vector<Tensor>& parts) {
  if (parts.size() < 2 || parts[0].dtype() != DType::kString || parts[0].rank() != 0 ||
      parts[1].dtype() != DType::kInt64 || parts[1].rank() != 1 || parts[1].dim(0) < 2) {
    return Malformed();
  }
  const absl::Span<const int64_t> all = parts[1].span<int64_t>();
  if (all[0] < 0 || static_cast<size_t>(all[0]) > parts.size() - 2) return Malformed();
  if (all[1] < 0 || static_cast<size_t>(all[1]) > all.size() - 2) return Malformed();
  StoredIterator stored;
  stored.dataset.graph_def = parts[0].scalar<std::string>();
  const auto values = parts.begin() + 2 + all[0];
  stored.dataset.values.assign(parts.begin() + 2, values);
  stored.tensors.assign(values, parts.end());
  const auto ids = all.begin() + 2 + all[1];
  stored.dataset.resources.assign(all.begin() + 2, ids);
  stored.numbers.assign(ids, all.end());
  return stored;
}

}  // namespace formwork
