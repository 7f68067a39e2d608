// Registration: from bytes to a ConcreteFunction in the cache.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "core/base/hash_map.h"
#include "core/base/name.h"
#include "core/base/parallel.h"
#include "core/base/reason.h"
#include "core/base/stable_hash.h"
#include "core/base/status.h"
#include "core/base/system_memory.h"
#include "core/engine/relaxed.h"
#include "core/engine/task.h"
#include "core/graph/decode.h"
#include "core/graph/device_name.h"
#include "core/graph/fingerprint.h"
#include "core/ops/table.h"
#include "google/protobuf/arena.h"

namespace formwork {
namespace {

constexpr size_t kMostGraphBytes = size_t{256} << 20;  // Of those that are kept.
// How many times its graph's bytes a registration may hold at once, where that is more than
// max_call_bytes. Large graphs of ordinary nodes take 20 to 40 times.
constexpr size_t kMostGraphGrowth = 64;
// What a larger one took on its way, and no longer needs, the heap would keep for each thread that
// compiles.
constexpr size_t kLargeGraphBytes = size_t{4} << 20;

absl::string_view NodeOf(absl::string_view tensor) { return tensor.substr(0, tensor.find(':')); }

bool SameElements(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kString) return a.span<std::string>() == b.span<std::string>();
  return IsPlainData(a.dtype()) && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// A value that is captured for a Const of the graph and equals it: TensorFlow inlines small
// captured constants and still lists them. Left to the Const, it can be folded.
bool IsItsConst(const HashMap<absl::string_view, const tf::NodeDef*>& consts,
                absl::string_view tensor, const Tensor& value, Allocator& allocator) {
  auto node = consts.find(NodeOf(tensor));
  if (node == consts.end()) return false;
  auto attr = node->second->attr().find("value");
  if (attr == node->second->attr().end()) return false;
  // A few bytes may stand for a large constant: no other size is decoded.
  const absl::StatusOr<PartialShape> shape = DecodeShape(attr->second.tensor().tensor_shape());
  if (!shape.ok() || *shape != PartialShape(value.shape())) return false;
  absl::StatusOr<Tensor> constant = DecodeTensor(attr->second.tensor(), allocator);
  return constant.ok() && SameElements(*constant, value);
}

// Of the feeds, the last of which are bound: those that are handles of resources which are bound
// once. What a caller passes may be any of them.
std::vector<bool> DistinctHandles(const Cut& cut, const std::vector<Binding>& bindings) {
  HashMap<uint64_t, int> uses;
  for (const Binding& binding : bindings) ++uses[binding.resource_id];
  std::vector<bool> distinct(cut.feeds.size(), false);
  const size_t inputs = cut.feeds.size() - bindings.size();
  for (size_t i = 0; i < bindings.size(); ++i) {
    const uint64_t id = bindings[i].resource_id;
    distinct[inputs + i] = id != 0 && uses[id] == 1;
  }
  return distinct;
}

bool HasFixedWork(const EngineFunction& function) {
  const auto open = [](const PartialShape& shape) { return !shape.fully_known(); };
  if (function.program().sized_by_value) return false;
  for (const TensorSpec& input : function.inputs) {
    if (input.dtype == DType::kResource || open(input.shape)) return false;
  }
  for (const TensorSpec& capture : function.captures) {
    if (open(capture.shape)) return false;
  }
  const auto& named = function.program().named_resources;
  return std::all_of(named.begin(), named.end(), [&](const NamedResource& resource) {
    return resource.type.is_variable() && !open(resource.type.parts[0].shape);
  });
}

}  // namespace

void GraphBytes::Put(absl::string_view bytes) {
  if (bytes.size() > kMostGraphBytes / 4) return;
  const std::string fingerprint = Sha256Hex(bytes);
  if (!WorkStatus().ok()) return;  // It may be of a part alone.
  auto copy = std::make_shared<const std::string>(bytes);
  absl::MutexLock lock(&mutex_);
  if (graphs_.contains(fingerprint)) return;
  // In both or, where there is no memory, in neither.
  order_.push_back(fingerprint);
  absl::Cleanup undo = [&] {
    mutex_.AssertHeld();
    order_.pop_back();
  };
  graphs_.emplace(fingerprint, std::move(copy));
  std::move(undo).Cancel();
  bytes_ += bytes.size();
  while (bytes_ > kMostGraphBytes) {
    auto oldest = graphs_.find(order_.front());
    bytes_ -= oldest->second->size();
    graphs_.erase(oldest);
    order_.pop_front();
  }
}

void GraphBytes::Clear() {
  absl::MutexLock lock(&mutex_);
  graphs_.clear();
  order_.clear();
  bytes_ = 0;
}

std::shared_ptr<const std::string> GraphBytes::Get(const std::string& fingerprint) {
  absl::MutexLock lock(&mutex_);
  auto found = graphs_.find(fingerprint);
  return found == graphs_.end() ? nullptr : found->second;
}

absl::string_view EngineImpl::device_type() const {
  const bool cuda = options_.device != nullptr && options_.device->kind() == DeviceKind::kCuda;
  return cuda ? "GPU" : "CPU";
}

void EngineImpl::NoteDevices(const std::vector<std::string>& devices) {
  constexpr size_t kMost = 1024;  // Their names are clients' words.
  if (!options_.on_missing_device) return;
  for (const std::string& text : devices) {
    const std::optional<DeviceName> name = DeviceName::Parse(text);
    if (!name || (name->index <= 0 && (name->type == "CPU" || name->type == device_type()))) {
      continue;
    }
    {
      absl::MutexLock lock(&plans_mutex_);
      if (missing_devices_.size() == kMost || !missing_devices_.insert(text).second) continue;
    }
    options_.on_missing_device(text);
  }
}

absl::StatusOr<std::shared_ptr<const Plan>> EngineImpl::PlanFor(
    const std::string& key, const ImportedGraph& imported,
    const std::vector<PartialShape>& arg_shapes, const std::vector<DType>& variables) {
  {
    absl::MutexLock lock(&plans_mutex_);
    auto found = plans_.find(key);
    if (found != plans_.end()) {
      if (std::shared_ptr<const Plan> plan = found->second.lock()) return plan;
    }
  }
  PlannerContext context{ops_, kernels_, allocator_};
  context.lanes = ParallelThreads() > 1;
  context.variables = variables;
  std::unique_ptr<Stream> stream;
  if (streams_) {
    FORMWORK_ASSIGN_OR_RETURN(stream, streams_->Take());
    context.device.emplace(PlannerContext::Target{*device_memory_, *stream, device_kernels_,
                                                  options_.streams_per_call,
                                                  options_.least_stream_work});
  }
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                            MakePlan(imported, arg_shapes, context));
  if (streams_) streams_->Return(std::move(stream));
  absl::MutexLock lock(&plans_mutex_);
  for (const Plan::Fallback& fallback : plan->fallbacks) ++fallbacks_[fallback.op->name];
  // Hidden state is named by this graph's nodes: a fingerprint is of graphs with any names.
  if (plan->num_state > 0) return plan;
  std::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
  plans_[key] = plan;
  return plan;
}

