#include "server/methods.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/function/type_messages.h"
#include "server/info_messages.h"
#include "server/page.h"
#include "server/variable_codec.h"

namespace formwork::server::methods {
namespace {

// At once: others who use kept tensors wait meanwhile.
constexpr int kMaxReleased = 1 << 20;

absl::StatusOr<Target> FunctionTarget(const v1::UnregisterRequest& request) {
  if (request.function_id() != 0) return Target{request.function_id(), ""};
  if (!request.function_name().empty()) return Target{0, request.function_name()};
  return InField(InvalidArgument("the request names no function"), "function_id");
}

// A target by name means the same in each life of the server.
template <typename Request>
absl::Status CheckEpoch(const RequestScope& scope, const Target& target, const Request& request,
                        ErrorDetails* details) {
  if (target.id == 0) return absl::OkStatus();
  return scope.engine.CheckEpoch(request.namespace_(), request.expected_epoch(), details);
}

template <typename Request>
absl::StatusOr<Target> VariableTarget(const RequestScope& scope, const Request& request,
                                      ErrorDetails* details) {
  absl::StatusOr<Target> target = TargetFrom(request.variable());
  if (!target.ok()) return InField(target.status(), "variable");
  FORMWORK_RETURN_IF_ERROR(CheckEpoch(scope, *target, request, details));
  return target;
}

absl::StatusOr<Tensor> InitialValue(const RequestScope& scope, const v1::CreateVariableRequest& in,
                                    ErrorDetails* details) {
  absl::StatusOr<Argument> given = ArgumentFrom(in.initial_value(), scope.engine.allocator());
  if (!given.ok()) return InField(given.status(), "initial_value");
  if (given->kind != Argument::Kind::kTensor) {
    FORMWORK_RETURN_IF_ERROR(
        scope.engine.CheckEpoch(in.namespace_(), in.expected_epoch(), details));
  }
  absl::StatusOr<Tensor> value = ValueOf(scope.engine, in.namespace_(), *std::move(given));
  if (!value.ok()) return InField(value.status(), "initial_value");
  return value;
}

}  // namespace

absl::Status Resolve(const RequestScope& scope, const v1::ResolveRequest& in,
                     v1::ResolveResponse* out, ErrorDetails* details) {
  const absl::StatusOr<FunctionType> type = FunctionTypeFrom(in.signature());
  if (!type.ok()) return InField(type.status(), "signature");
  FORMWORK_ASSIGN_OR_RETURN(const FunctionInfo function,
                            scope.engine.Resolve(in.namespace_(), in.name(), *type, details));
  ToMessage(function, out->mutable_function());
  return absl::OkStatus();
}

absl::Status ListFunctions(const RequestScope& scope, const v1::ListFunctionsRequest& in,
                           v1::ListFunctionsResponse* out, ErrorDetails*) {
  const bool signatures = in.view() != v1::FUNCTION_VIEW_BASIC;
  FORMWORK_ASSIGN_OR_RETURN(
      const std::vector<FunctionInfo> page,
      PageOf(
          scope.engine.ListFunctions(in.namespace_(), signatures), in.page_size(), in.page_token(),
          [](const FunctionInfo& function) { return PageKey(function.name, function.id); },
          [&](const FunctionInfo& function) { return FitsPattern(function.name, in.filter()); },
          out->mutable_next_page_token()));
  for (const FunctionInfo& function : page) ToMessage(function, out->add_functions(), signatures);
  return absl::OkStatus();
}

absl::Status DescribeFunction(const RequestScope& scope, const v1::DescribeFunctionRequest& in,
                              v1::DescribeFunctionResponse* out, ErrorDetails*) {
  std::vector<FunctionInfo> functions;
  FORMWORK_ASSIGN_OR_RETURN(
      *out->mutable_text(),
      scope.engine.DescribeFunction(in.namespace_(), in.name(), in.plan(), &functions));
  for (const FunctionInfo& function : functions) ToMessage(function, out->add_functions());
  return absl::OkStatus();
}

absl::Status Unregister(const RequestScope& scope, const v1::UnregisterRequest& in,
                        v1::UnregisterResponse* out, ErrorDetails* details) {
  FORMWORK_ASSIGN_OR_RETURN(const Target target, FunctionTarget(in));
  FORMWORK_RETURN_IF_ERROR(CheckEpoch(scope, target, in, details));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t removed,
                            scope.engine.Unregister(in.namespace_(), target, in.allow_missing()));
  out->set_removed(removed);
  return absl::OkStatus();
}

absl::Status CreateVariable(const RequestScope& scope, const v1::CreateVariableRequest& in,
                            v1::CreateVariableResponse* out, ErrorDetails* details) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(in.dtype()));
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, ShapeFrom(in.shape()));
  std::optional<Tensor> value;
  if (in.has_initial_value()) {
    FORMWORK_ASSIGN_OR_RETURN(value, InitialValue(scope, in, details));
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const Engine::CreatedVariable created,
      scope.engine.CreateVariable(in.namespace_(), in.name(), dtype, shape, std::move(value)));
  ToMessage(created.variable, out->mutable_variable());
  out->set_existed(created.existed);
  return absl::OkStatus();
}

absl::Status GetVariable(const RequestScope& scope, const v1::GetVariableRequest& in,
                         v1::GetVariableResponse* out, ErrorDetails* details) {
  FORMWORK_ASSIGN_OR_RETURN(const Target target, VariableTarget(scope, in, details));
  FORMWORK_ASSIGN_OR_RETURN(const ResourceInfo variable,
                            scope.engine.GetResource(in.namespace_(), target));
  ToMessage(variable, out->mutable_variable());
  return absl::OkStatus();
}

