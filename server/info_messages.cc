#include "server/info_messages.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/device/device.h"
#include "core/function/type_messages.h"
#include "server/tensor_codec.h"
#include "server/version.h"

namespace formwork::server {
namespace {

// Of formwork.v1, by the names that proto/README.md explains.
constexpr const char* kFeatures[] = {"answers_in_parts", "client_functions", "durability",
                                     "element_ranges",   "namespaces",       "ops",
                                     "timelines",        "unordered_calls",  "values_in_chunks"};

formwork::tf::DataType ToMessage(DType dtype) { return static_cast<formwork::tf::DataType>(dtype); }

constexpr char kCpuName[] = "CPU:0";

}  // namespace

v1::Durability ToMessage(Durability durability) {
  switch (durability) {
    case Durability::kMemory:
      return v1::DURABILITY_MEMORY;
    case Durability::kSnapshot:
      return v1::DURABILITY_SNAPSHOT;
    case Durability::kSync:
      break;
  }
  return v1::DURABILITY_SYNC;
}

absl::StatusOr<Durability> DurabilityFrom(v1::Durability durability) {
  switch (durability) {
    case v1::DURABILITY_MEMORY:
      return Durability::kMemory;
    case v1::DURABILITY_SNAPSHOT:
      return Durability::kSnapshot;
    case v1::DURABILITY_SYNC:
      return Durability::kSync;
    default:
      return InvalidArgument("there is no such durability: ", static_cast<int>(durability));
  }
}

v1::Durability DurabilityOf(const EngineOptions& engine) {
  return engine.data_dir.empty() ? v1::DURABILITY_MEMORY : ToMessage(engine.durability);
}

void ToMessage(const NamespaceHoldings& holdings, v1::NamespaceInfo* message) {
  message->set_name(ToValidUtf8(holdings.name));
  message->set_variables(holdings.of(Held::kVariable).count);
  message->set_variable_bytes(holdings.of(Held::kVariable).bytes);
  message->set_other_resources(holdings.of(Held::kOtherResource).count);
  message->set_other_resource_bytes(holdings.of(Held::kOtherResource).bytes);
  message->set_functions(holdings.of(Held::kFunction).count);
  message->set_function_bytes(holdings.of(Held::kFunction).bytes);
  message->set_kept_tensors(holdings.of(Held::kKeptTensor).count);
  message->set_kept_tensor_bytes(holdings.of(Held::kKeptTensor).bytes);
  message->set_durability(ToMessage(holdings.durability));
}

void ToMessage(const TransferInfo& transfer, v1::Transfer* message) {
  switch (transfer.kind) {
    case TransferInfo::Kind::kSnapshot:
      message->set_kind(v1::Transfer::SNAPSHOT);
      break;
    case TransferInfo::Kind::kSave:
      message->set_kind(v1::Transfer::SAVE_CHECKPOINT);
      break;
    case TransferInfo::Kind::kRestore:
      message->set_kind(v1::Transfer::RESTORE_CHECKPOINT);
      break;
  }
  message->set_path(ToValidUtf8(transfer.path));
  message->set_bytes(transfer.bytes);
  message->set_total_bytes(transfer.total);
}

void ToMessage(const ResourceInfo& resource, v1::VariableInfo* message) {
  message->set_id(resource.id);
  message->set_name(ToValidUtf8(resource.name));
  if (resource.type.is_variable()) {
    message->set_dtype(ToMessage(resource.type.parts[0].dtype));
    ToMessage(resource.type.parts[0].shape, message->mutable_shape());
  } else {
    message->set_kind(std::string(resource.type.kind->name));
    message->set_type(resource.type.ToString());
  }
  message->set_initialized(resource.initialized);
  message->set_version(resource.version);
  message->set_bytes(resource.bytes);
  message->set_last_writer(ToValidUtf8(resource.last_writer));
  message->set_snapshot_version(resource.snapshot_version);
}

void ToMessage(const FunctionInfo& function, v1::FunctionInfo* message, bool signatures) {
  message->set_id(function.id);
  message->set_name(ToValidUtf8(function.name));
  message->set_calls(function.calls);
  message->set_bytes(function.bytes);
  message->set_model_version(function.model_version);
  message->set_max_batch_rows(function.max_batch_rows);
  for (const std::string& name : function.captured_variables) {
    message->add_captured_variables(ToValidUtf8(name));
  }
  for (const std::string& name : function.deleted_variables) {
    message->add_deleted_variables(ToValidUtf8(name));
  }
  if (!signatures) return;
  ToMessage(function.signature, message->mutable_signature());
  for (const TensorSpec& spec : function.inputs) ToMessage(spec, message->add_inputs());
  for (const TensorSpec& spec : function.outputs) ToMessage(spec, message->add_outputs());
  message->set_pretty_signature(ToValidUtf8(function.pretty_signature));
  if (!function.plan.empty()) message->set_plan(ToValidUtf8(function.plan));
}

void ToMessage(const KeptTensorInfo& tensor, v1::KeptTensorInfo* message) {
  const absl::Time now = absl::Now();
  message->set_id(tensor.id);
  message->set_dtype(ToMessage(tensor.dtype));
  for (int64_t dim : tensor.shape.dims()) message->add_dims(dim);
  message->set_bytes(tensor.bytes);
  message->set_owner(ToValidUtf8(tensor.owner));
  ToMessage(now - tensor.created, message->mutable_age());
  if (tensor.expires != absl::InfiniteFuture()) {
    ToMessage(tensor.expires - now, message->mutable_time_to_live());
  }
}

void ToMessage(const EngineInfo& engine, const ServerOptions& options, absl::Duration uptime,
               v1::ServerInfo* message) {
  const EngineOptions& limits = engine.options;
  message->set_version(kVersion);
  message->set_epoch(engine.epoch);
  ToMessage(uptime, message->mutable_uptime());
  v1::ServerInfo::Device* device = message->add_devices();
  device->set_name(kCpuName);
  device->set_kind("CPU");
  device->set_threads(limits.compute_threads);
  if (limits.device != nullptr) {
    device = message->add_devices();
    device->set_name(std::string(limits.device->name()));
    device->set_kind(limits.device->kind() == DeviceKind::kCuda ? "CUDA" : "SIMULATED");
  }
  message->mutable_ops()->Add(engine.ops.begin(), engine.ops.end());
  v1::ServerInfo::Limits* to = message->mutable_limits();
  to->set_memory_bytes(limits.memory_limit_bytes);
  to->set_message_bytes(static_cast<uint64_t>(options.max_message_bytes));
  to->set_queued_calls(static_cast<uint64_t>(limits.max_queued_calls));
  to->set_functions(static_cast<uint64_t>(limits.max_functions));
  to->set_function_bytes(limits.max_function_bytes);
  to->set_kept_tensor_bytes(limits.max_kept_bytes);
  to->set_connections(static_cast<uint64_t>(options.max_connections));
  to->set_namespace_bytes(limits.namespace_limits.bytes);
  to->set_namespace_variables(static_cast<uint64_t>(limits.namespace_limits.resources));
  to->set_namespace_functions(static_cast<uint64_t>(limits.namespace_limits.functions));
  to->set_namespace_kept_tensors(static_cast<uint64_t>(limits.namespace_limits.kept_tensors));
  to->set_client_kept_tensor_bytes(limits.max_client_kept_bytes);
  for (const char* feature : kFeatures) message->add_features(feature);
  message->set_durability(DurabilityOf(limits));
  message->set_instruction_set(engine.instruction_set);
}

void ToMessage(const OpInfo& op, v1::OpInfo* message) {
  message->set_name(op.name);
  message->set_signature(op.signature);
  message->add_devices(kCpuName);
  if (!op.device.empty()) message->add_devices(op.device);
}

void ToMessage(const EngineStats& stats, v1::ServerStats* message) {
  message->set_functions(stats.functions);
  message->set_function_bytes(stats.function_bytes);
  message->set_variables(stats.variables);
  message->set_variable_bytes(stats.variable_bytes);
  message->set_kept_tensors(stats.kept_tensors);
  message->set_kept_tensor_bytes(stats.kept_bytes);
  message->set_calls_queued(stats.calls_queued);
  message->set_calls_running(stats.calls_running);
  message->set_memory_bytes(stats.memory_used_bytes);
  message->set_kept_tensor_leases(stats.kept_leases);
}

void ToMessage(absl::Duration duration, google::protobuf::Duration* message) {
  message->set_seconds(absl::ToInt64Seconds(duration));
  message->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration % absl::Seconds(1))));
}