class RegisterTask final : public TaskOf<RegisterResult> {
 public:
  RegisterTask(EngineImpl& engine, Registration registration, Done done)
      : TaskOf(engine, registration.name_space, registration.deadline, std::move(done)),
        registration_(std::move(registration)) {
    request_ = std::move(registration_.request);
  }

 private:
  uint64_t ContentHash() override {
    return StableHash()
        .Add(registration_.name)
        .Add(registration_.fingerprint)
        .Add(registration_.graph_def.size())
        .value();
  }
  absl::Status Prepare(std::vector<AccessRequest>&) override {
    FORMWORK_RETURN_IF_ERROR(InField(CheckName("namespace", name_space_), "namespace"));
    return InField(CheckName("function", registration_.name), "name");
  }
  bool runs_inline() override { return false; }
  ThreadPool& pool() override { return engine_.compilers_; }
  void Run() override {
    std::optional<GroupCommit::Unit> unit;
    absl::StatusOr<Registered> registered = CatchOutOfMemory([&] {
      const StopScope scope(&stop_);
      registration_.name_space = name_space_;
      return engine_.RegisterNow(registration_, result_.details, nullptr, &unit);
    });
    if (registration_.graph_def.size() > kLargeGraphBytes) TrimHeap();
    if (!registered.ok()) {
      unit.reset();
      return Refuse(registered.status());
    }
    result_.registered = *std::move(registered);
    LogWithChanges(std::nullopt);
    ticket_.ReleaseAll();
    unit.reset();
    // It may have made resources, too, or found what another has just registered.
    if (is_logged()) NoteLogged(engine_.commits_->last());
    Answer();
  }
  void DropRequest() override { registration_ = {}; }

