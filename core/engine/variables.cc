// Variables as requests of their own: made, read, written, deleted.

#include <optional>
#include <utility>

#include "core/base/hash_map.h"
#include "core/base/name.h"
#include "core/base/reason.h"
#include "core/base/stable_hash.h"
#include "core/base/status.h"
#include "core/engine/task.h"

namespace formwork {
namespace {

ResourceInfo InfoOf(const Resource& resource) {
  return {resource.id,        resource.name,   resource.type, resource.initialized(),
          resource.version(), resource.bytes()};
}

// What a write has changed.
void Refresh(const Resource& variable, ResourceInfo& info) {
  info.initialized = variable.initialized();
  info.version = variable.version();
  info.bytes = variable.bytes();
}

}  // namespace

absl::Status NoResource(const Target& target, absl::string_view kind) {
  if (target.id != 0) {
    return WithReason(NotFound("there is no ", kind, " of id=", target.id),
                      Reason::kVariableNotFound, {{"variableId", target.id}});
  }
  return WithReason(NotFound("there is no ", kind, " '", target.name, "'"),
                    Reason::kVariableNotFound, {{"variableName", target.name}});
}

/// Reads or writes several variables at one place in line.
template <typename Result>
class VariablesTask : public TaskOf<Result> {
 protected:
  using TaskOf<Result>::TaskOf;

  bool runs_inline() override { return true; }
  absl::Status Add(const Target& target, Access mode, std::vector<AccessRequest>& access) {
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Resource> variable,
                              this->engine_.FindVariable(this->name_space_, target));
    access.push_back({variable, mode});
    variables_.push_back(std::move(variable));
    return absl::OkStatus();
  }

  void DropRequest() override { variables_.clear(); }

  std::vector<std::shared_ptr<Resource>> variables_;  // In the order asked.
};

class ReadTask final : public VariablesTask<ReadResult> {
 public:
  ReadTask(EngineImpl& engine, ReadSpec spec, Done done)
      : VariablesTask(engine, std::move(spec.name_space), spec.deadline, std::move(done)),
        targets_(std::move(spec.variables)) {}

 private:
  absl::Status Prepare(std::vector<AccessRequest>& access) override {
    access.reserve(targets_.size());
    for (size_t i = 0; i < targets_.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(
          InField(Add(targets_[i], Access::kRead, access), absl::StrCat("variables[", i, "]")));
    }
    return absl::OkStatus();
  }
  void Run() override {
    if (!read_) {
      read_ = HoldToBudget(engine_.memory_, [this] { return Read(); });
      ticket_.ReleaseAll();
    }
    absl::Status status = *read_;
    if (streams() != nullptr) {
      const std::optional<absl::Status> copied =
          OnceReady(0, [this] { return streams()->TakeResults(absl::MakeSpan(values_)); });
      if (!copied) return;
      status.Update(*copied);
      CloseStream();
    }
    if (!status.ok()) {
      result_.values.clear();
      return Refuse(std::move(status));
    }
    for (size_t i = 0; i < values_.size(); ++i) result_.values[i].value = std::move(values_[i]);
    Answer();
  }
  // The values; of those on a device copies are enqueued.
  absl::Status Read() {
    result_.values.reserve(variables_.size());
    values_.reserve(variables_.size());
    FORMWORK_RETURN_IF_ERROR(OpenStream());
    for (const auto& variable : variables_) {
      absl::StatusOr<Tensor> value = streams() == nullptr ? ticket_.Read({variable->id})
                                                          : ticket_.ReadEnqueued({variable->id});
      if (!value.ok()) {
        return InField(value.status(), absl::StrCat("variables[", values_.size(), "]"));
      }
      result_.values.push_back({InfoOf(*variable), Tensor()});
      values_.push_back(*std::move(value));
    }
    return streams() == nullptr ? absl::OkStatus() : streams()->EnqueueResults(values_);
  }
  void DropResult() override { result_.values.clear(); }
  void DropRequest() override {
    targets_.clear();
    values_.clear();
    VariablesTask::DropRequest();
  }

  std::vector<Target> targets_;
  std::optional<absl::Status> read_;  // How that went.
  std::vector<Tensor> values_;
};

class AssignTask final : public VariablesTask<AssignResult> {
 public:
  AssignTask(EngineImpl& engine, AssignSpec spec, Done done)
      : VariablesTask(engine, std::move(spec.name_space), spec.deadline, std::move(done)),
        values_(std::move(spec.values)) {
    request_ = std::move(spec.request);
  }

