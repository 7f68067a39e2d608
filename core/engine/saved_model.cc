// SavedModels: a graph's signatures become functions, once the graph itself has given its variables
// and tables their values. These are new ones, in a container of their own, so that what was loaded
// under the same name before goes on until the functions are replaced.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/name.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/engine/request_chain.h"
#include "core/graph/saved_model.h"
#include "core/storage/files_dir.h"

namespace formwork {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "saved_model.pb";
constexpr char kDefaultSignature[] = "serving_default";

// The number that a folder of one version is named by.
std::optional<uint64_t> VersionOf(const fs::path& folder) {
  const std::string name = folder.filename().string();
  uint64_t version = 0;
  if (!absl::SimpleAtoi(name, &version) || absl::StrCat(version) != name) return std::nullopt;
  // As TensorFlow Serving has them: of 63 bits.
  if (version > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return version;
}

// The folder `path` or, where there is no model in it but folders named by numbers, the one of the
// highest: versions, as TensorFlow Serving has them.
absl::StatusOr<FilePath> FolderOf(const std::string& files_dir, const std::string& path) {
  FORMWORK_ASSIGN_OR_RETURN(FilePath folder, PathInFolder(files_dir, path));
  std::error_code error;
  if (fs::exists(fs::path(folder.path) / kFile, error)) return folder;
  std::optional<uint64_t> highest;
  for (fs::directory_iterator at(folder.path, error), end; !error && at != end;
       at.increment(error)) {
    const std::optional<uint64_t> version = VersionOf(at->path());
    if (!version || (highest && *version <= *highest)) continue;
    if (fs::exists(at->path() / kFile, error)) highest = version;
  }
  if (highest) return folder.With(absl::StrCat("/", *highest));
  if (fs::exists(fs::path(folder.path) / "saved_model.pbtxt", error)) {
    return Unimplemented("SavedModels as text (saved_model.pbtxt): ", path);
  }
  return NotFound("there is no SavedModel: no file ", path, "/", kFile);
}

absl::StatusOr<std::string> ReadFile(const FilePath& path) {
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<OldFile> file, OldFile::Open(path));
  if (file->size() > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    return InvalidArgument("too large for a SavedModel: ", path.name, ": bytes=", file->size());
  }
  std::string bytes(file->size(), '\0');
  FORMWORK_RETURN_IF_ERROR(file->Read(0, bytes.size(), bytes.data()));
  return bytes;
}

size_t BytesIn(const fs::path& folder) {
  std::error_code error;
  size_t bytes = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const uintmax_t size = at->file_size(error);
    if (!error) bytes += size;
    error.clear();
  }
  return bytes;
}

// The keyword arguments and the dict that tf.saved_model.load gives a signature.
absl::StatusOr<FunctionType> TypeOf(const SavedModel::Signature& signature) {
  std::vector<Parameter> parameters;
  for (const SavedModel::Argument& input : signature.inputs) {
    parameters.push_back({input.name, ParameterKind::kKeywordOnly, /*optional=*/false,
                          TypeNode::Tensor(input.tensor.dtype, input.tensor.shape,
                                           static_cast<int>(parameters.size()))});
  }
  std::vector<std::string> keys;
  std::vector<TypeNode> items;
  for (const SavedModel::Argument& output : signature.outputs) {
    keys.push_back(
        nlohmann::json(output.name)
            .dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace));
    items.push_back(
        TypeNode::Tensor(output.tensor.dtype, output.tensor.shape, static_cast<int>(items.size())));
  }
  FORMWORK_ASSIGN_OR_RETURN(TypeNode result, TypeNode::Dict(std::move(keys), std::move(items)));
  return FunctionType(std::move(parameters), std::move(result));
}

}  // namespace

class SavedModelRequest final : public RequestChain<SavedModelSpec, SavedModelResult> {
 public:
  SavedModelRequest(EngineImpl& engine, SavedModelSpec spec, Done done)
      : RequestChain(engine, std::move(spec), std::move(done)) {}
  ~SavedModelRequest() override { EndLoad(); }

  void Start() override {
    BeginWork([this] { return Prepare(); },
              [this] { Run(restore_, [this] { Run(initialize_, [this] { PublishAll(); }); }); });
  }

 private:
  // A function that is run once, and what it is given.
  struct Once {
    uint64_t id = 0;  // 0: there is nothing to be run.
    std::vector<std::string> inputs;
    size_t given_bytes = 0;
  };