absl::Duration DurationFrom(const google::protobuf::Duration& message) {
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

absl::StatusOr<Argument> ArgumentFrom(const v1::Value& message, Allocator& allocator) {
  Argument argument;
  switch (message.kind_case()) {
    case v1::Value::kTensor: {
      FORMWORK_ASSIGN_OR_RETURN(argument.tensor, TensorFromMessage(message.tensor(), allocator));
      return argument;
    }
    case v1::Value::kResourceId:
      argument.kind = Argument::Kind::kResource;
      argument.id = message.resource_id();
      return argument;
    case v1::Value::kKeptTensorId:
      argument.kind = Argument::Kind::kKeptTensor;
      argument.id = message.kept_tensor_id();
      return argument;
    case v1::Value::kOpaque:
      return InvalidArgument("Value: an opaque value cannot be an input");
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("Value: it holds nothing");
}

absl::StatusOr<Tensor> ValueOf(Engine& engine, absl::string_view name_space, Argument argument) {
  switch (argument.kind) {
    case Argument::Kind::kTensor:
      return std::move(argument.tensor);
    case Argument::Kind::kKeptTensor: {
      absl::StatusOr<Tensor> tensor = engine.ReadTensor(name_space, argument.id);
      if (!tensor.ok()) return InField(tensor.status(), "kept_tensor_id");
      return tensor;
    }
    case Argument::Kind::kResource:
      break;
  }
  return InvalidArgument("Value: a variable's value cannot be a resource");
}

bool NamesById(const Registration& registration) {
  return std::any_of(
      registration.captures.begin(), registration.captures.end(),
      [](const auto& capture) { return capture.second.kind != Argument::Kind::kTensor; });
}

absl::StatusOr<Registration> RegistrationFrom(v1::RegisterRequest& request, Allocator& allocator) {
  Registration registration;
  registration.name_space = request.namespace_();
  registration.name = request.name();
  registration.graph_def = std::move(*request.mutable_graph_def());
  registration.fingerprint = request.fingerprint();
  for (const v1::TensorSpec& input : request.inputs()) {
    absl::StatusOr<TensorSpec> spec = TensorSpecFrom(input);
    if (!spec.ok()) {
      return InField(Annotate(spec.status(), absl::StrCat("input '", input.name(), "'")),
                     absl::StrCat("inputs[", registration.inputs.size(), "]"));
    }
    registration.inputs.push_back(*std::move(spec));
  }
  registration.outputs.assign(request.outputs().begin(), request.outputs().end());
  for (const v1::Capture& capture : request.captures()) {
    absl::StatusOr<Argument> value = ArgumentFrom(capture.value(), allocator);
    if (!value.ok()) {
      return InField(Annotate(value.status(), absl::StrCat("capture '", capture.tensor(), "'")),
                     absl::StrCat("captures[", registration.captures.size(), "].value"));
    }
    registration.captures.emplace_back(capture.tensor(), *std::move(value));
  }
  registration.targets.assign(request.targets().begin(), request.targets().end());
  if (request.has_signature()) {
    absl::StatusOr<FunctionType> signature = FunctionTypeFrom(request.signature());
    if (!signature.ok()) return InField(signature.status(), "signature");
    registration.signature = *std::move(signature);
  }
  registration.pretty_signature = request.pretty_signature();
  registration.max_batch_rows = request.max_batch_rows();
  registration.replace = request.replace();
  registration.retrace = request.retrace();
  return registration;
}

}  // namespace formwork::server
