#pragma once

// The engine's descriptions (variables, functions, specs, the server itself) <-> their messages.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "formwork/v1/functions.pb.h"
#include "formwork/v1/server.pb.h"
#include "formwork/v1/tensors.pb.h"
#include "formwork/v1/types.pb.h"
#include "formwork/v1/variables.pb.h"
#include "google/protobuf/duration.pb.h"
#include "server/flags.h"

namespace formwork::server {

void ToMessage(const ResourceInfo& resource, v1::VariableInfo* message);
/// `signatures`: with what FUNCTION_VIEW_BASIC leaves out.
void ToMessage(const FunctionInfo& function, v1::FunctionInfo* message, bool signatures = true);
void ToMessage(const KeptTensorInfo& tensor, v1::KeptTensorInfo* message);
void ToMessage(const TransferInfo& transfer, v1::Transfer* message);
/// Errors: kInvalidArgument if it is none.
absl::StatusOr<Durability> DurabilityFrom(v1::Durability durability);
void ToMessage(const NamespaceHoldings& holdings, v1::NamespaceInfo* message);
/// What outlives the engine's process.
v1::Durability DurabilityOf(const EngineOptions& engine);
void ToMessage(const EngineInfo& engine, const ServerOptions& options, absl::Duration uptime,
               v1::ServerInfo* message);
void ToMessage(const OpInfo& op, v1::OpInfo* message);
void ToMessage(const EngineStats& stats, v1::ServerStats* message);
void ToMessage(absl::Duration duration, google::protobuf::Duration* message);

absl::Duration DurationFrom(const google::protobuf::Duration& message);

/// Errors of these: also kResourceExhausted if there is no memory for a value.
absl::StatusOr<Argument> ArgumentFrom(const v1::Value& message, Allocator& allocator);
/// Takes the graph out of `request`.
absl::StatusOr<Registration> RegistrationFrom(v1::RegisterRequest& request, Allocator& allocator);

/// The value that a client gave: itself, or the one that is kept.
/// Errors: kNotFound (kept tensor); kInvalidArgument where it is a resource.
absl::StatusOr<Tensor> ValueOf(Engine& engine, absl::string_view name_space, Argument argument);

/// Whether its captures' IDs have a meaning in one life of the server alone.
bool NamesById(const Registration& registration);

}  // namespace formwork::server