  Registration registration_;
};

size_t BytesOf(const RegisterResult& result) {
  const FunctionInfo& function = result.registered.function;
  constexpr size_t kSpecBytes = 256;
  return function.name.size() + function.pretty_signature.size() + result.status.message().size() +
         kSpecBytes * (function.inputs.size() + function.outputs.size() +
                       function.signature.parameters().size());
}

std::shared_ptr<CallHandle> EngineImpl::Register(Registration registration,
                                                 absl::AnyInvocable<void(RegisterResult)> done) {
  return std::make_shared<RegisterTask>(*this, std::move(registration), std::move(done));
}

absl::StatusOr<Registered> EngineImpl::RegisterNow(const Registration& registration,
                                                   ErrorDetails& details,
                                                   const RestoredFunction* restored,
                                                   std::optional<GroupCommit::Unit>* unit) {
  if (registration.max_batch_rows < 0) {
    return InField(InvalidArgument("max_batch_rows is negative: ", registration.max_batch_rows),
                   "max_batch_rows");
  }
  const Durability durability = DurabilityOf(registration.name_space);
  std::shared_ptr<const std::string> known;
  absl::string_view bytes = registration.graph_def;
  if (bytes.empty() && !registration.fingerprint.empty()) {
    known = graphs_.Get(registration.fingerprint);
    if (known == nullptr) {
      const std::string fingerprint = registration.fingerprint.substr(0, 64);
      return InField(WithReason(NotFound("the graph is not known: fingerprint=", fingerprint),
                                Reason::kGraphNotFound, {{"fingerprint", fingerprint}}),
                     "fingerprint");
    }
    bytes = *known;
  }
  const size_t least = options_.max_call_bytes;
  MemoryShare share(least == 0 ? 0 : std::max(least, bytes.size() * kMostGraphGrowth));
  const HeapScope held(&memory_, &share);
  // In an arena, because a parse that an exception ends leaves maps that cannot be destroyed.
  google::protobuf::Arena arena;
  tf::GraphDef& graph_def = *google::protobuf::Arena::CreateMessage<tf::GraphDef>(&arena);
  FORMWORK_RETURN_IF_ERROR(InField(ParseGraphDef(bytes, graph_def), "graph_def"));

  HashMap<absl::string_view, const tf::NodeDef*> consts;
  for (const tf::NodeDef& node : graph_def.node()) {
    if (node.op() == "Const") consts[node.name()] = &node;
  }
  Cut cut;
  std::vector<PartialShape> arg_shapes;
  std::vector<DType> variables;  // By parameter, as PlannerContext has them.
  for (const TensorSpec& input : registration.inputs) {
    if (!IsKnown(input.dtype)) {
      return InField(InvalidArgument("input '", input.name, "' has an unknown dtype"),
                     absl::StrCat("inputs[", arg_shapes.size(), "].dtype"));
    }
    cut.feeds.emplace_back(input.name, input.dtype);
    // What is behind a handle that a caller passes is not known before the call.
    arg_shapes.push_back(input.dtype == DType::kResource ? PartialShape() : input.shape);
    variables.push_back(DType::kInvalid);
  }
  FunctionIdentity identity;
  std::vector<TensorSpec> captures;
  for (size_t i = 0; i < registration.captures.size(); ++i) {
    if (WorkIsCut()) return WorkStatus();
    const auto& [tensor, argument] = registration.captures[i];
    const auto in_capture = [&tensor = tensor, i](const absl::Status& status,
                                                  absl::string_view field) {
      return InField(Annotate(status, absl::StrCat("capture '", tensor, "'")),
                     absl::StrCat("captures[", i, "].value.", field));
    };
    Binding binding;
    TensorSpec spec{tensor, DType::kResource, PartialShape()};
    bool keys_are_scalars = false;  // Of a table, whose work they do not bound.
    DType of_value = DType::kInvalid;
    if (argument.kind == Argument::Kind::kResource) {
      std::shared_ptr<Resource> resource = resources_.Find(argument.id);
      if (resource == nullptr || resource->name_space != registration.name_space) {
        return in_capture(NoResource({argument.id, ""}), "resource_id");
      }
      binding.resource_id = argument.id;
      if (resource->type.is_variable()) {
        spec.shape = resource->shape();
        if (resource->initialized()) of_value = resource->dtype();
      }
      keys_are_scalars = IsTable(resource->type) && resource->type.kind != &kDenseTableKind;
    } else {
      binding.value = argument.tensor;
      if (argument.kind == Argument::Kind::kKeptTensor) {
        absl::StatusOr<Tensor> kept = kept_.Use(registration.name_space, argument.id);
        if (!kept.ok()) return in_capture(kept.status(), "kept_tensor_id");
        binding.value = *std::move(kept);
      }
      if (!binding.value.has_value()) {
        return in_capture(InvalidArgument("it has no value"), "tensor");
      }
      if (IsItsConst(consts, tensor, binding.value, allocator_)) continue;
      spec.dtype = binding.value.dtype();
      spec.shape = PartialShape(binding.value.shape());
    }
    cut.feeds.emplace_back(tensor, spec.dtype);
    arg_shapes.push_back(spec.shape);
    if (keys_are_scalars) arg_shapes.back() = Shape();
    variables.push_back(of_value);
    captures.push_back(std::move(spec));
    identity.bindings.push_back(std::move(binding));
  }
  cut.fetches = registration.outputs;
  cut.targets = registration.targets;
  cut.distinct = DistinctHandles(cut, identity.bindings);
  cut.device_type = std::string(device_type());
  absl::StatusOr<ImportedGraph> imported =
      ImportGraph(graph_def, cut, ops_, allocator_, &details.culprits);
  if (!imported.ok()) return imported.status();
  NoteDevices(imported->devices);

  std::string plan_key = Fingerprint(*imported);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  for (const PartialShape& shape : arg_shapes) absl::StrAppend(&plan_key, ";", shape.ToString());
  identity.fingerprint = plan_key;
  if (registration.max_batch_rows != 0) {
    absl::StrAppend(&identity.fingerprint, ";rows=", registration.max_batch_rows);
  }
  // The function is the same; its plan for a device depends on which variables have values.
  for (size_t i = 0; streams_ && i < variables.size(); ++i) {
    if (variables[i] == DType::kInvalid) continue;
    absl::StrAppend(&plan_key, ";", i, DTypeName(variables[i]));
  }
  identity.type = registration.signature ? *registration.signature
                                         : FunctionType::FromInputs(registration.inputs);
  FunctionIdentity bound = identity;
  absl::StatusOr<FunctionCache::Registered> registered = functions_.Register(
      registration.name_space, registration.name, std::move(identity), registration.replace,
      [&]() -> absl::StatusOr<std::shared_ptr<ConcreteFunction>> {
        FORMWORK_ASSIGN_OR_RETURN(
            const std::shared_ptr<EngineFunction> function,
            Compile(registration, *imported, plan_key, arg_shapes, variables, bound, captures));
        if (restored != nullptr) {
          function->id = restored->id;
          function->stored = restored->stored;
        } else if (snapshots_ != nullptr) {
          FORMWORK_ASSIGN_OR_RETURN(
              function->stored, snapshots_->Store(registration, bytes, captures, bound.bindings));
        }
        if (unit != nullptr) unit->emplace(LogOf(registration.name_space));
        return function;
      });
  if (!registered.ok()) return registered.status();
  if (DurabilityOf(registration.name_space) != durability) {
    functions_.Remove(registration.name_space, registered->function->id);
    return absl::AbortedError(absl::StrCat("the durability of namespace '", registration.name_space,
                                           "' was changed meanwhile"));
  }
  for (const FunctionPtr& gone : registered->evicted) {
    if (!options_.on_eviction) break;
    const HeapScope unlimited(nullptr);  // It is done: to tell of it must not be refused.
    options_.on_eviction(
        {Eviction::Kind::kFunction, gone->name_space, gone->name, gone->id, gone->bytes});
  }
  if (registration.retrace) retraces_.fetch_add(1, std::memory_order_relaxed);
  if (known == nullptr) graphs_.Put(bytes);
  return Registered{InfoOf(*registered->function), registered->existed};
}