 private:
  uint64_t ContentHash() override {
    StableHash hash;
    for (const auto& [target, value] : values_) {
      hash.Add(target.id).Add(target.name).Add(static_cast<uint64_t>(value.dtype()));
      hash.Add(value.bytes());
    }
    return hash.value();
  }
  absl::Status Prepare(std::vector<AccessRequest>& access) override {
    access.reserve(values_.size());
    HashSet<uint64_t> seen;
    for (size_t i = 0; i < values_.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(InField(Assign(values_[i].first, values_[i].second, access, seen),
                                       absl::StrCat("assignments[", i, "]")));
    }
    if (!is_logged()) return absl::OkStatus();
    uint64_t bytes = 0;
    for (const auto& [target, value] : values_) bytes += value.bytes();
    return log_->Admit(bytes);
  }
  absl::Status Assign(const Target& target, const Tensor& value, std::vector<AccessRequest>& access,
                      HashSet<uint64_t>& seen) {
    FORMWORK_RETURN_IF_ERROR(InField(Add(target, Access::kWrite, access), "variable"));
    const Resource& variable = *variables_.back();
    FORMWORK_RETURN_IF_ERROR(InField(AccessTicket::CheckFits(variable, value), "value"));
    if (seen.insert(variable.id).second) return absl::OkStatus();
    return InField(InvalidArgument("variable '", variable.name, "' is to be written twice at once"),
                   "variable");
  }
  void Run() override {
    if (!placed_) {
      // All that needs memory first, so that all are written or none.
      placed_ = HoldToBudget(engine_.memory_, [this] { return PlaceValues(); });
      if (placed_->ok()) {
        Write();
      } else {
        for (const auto& variable : variables_) {  // They stay as large as they are.
          (void)ticket_.Reserve({variable->id}, variable->bytes());
        }
      }
      if (!gives_back_last()) GiveBack();
    }
    if (streams() != nullptr) {
      const std::optional<absl::Status> ran = OnceReady(0, [this] { return streams()->Ready(); });
      if (!ran) return;
      result_.status.Update(*ran);
      if (gives_back_last()) GiveBack();
      CloseStream();
    }
    if (placed_->ok()) return Answer();
    result_.variables.clear();
    Refuse(*std::move(placed_));
  }
  void GiveBack() {
    if (placed_->ok()) LogWithChanges(std::nullopt);
    ticket_.ReleaseAll();
    if (engine_.snapshots_ != nullptr && placed_->ok()) {
      engine_.snapshots_->CountChange(name_space_);
    }
  }
  // What their namespace has room for. Those of plain data: on the device, where there is one.
  absl::Status PlaceValues() {
    for (const auto& variable : variables_) result_.variables.push_back(InfoOf(*variable));
    for (size_t i = 0; i < variables_.size(); ++i) {
      const absl::Status reserved = ticket_.Reserve({variables_[i]->id}, values_[i].second.bytes());
      if (!reserved.ok()) return InField(reserved, absl::StrCat("assignments[", i, "].value"));
    }
    FORMWORK_RETURN_IF_ERROR(OpenStream());
    for (size_t i = 0; streams() != nullptr && i < values_.size(); ++i) {
      Tensor& value = values_[i].second;
      if (!IsPlainData(value.dtype())) continue;
      FORMWORK_ASSIGN_OR_RETURN(value, streams()->ToDevice(value));
    }
    return absl::OkStatus();
  }
  void Write() {
    for (size_t i = 0; i < variables_.size(); ++i) {
      const Resource& variable = *variables_[i];
      // Cannot fail: it fits, and it is this ticket's to write.
      Tensor& value = values_[i].second;
      result_.status = value.on_device() ? ticket_.AssignEnqueued({variable.id}, std::move(value))
                                         : ticket_.Assign({variable.id}, std::move(value));
      if (!result_.status.ok()) break;
      Refresh(variable, result_.variables[i]);
    }
  }
  void DropRequest() override {
    values_.clear();
    VariablesTask::DropRequest();
  }

  std::vector<std::pair<Target, Tensor>> values_;
  std::optional<absl::Status> placed_;  // How PlaceValues went.
};

size_t BytesOf(const AssignResult& result) {
  size_t bytes = result.status.message().size();
  for (const ResourceInfo& variable : result.variables) {
    bytes += sizeof(variable) + variable.name.size();
  }
  return bytes;
}

