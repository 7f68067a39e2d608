// Checkpoints: variables in files that TensorFlow and others read. A save is a read and then work
// on files, a restore work on files and then a write: so each has the one place in line of the
// other half, and no call waits for a disk.

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/engine/request_chain.h"
#include "core/storage/checkpoint.h"
#include "core/storage/files_dir.h"

namespace formwork {

namespace {

using CheckpointRequest = RequestChain<CheckpointSpec, CheckpointResult>;

class SaveRequest final : public CheckpointRequest {
 public:
  SaveRequest(EngineImpl& engine, CheckpointSpec spec, Done done, std::string files_dir)
      : CheckpointRequest(engine, std::move(spec), std::move(done)),
        files_dir_(std::move(files_dir)) {}

  void Start() override {
    ReadSpec read{spec_.name_space, {}, spec_.deadline};
    const absl::Status status =
        HoldToBudget(engine_.memory(), [&] { return Choose(&read.variables); });
    if (!status.ok()) return Refuse(status);
    Begin(engine_.ReadVariables(std::move(read), [this,
                                                  self = shared_from_this()](ReadResult values) {
      if (!values.status.ok()) return Fail(std::move(values.status), std::move(values.details));
      result_.variables = static_cast<int64_t>(values.values.size());
      BeginWork(
          [this, values = std::move(values.values)]() mutable { return Write(std::move(values)); },
          [this] { Answer(); });
    }));
  }

 private:
  absl::Status Choose(std::vector<Target>* variables) {
    FORMWORK_RETURN_IF_ERROR(InField(PathInFolder(files_dir_, spec_.path).status(), "path"));
    for (const std::string& name : spec_.names) variables->push_back({0, name});
    if (!spec_.names.empty()) return absl::OkStatus();
    for (const ResourceInfo& info : engine_.ListResources(spec_.name_space)) {
      if (!info.type.is_variable() || !info.initialized) continue;
      const DType dtype = info.type.parts[0].dtype;
      if (IsPlainData(dtype) || dtype == DType::kString) {
        variables->push_back({info.id, ""});
      } else {
        ++result_.left_out;
      }
    }
    return absl::OkStatus();
  }
  absl::Status Write(std::vector<VariableValue> values) {
    FORMWORK_ASSIGN_OR_RETURN(const FilePath path, NewPathInFolder(files_dir_, spec_.path));
    std::map<std::string, Tensor> variables;
    const std::shared_ptr<Transfer> transfer = BeginTransfer(TransferInfo::Kind::kSave);
    for (VariableValue& value : values) {
      transfer->total += value.value.bytes();
      variables.emplace(std::move(value.variable.name), std::move(value.value));
    }
    values.clear();
    FORMWORK_ASSIGN_OR_RETURN(result_.bytes,
                              WriteCheckpoint(path, std::move(variables), &transfer->done));
    return absl::OkStatus();
  }

  const std::string files_dir_;
};

class RestoreRequest final : public CheckpointRequest {
 public:
  RestoreRequest(EngineImpl& engine, CheckpointSpec spec, Done done, std::string files_dir)
      : CheckpointRequest(engine, std::move(spec), std::move(done)),
        files_dir_(std::move(files_dir)) {}

  void Start() override {
    BeginWork([this] { return Read(); }, [this] { Assign(); });
  }

 private:
  using Variable = CheckpointReader::Variable;