  absl::Status Prepare() {
    FORMWORK_RETURN_IF_ERROR(InField(CheckName("function", spec_.name), "name"));
    const absl::StatusOr<FilePath> folder = FolderOf(engine_.options_.files_dir, spec_.path);
    FORMWORK_RETURN_IF_ERROR(InField(folder.status(), "path"));
    result_.path = folder->name;
    FORMWORK_RETURN_IF_ERROR(BeginLoad());
    version_ = VersionOf(folder->path).value_or(number_);
    FORMWORK_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadFile(folder->With(absl::StrCat("/", kFile))));
    absl::StatusOr<SavedModel> model = ParseSavedModel(bytes, spec_.tags, container_, engine_.ops_);
    FORMWORK_RETURN_IF_ERROR(Annotate(model.status(), absl::StrCat(folder->name, "/", kFile)));
    if (model->signatures.empty()) {
      return InvalidArgument("the SavedModel has no signatures: ", folder->name);
    }
    FORMWORK_RETURN_IF_ERROR(MakeRegistrations(model->signatures));
    FORMWORK_RETURN_IF_ERROR(CheckReplaced());
    graph_def_ = std::move(model->graph_def);

    std::error_code error;
    if (!model->restore.empty()) {
      const std::string index = "/variables/variables.index";
      if (fs::exists(folder->path + index, error)) {
        restore_.inputs = {absl::StrCat(folder->name, "/variables/variables")};
        restore_.given_bytes = BytesIn(fs::path(folder->path) / "variables");
        FORMWORK_RETURN_IF_ERROR(
            RegisterOnce("restore", {model->restored_prefix}, model->restore, restore_));
      } else {
        missing_ = folder->name + index;
      }
    }
    if (!model->initialize.empty()) {
      std::vector<std::string> tensors;
      for (const SavedModel::Asset& asset : model->assets) {
        tensors.push_back(asset.tensor);
        initialize_.inputs.push_back(absl::StrCat(folder->name, "/assets/", asset.file));
      }
      FORMWORK_RETURN_IF_ERROR(RegisterOnce("initialize", tensors, model->initialize, initialize_));
    }
    return CompileAll();
  }

  // What cannot be compiled is known before anything is loaded, or replaced.
  absl::Status CompileAll() {
    absl::Status not_batched;
    for (Registration& registration : registrations_) {
      Registration trial = registration;
      trial.name = absl::StrCat(container_, "/", registration.name);
      absl::Status compiled = RegisterForNow(trial).status();
      if (!compiled.ok() && registration.max_batch_rows > 0) {
        registration.max_batch_rows = trial.max_batch_rows = 0;
        not_batched.Update(compiled);
        compiled = RegisterForNow(std::move(trial)).status();
      }
      FORMWORK_RETURN_IF_ERROR(compiled);
    }
    const bool some_batched =
        std::any_of(registrations_.begin(), registrations_.end(),
                    [](const Registration& made) { return made.max_batch_rows > 0; });
    return some_batched ? absl::OkStatus() : InField(not_batched, "max_batch_rows");
  }

  // Finds what has been loaded under the name before, and names the container. One at a time: the
  // next one would take the same.
  absl::Status BeginLoad() {
    loads_ = engine_.BeginLoad(NamespaceOf(spec_.name_space), spec_.name);
    if (!loads_) {
      return absl::AbortedError(
          absl::StrCat("'", spec_.name, "' is being loaded already, by another request"));
    }
    const std::string stem = absl::StrCat(spec_.name, "@");
    uint64_t last = 0;
    std::set<std::string> before;
    for (const ResourceInfo& info : engine_.ListResources(spec_.name_space)) {
      if (!absl::StartsWith(info.name, stem)) continue;
      const size_t end = info.name.find('/', stem.size());
      uint64_t number = 0;
      if (end == std::string::npos ||
          !absl::SimpleAtoi(info.name.substr(stem.size(), end - stem.size()), &number)) {
        continue;
      }
      before.insert(info.name.substr(0, end + 1));
      last = std::max(last, number);
    }
    loaded_before_.assign(before.begin(), before.end());
    number_ = last + 1;
    container_ = absl::StrCat(stem, number_);
    return absl::OkStatus();
  }
  // Before the answer, after which the name may be loaded again.
  void EndLoad() {
    if (std::exchange(loads_, false)) {
      engine_.EndLoad(NamespaceOf(spec_.name_space), spec_.name);
    }
  }

  absl::Status MakeRegistrations(const std::vector<SavedModel::Signature>& signatures) {
    for (const SavedModel::Signature& signature : signatures) {
      Registration& made = registrations_.emplace_back();
      made.name = spec_.name;
      if (signature.name != kDefaultSignature) absl::StrAppend(&made.name, "/", signature.name);
      for (const SavedModel::Argument& input : signature.inputs) {
        made.inputs.push_back(input.tensor);
      }
      for (const SavedModel::Argument& output : signature.outputs) {
        made.outputs.push_back(output.tensor.name);
      }
      FORMWORK_ASSIGN_OR_RETURN(made.signature, TypeOf(signature));
      made.model_version = version_;
      made.max_batch_rows = spec_.max_batch_rows;
    }
    return absl::OkStatus();
  }

  // Whether functions are there that these take the place of.
  absl::Status CheckReplaced() {
    for (const FunctionInfo& there : engine_.ListFunctions(spec_.name_space, false)) {
      for (const Registration& made : registrations_) {
        if (made.name != there.name) continue;
        replaces_ = true;
        if (spec_.replace) return absl::OkStatus();
        return absl::AlreadyExistsError(
            absl::StrCat("there is a function '", there.name, "': load with `replace`"));
      }
    }
    return absl::OkStatus();
  }

  // A function that goes when this has ended.
  absl::StatusOr<uint64_t> RegisterForNow(Registration registration) {
    registration.name_space = std::string(NamespaceOf(spec_.name_space));
    registration.graph_def = graph_def_;
    ErrorDetails details;
    const RestoredFunction not_stored{0, nullptr};
    FORMWORK_ASSIGN_OR_RETURN(const Registered registered,
                              engine_.RegisterNow(registration, details, &not_stored));
    for_now_.push_back(registered.function.id);
    return registered.function.id;
  }
  absl::Status RegisterOnce(absl::string_view what, const std::vector<std::string>& tensors,
                            const std::string& target, Once& once) {
    Registration registration;
    registration.name = absl::StrCat("formwork.", what, "/", container_);
    for (const std::string& tensor : tensors) {
      registration.inputs.push_back({tensor, DType::kString, Shape()});
    }
    registration.targets = {target};
    FORMWORK_ASSIGN_OR_RETURN(once.id, RegisterForNow(std::move(registration)));
    return absl::OkStatus();
  }

  void Run(const Once& once, absl::AnyInvocable<void()> next) {
    if (once.id == 0) return next();
    CallSpec call;
    call.name_space = spec_.name_space;
    call.function = {once.id, ""};
    for (const std::string& text : once.inputs) {
      call.inputs.push_back({Argument::Kind::kTensor, Tensor::StringScalar(text), 0});
    }
    call.given_bytes = once.given_bytes;
    call.deadline = spec_.deadline;
    Begin(engine_.Call(std::move(call),
                       [self = Self(), next = std::move(next)](CallResult result) mutable {
                         if (result.status.ok()) return next();
                         self->Refuse(std::move(result.status), std::move(result.details));
                       }));
  }

  // A model without variables has no file for them, and may still have what would restore them:
  // then its functions use none that have no values. Else the file is missing.
  absl::Status CheckValues() {
    if (missing_.empty()) return absl::OkStatus();
    const std::set<uint64_t> used = UsedBy(for_now_);
    for (const ResourceInfo& info : engine_.ListResources(spec_.name_space)) {
      if (!used.contains(info.id) || info.initialized) continue;
      return NotFound("there is no file ", missing_, ", and '", info.name, "' has no value");
    }
    return absl::OkStatus();
  }
  // The resources of these functions.
  std::set<uint64_t> UsedBy(const std::vector<uint64_t>& functions) {
    std::set<uint64_t> used;
    for (const uint64_t id : functions) {
      const FunctionPtr function = engine_.functions_.Find(NamespaceOf(spec_.name_space), id);
      if (function == nullptr) continue;
      for (const BoundResource& resource : function->resources) used.insert(resource.id);
    }
    return used;
  }

  // What is left takes a moment, and is not to end half-way.
  void PublishAll() {
    absl::Status valued = HoldToBudget(engine_.memory(), [this] { return CheckValues(); });
    if (!valued.ok()) return Refuse(std::move(valued));
    if (!Commit()) return Refuse(absl::CancelledError("the request was cancelled"));
    if (absl::Now() > spec_.deadline) {
      return Refuse(absl::DeadlineExceededError("the request's deadline has passed"));
    }
    Publish(0);
  }
  void Publish(size_t i) {
    if (i == registrations_.size()) {
      // It has been done: what could not be cleaned up stays.
      HoldToBudget(engine_.memory(), [this] { return CleanUp(); }).IgnoreError();
      EndLoad();
      return Answer();
    }
    Registration& registration = registrations_[i];
    registration.name_space = spec_.name_space;
    registration.graph_def = graph_def_;
    registration.replace = spec_.replace;
    Begin(engine_.Register(std::move(registration), [self = Self(), i](RegisterResult result) {
      if (!result.status.ok()) {
        if (self->StaysPublished()) result.details.effects = Effects::kSome;
        return self->Fail(std::move(result.status), std::move(result.details));
      }
      if (!result.registered.existed) self->published_.push_back(result.registered.function.id);
      self->result_.functions.push_back(std::move(result.registered.function));
      self->Publish(i + 1);
    }));
  }

  absl::Status CleanUp() {
    UnregisterForNow();
    std::vector<uint64_t> made;
    for (const FunctionInfo& function : result_.functions) made.push_back(function.id);
    const std::set<uint64_t> used = UsedBy(made);
    for (const ResourceInfo& info : engine_.ListResources(spec_.name_space)) {
      if (used.contains(info.id)) {
        ++result_.resources;
        result_.bytes += info.bytes;
      } else if (IsOurs(info.name) || (spec_.replace && IsOld(info.name))) {
        Delete(info);  // Of ours: Keras lists each variable twice.
      }
    }
    if (!spec_.replace) return absl::OkStatus();
    // Of the one before: signatures that this one has not, or has of another type.
    for (const FunctionInfo& there : engine_.ListFunctions(spec_.name_space, false)) {
      bool is_new = false;
      bool is_old = absl::StartsWith(there.name, absl::StrCat(spec_.name, "/")) &&
                    std::any_of(there.deleted_variables.begin(), there.deleted_variables.end(),
                                [this](const std::string& variable) { return IsOld(variable); });
      for (const FunctionInfo& made : result_.functions) {
        is_new = is_new || made.id == there.id;
        is_old = is_old || made.name == there.name;
      }
      if (is_old && !is_new) Unregister(there.id);
    }
    return absl::OkStatus();
  }
  bool IsOurs(const std::string& name) const {
    return absl::StartsWith(name, absl::StrCat(container_, "/"));
  }
  bool IsOld(const std::string& name) const {
    return std::any_of(loaded_before_.begin(), loaded_before_.end(),
                       [&name](const std::string& old) { return absl::StartsWith(name, old); });
  }
  void Delete(const ResourceInfo& resource) {
    (void)engine_.DeleteResource(spec_.name_space, {resource.id, ""}, /*allow_missing=*/true);
  }
  void Unregister(uint64_t id) {
    (void)engine_.Unregister(spec_.name_space, {id, ""}, /*allow_missing=*/true);
  }
  void UnregisterForNow() {
    for (const uint64_t id : std::exchange(for_now_, {})) Unregister(id);
  }

  // Whether something has taken another's place, so that it stays there with what it uses.
  bool StaysPublished() const { return replaces_ && !published_.empty(); }
  void Undo() override {
    if (!loads_) return;
    const HeapScope unlimited(nullptr);
    UnregisterForNow();
    if (!StaysPublished()) {
      for (const uint64_t id : published_) Unregister(id);
      for (const ResourceInfo& info : engine_.ListResources(spec_.name_space)) {
        if (IsOurs(info.name)) Delete(info);
      }
    }
    EndLoad();
  }

  std::shared_ptr<SavedModelRequest> Self() {
    return std::static_pointer_cast<SavedModelRequest>(shared_from_this());
  }

  bool loads_ = false;                      // Nobody else loads under the name.
  bool replaces_ = false;                   // Functions that were there.
  uint64_t number_ = 0;                     // Of the load, among those under the name.
  uint64_t version_ = 0;                    // The folder's, or that number.
  std::string container_;                   // Of the resources.
  std::vector<std::string> loaded_before_;  // What names of resources of the one before begin with.
  std::string missing_;                     // The file of the variables, where there is none.
  std::string graph_def_;
  std::vector<Registration> registrations_;  // Without the graph.
  Once restore_, initialize_;
  std::vector<uint64_t> for_now_;    // Functions that go when this has ended.
  std::vector<uint64_t> published_;  // Those that are its result's, and were not there.
};

bool EngineImpl::BeginLoad(absl::string_view name_space, const std::string& name) {
  absl::MutexLock lock(&loads_mutex_);
  return loads_.emplace(std::string(name_space), name).second;
}

void EngineImpl::EndLoad(absl::string_view name_space, const std::string& name) {
  absl::MutexLock lock(&loads_mutex_);
  loads_.erase({std::string(name_space), name});
}

std::shared_ptr<CallHandle> EngineImpl::LoadSavedModel(
    SavedModelSpec spec, absl::AnyInvocable<void(SavedModelResult)> done) {
  return std::make_shared<SavedModelRequest>(*this, std::move(spec), std::move(done));
}

absl::StatusOr<uint64_t> EngineImpl::SavedModelVersion(const std::string& path) {
  FORMWORK_ASSIGN_OR_RETURN(const FilePath folder, FolderOf(options_.files_dir, path));
  return VersionOf(folder.path).value_or(0);
}

}  // namespace formwork