std::shared_ptr<CallHandle> EngineImpl::ReadVariables(ReadSpec spec,
                                                      absl::AnyInvocable<void(ReadResult)> done) {
  return std::make_shared<ReadTask>(*this, std::move(spec), std::move(done));
}

std::shared_ptr<CallHandle> EngineImpl::AssignVariables(
    AssignSpec spec, absl::AnyInvocable<void(AssignResult)> done) {
  return std::make_shared<AssignTask>(*this, std::move(spec), std::move(done));
}

absl::StatusOr<Engine::CreatedVariable> EngineImpl::CreateVariable(absl::string_view name_space,
                                                                   absl::string_view name,
                                                                   DType dtype,
                                                                   const PartialShape& shape,
                                                                   std::optional<Tensor> value) {
  name_space = NamespaceOf(name_space);
  FORMWORK_RETURN_IF_ERROR(InField(CheckName("namespace", name_space), "namespace"));
  FORMWORK_RETURN_IF_ERROR(memory_.CheckRoom(name.size()));
  if (GroupCommit* const log = LogOf(name_space)) {
    FORMWORK_RETURN_IF_ERROR(log->Admit(value ? value->bytes() : 0));
  }
  CreatedVariable created;
  if (value && resources_.FindByName(name_space, name) == nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(value, PlaceValue(*std::move(value)));
  }
  FORMWORK_ASSIGN_OR_RETURN(
      std::shared_ptr<Resource> variable,
      resources_.Create(name_space, name, ResourceType::Variable(dtype, shape), std::move(value),
                        /*exact_shape=*/true, &created.existed));
  created.variable = formwork::InfoOf(*variable);
  return created;
}

absl::StatusOr<std::shared_ptr<Resource>> EngineImpl::FindResource(absl::string_view name_space,
                                                                   const Target& target,
                                                                   absl::string_view kind) {
  name_space = NamespaceOf(name_space);
  std::shared_ptr<Resource> resource =
      target.id != 0 ? resources_.Find(target.id) : resources_.FindByName(name_space, target.name);
  if (resource != nullptr && resource->name_space == name_space) return resource;
  return InField(NoResource(target, kind), target.id != 0 ? "id" : "name");
}

absl::StatusOr<std::shared_ptr<Resource>> EngineImpl::FindVariable(absl::string_view name_space,
                                                                   const Target& target) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Resource> resource,
                            FindResource(name_space, target, kVariableKind.name));
  if (resource->type.is_variable()) return resource;
  return InField(InvalidArgument(Described(*resource), " is not a variable"),
                 target.id != 0 ? "id" : "name");
}

absl::StatusOr<ResourceInfo> EngineImpl::GetResource(absl::string_view name_space,
                                                     const Target& resource) {
  const absl::StatusOr<std::shared_ptr<Resource>> found = FindResource(name_space, resource);
  if (!found.ok()) return InField(found.status(), "variable");
  return InfoOf(name_space, {*found})[0];
}

absl::Status EngineImpl::DeleteResource(absl::string_view name_space, const Target& resource,
                                        bool allow_missing) {
  const absl::StatusOr<std::shared_ptr<Resource>> found = FindResource(name_space, resource);
  if (found.ok() && resources_.Remove(**found)) return absl::OkStatus();
  return allow_missing ? absl::OkStatus() : InField(NoResource(resource), "variable");
}

std::vector<ResourceInfo> EngineImpl::ListResources(absl::string_view name_space) {
  const HeapScope held(&memory_);
  return InfoOf(name_space, resources_.List(NamespaceOf(name_space)));
}

std::vector<ResourceInfo> EngineImpl::InfoOf(
    absl::string_view name_space, const std::vector<std::shared_ptr<Resource>>& resources) {
  HashMap<uint64_t, FunctionPtr> writers;
  for (FunctionPtr& function : functions_.List(NamespaceOf(name_space))) {
    writers.emplace(function->id, std::move(function));
  }
  const auto stored = snapshots_ == nullptr ? nullptr : snapshots_->versions();
  std::vector<ResourceInfo> infos;
  for (const auto& resource : resources) {
    ResourceInfo& info = infos.emplace_back(formwork::InfoOf(*resource));
    const auto writer = writers.find(resource->last_writer());
    if (writer != writers.end()) info.last_writer = writer->second->name;
    if (stored == nullptr) continue;
    const auto version = stored->find(resource->id);
    if (version != stored->end()) info.snapshot_version = version->second;
  }
  return infos;
}

}  // namespace formwork