  absl::Status Read() {
    const absl::StatusOr<FilePath> path = PathInFolder(files_dir_, spec_.path);
    FORMWORK_RETURN_IF_ERROR(InField(path.status(), "path"));
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                              CheckpointReader::Open(*path, engine_.allocator()));
    std::map<std::string, ResourceInfo> here;
    for (ResourceInfo& info : engine_.ListResources(spec_.name_space)) {
      here.emplace(info.name, std::move(info));
    }
    FORMWORK_ASSIGN_OR_RETURN(const auto wanted, Wanted(*reader, here));
    // Before anything is read: what does not fit.
    for (const auto& [name, variable] : wanted) {
      const auto info = here.find(name);
      if (info == here.end()) continue;
      const ResourceType& type = info->second.type;
      if (type.is_variable() && type.parts[0].dtype == variable->dtype &&
          type.parts[0].shape.Accepts(variable->shape)) {
        continue;
      }
      return InvalidArgument("'", name, "' is ", type.ToString(), ", in the checkpoint ",
                             DTypeName(variable->dtype), variable->shape.ToString());
    }
    int64_t more = 0;
    uint64_t more_bytes = 0;
    for (const auto& [name, variable] : wanted) {
      const auto info = here.find(name);
      const uint64_t there = info == here.end() ? 0 : info->second.bytes;
      const uint64_t bytes = Tensor::ShapeOnly(variable->dtype, variable->shape).bytes();
      if (info == here.end()) ++more;
      if (bytes > there) more_bytes += bytes - there;
    }
    FORMWORK_RETURN_IF_ERROR(engine_.CheckRoom(spec_.name_space, more, more_bytes));
    const std::shared_ptr<Transfer> transfer = BeginTransfer(TransferInfo::Kind::kRestore);
    for (const auto& [name, variable] : wanted) {
      transfer->total += Tensor::ShapeOnly(variable->dtype, variable->shape).bytes();
    }
    for (const auto& [name, variable] : wanted) {
      absl::StatusOr<Tensor> value = reader->Read(*variable, engine_.allocator());
      FORMWORK_RETURN_IF_ERROR(Annotate(value.status(), name));
      result_.bytes += value->bytes();
      transfer->done = result_.bytes;
      values_.emplace_back(Target{0, name}, *std::move(value));
    }
    result_.variables = static_cast<int64_t>(values_.size());
    // All that can fail but this has been done.
    for (const auto& [name, variable] : wanted) {
      if (here.contains(name)) continue;
      const auto made = engine_.CreateVariable(spec_.name_space, name, variable->dtype,
                                               variable->shape, std::nullopt);
      if (!made.ok()) return made.status();
      if (!made->existed) made_.push_back(made->variable.id);
    }
    result_.created = static_cast<int64_t>(made_.size());
    return absl::OkStatus();
  }
  // By the names that they have, or are to have, here.
  absl::StatusOr<std::map<std::string, const Variable*>> Wanted(
      const CheckpointReader& reader, const std::map<std::string, ResourceInfo>& here) {
    std::map<std::string, const Variable*> wanted;
    for (const std::string& name : spec_.names) {
      const Variable* found = reader.Find(name);
      if (found == nullptr) {
        return InField(NotFound("there is no variable '", name, "' in the checkpoint"), "names");
      }
      wanted.emplace(name, found);
    }
    if (!spec_.names.empty()) return wanted;
    // What is here already may have another of its names.
    std::set<const Variable*> known;
    for (const auto& [name, info] : here) {
      const Variable* found = info.type.is_variable() ? reader.Find(name) : nullptr;
      if (found == nullptr) continue;
      known.insert(found);
      wanted.emplace(name, found);
    }
    for (const auto& [name, variable] : reader.variables()) {
      if (!known.contains(&variable)) wanted.emplace(name, &variable);
    }
    return wanted;
  }
  void Assign() {
    AssignSpec assign{spec_.name_space, std::move(values_), spec_.deadline};
    Begin(engine_.AssignVariables(std::move(assign),
                                  [this, self = shared_from_this()](AssignResult assigned) {
                                    if (assigned.status.ok()) return Answer();
                                    Fail(std::move(assigned.status), std::move(assigned.details));
                                  }));
  }
  // What was made for it goes again.
  void Undo() override {
    for (const uint64_t id : made_) {
      (void)engine_.DeleteResource(spec_.name_space, {id, ""}, /*allow_missing=*/true);
    }
  }

  const std::string files_dir_;
  std::vector<std::pair<Target, Tensor>> values_;
  std::vector<uint64_t> made_;
};

}  // namespace

std::shared_ptr<CallHandle> EngineImpl::SaveCheckpoint(
    CheckpointSpec spec, absl::AnyInvocable<void(CheckpointResult)> done) {
  return std::make_shared<SaveRequest>(*this, std::move(spec), std::move(done), options_.files_dir);
}

std::shared_ptr<CallHandle> EngineImpl::RestoreCheckpoint(
    CheckpointSpec spec, absl::AnyInvocable<void(CheckpointResult)> done) {
  return std::make_shared<RestoreRequest>(*this, std::move(spec), std::move(done),
                                          options_.files_dir);
}

}  // namespace formwork