absl::StatusOr<std::shared_ptr<EngineFunction>> EngineImpl::Compile(
    const Registration& registration, const ImportedGraph& imported, const std::string& plan_key,
    const std::vector<PartialShape>& arg_shapes, const std::vector<DType>& variables,
    const FunctionIdentity& identity, const std::vector<TensorSpec>& captures) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                            PlanFor(plan_key, imported, arg_shapes, variables));
  auto function = std::make_shared<EngineFunction>(plan);
  const size_t num_inputs = registration.inputs.size();
  for (size_t i = 0; i < identity.bindings.size(); ++i) {
    const Binding& binding = identity.bindings[i];
    if (binding.resource_id == 0) {
      function->bound_bytes += binding.value.bytes();
      continue;
    }
    const std::shared_ptr<Resource> resource = resources_.Find(binding.resource_id);
    if (resource == nullptr) return NoResource({binding.resource_id, ""});
    function->resources.push_back({resource->id, resource->name, resource->type.kind, resource,
                                   plan->arg_access[num_inputs + i]});
  }
  function->state = std::vector<std::atomic<uint64_t>>(plan->num_state);
  function->inputs = registration.inputs;
  function->captures = captures;
  for (size_t i = 0; i < registration.outputs.size(); ++i) {
    function->outputs.push_back(
        {registration.outputs[i], plan->result_dtypes[i], plan->result_shapes[i]});
  }
  function->pretty_signature = registration.pretty_signature;
  function->named_values = NamedValuesOf(identity.type, function->inputs, function->outputs);
  function->model_version = registration.model_version;
  if (registration.max_batch_rows > 0) {
    function->batches = std::make_unique<BatchQueue>(registration.max_batch_rows);
  }
  function->relaxed = NewRelaxedForm(*plan, imported, arg_shapes);
  function->fixed_work = HasFixedWork(*function);
  function->bytes = plan->bytes + function->bound_bytes + sizeof(EngineFunction) +
                    plan->num_state * sizeof(uint64_t) +
                    (function->named_values == nullptr ? 0 : function->named_values->bytes()) +
                    (function->relaxed == nullptr ? 0 : function->relaxed->bytes());
  if (function->bytes > options_.max_function_bytes) {
    return ResourceExhausted("function '", registration.name,
                             "' is larger than the cache: bytes=", function->bytes,
                             " limit=", options_.max_function_bytes);
  }
  if (function->batches != nullptr) FORMWORK_RETURN_IF_ERROR(CheckBatches(*function));
  FORMWORK_RETURN_IF_ERROR(BindNamedResources(registration.name_space, *plan, *function));
  // As tickets take them.
  std::sort(function->resources.begin(), function->resources.end(),
            [](const BoundResource& a, const BoundResource& b) { return a.id < b.id; });
  return function;
}

// Last of all, so that a registration that fails leaves no resource behind.
absl::Status EngineImpl::BindNamedResources(const std::string& name_space, const Plan& plan,
                                            EngineFunction& function) {
  if (plan.named_resources.empty()) return absl::OkStatus();
  std::vector<ResourceStore::Declaration> declared;
  for (const NamedResource& named : plan.named_resources) {
    declared.push_back({named.name, named.type});
  }
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Resource>> resources,
                            resources_.FindOrCreateAll(name_space, declared));
  for (size_t i = 0; i < resources.size(); ++i) {
    function.named.push_back({resources[i]->id});
    function.resources.push_back({resources[i]->id, resources[i]->name, resources[i]->type.kind,
                                  resources[i],
                                  std::max(plan.named_resources[i].access, Access::kRead),
                                  /*named=*/true});
  }
  return absl::OkStatus();
}

}  // namespace formwork