absl::Status ListVariables(const RequestScope& scope, const v1::ListVariablesRequest& in,
                           v1::ListVariablesResponse* out, ErrorDetails*) {
  FORMWORK_ASSIGN_OR_RETURN(
      const std::vector<ResourceInfo> page,
      PageOf(
          scope.engine.ListResources(in.namespace_()), in.page_size(), in.page_token(),
          [](const ResourceInfo& resource) { return PageKey(resource.name, resource.id); },
          [&](const ResourceInfo& resource) {
            return (in.all_kinds() || resource.type.is_variable()) &&
                   FitsPattern(resource.name, in.filter());
          },
          out->mutable_next_page_token()));
  for (const ResourceInfo& resource : page) ToMessage(resource, out->add_variables());
  const absl::Time snapshot = scope.engine.Stats().snapshots.last.taken;
  if (snapshot > absl::UnixEpoch()) ToMessage(absl::Now() - snapshot, out->mutable_snapshot_age());
  return absl::OkStatus();
}

absl::Status DeleteVariable(const RequestScope& scope, const v1::DeleteVariableRequest& in,
                            v1::DeleteVariableResponse* out, ErrorDetails* details) {
  FORMWORK_ASSIGN_OR_RETURN(const Target target, VariableTarget(scope, in, details));
  const absl::Status deleted = scope.engine.DeleteResource(in.namespace_(), target);
  out->set_deleted(deleted.ok());
  return in.allow_missing() && absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

absl::Status ListTensors(const RequestScope& scope, const v1::ListTensorsRequest& in,
                         v1::ListTensorsResponse* out, ErrorDetails*) {
  FORMWORK_ASSIGN_OR_RETURN(
      const std::vector<KeptTensorInfo> page,
      PageOf(
          scope.engine.ListTensors(in.namespace_()), in.page_size(), in.page_token(),
          [](const KeptTensorInfo& tensor) { return PageKey("", tensor.id); },
          [&](const KeptTensorInfo& tensor) {
            return in.owner().empty() || tensor.owner == in.owner();
          },
          out->mutable_next_page_token()));
  for (const KeptTensorInfo& tensor : page) ToMessage(tensor, out->add_tensors());
  return absl::OkStatus();
}

absl::Status ReleaseTensors(const RequestScope& scope, const v1::ReleaseTensorsRequest& in,
                            v1::ReleaseTensorsResponse* out, ErrorDetails* details) {
  if (in.ids_size() > kMaxReleased) {
    return InField(InvalidArgument("ReleaseTensors: too many IDs: limit=", kMaxReleased), "ids");
  }
  FORMWORK_RETURN_IF_ERROR(scope.engine.CheckEpoch(in.namespace_(), in.expected_epoch(), details));
  out->set_released(scope.engine.ReleaseTensors(in.namespace_(), in.ids()));
  return absl::OkStatus();
}

absl::Status GetServerInfo(const RequestScope& scope, const v1::GetServerInfoRequest& in,
                           v1::GetServerInfoResponse* out, ErrorDetails*) {
  ToMessage(scope.engine.Info(), scope.options, absl::Now() - scope.started, out->mutable_server());
  out->mutable_server()->set_epoch(scope.engine.epoch(in.namespace_()));
  ToMessage(scope.engine.Stats(), out->mutable_stats());
  for (const TransferInfo& transfer : scope.engine.ListTransfers(in.namespace_())) {
    ToMessage(transfer, out->add_transfers());
  }
  return absl::OkStatus();
}

absl::Status ListOps(const RequestScope& scope, const v1::ListOpsRequest& in,
                     v1::ListOpsResponse* out, ErrorDetails*) {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<OpInfo> page,
                            PageOf(
                                scope.engine.ListOps(), in.page_size(), in.page_token(),
                                [](const OpInfo& op) { return PageKey(op.name, 0); },
                                [&](const OpInfo& op) { return FitsPattern(op.name, in.filter()); },
                                out->mutable_next_page_token()));
  for (const OpInfo& op : page) ToMessage(op, out->add_ops());
  return absl::OkStatus();
}

absl::Status ListNamespaces(const RequestScope& scope, const v1::ListNamespacesRequest& in,
                            v1::ListNamespacesResponse* out, ErrorDetails*) {
  FORMWORK_ASSIGN_OR_RETURN(
      const std::vector<NamespaceHoldings> page,
      PageOf(
          scope.engine.ListNamespaces(), in.page_size(), in.page_token(),
          [](const NamespaceHoldings& holdings) { return PageKey(holdings.name, 0); },
          [&](const NamespaceHoldings& holdings) {
            return FitsPattern(holdings.name, in.filter());
          },
          out->mutable_next_page_token()));
  for (const NamespaceHoldings& holdings : page) ToMessage(holdings, out->add_namespaces());
  return absl::OkStatus();
}

absl::Status SetDurability(const RequestScope& scope, const v1::SetDurabilityRequest& in,
                           v1::SetDurabilityResponse* out, ErrorDetails*) {
  const absl::StatusOr<Durability> durability = DurabilityFrom(in.durability());
  if (!durability.ok()) return InField(durability.status(), "durability");
  FORMWORK_RETURN_IF_ERROR(scope.engine.SetDurability(in.namespace_(), *durability));
  out->set_epoch(scope.engine.epoch(in.namespace_()));  // It may be another one from now on.
  return absl::OkStatus();
}

absl::Status Clear(const RequestScope& scope, const v1::ClearRequest& in, v1::ClearResponse* out,
                   ErrorDetails*) {
  scope.engine.Clear(in.namespace_());
  out->set_epoch(scope.engine.epoch(in.namespace_()));  // It may be another one from now on.
  return absl::OkStatus();
}

}  // namespace formwork::server::methods
