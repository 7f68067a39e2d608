#pragma once

// What the methods that wait for nothing do: a function each, from the request's message to the
// response's. gRPC's side of them is GraphService's; those that wait are in waiting_methods.h.
//
// None of them has an effect where it fails. `details` may be set where there is more to say of a
// failure; the response's epoch is set before.

#include "absl/status/status.h"
#include "core/engine.h"
#include "formwork/v1/functions.pb.h"
#include "formwork/v1/server.pb.h"
#include "formwork/v1/tensors.pb.h"
#include "formwork/v1/variables.pb.h"
#include "server/request_scope.h"

namespace formwork::server::methods {

absl::Status Resolve(const RequestScope& scope, const v1::ResolveRequest& in,
                     v1::ResolveResponse* out, ErrorDetails* details);
absl::Status ListFunctions(const RequestScope& scope, const v1::ListFunctionsRequest& in,
                           v1::ListFunctionsResponse* out, ErrorDetails* details);
absl::Status DescribeFunction(const RequestScope& scope, const v1::DescribeFunctionRequest& in,
                              v1::DescribeFunctionResponse* out, ErrorDetails* details);
absl::Status Unregister(const RequestScope& scope, const v1::UnregisterRequest& in,
                        v1::UnregisterResponse* out, ErrorDetails* details);

absl::Status CreateVariable(const RequestScope& scope, const v1::CreateVariableRequest& in,
                            v1::CreateVariableResponse* out, ErrorDetails* details);
absl::Status GetVariable(const RequestScope& scope, const v1::GetVariableRequest& in,
                         v1::GetVariableResponse* out, ErrorDetails* details);
absl::Status ListVariables(const RequestScope& scope, const v1::ListVariablesRequest& in,
                           v1::ListVariablesResponse* out, ErrorDetails* details);
absl::Status DeleteVariable(const RequestScope& scope, const v1::DeleteVariableRequest& in,
                            v1::DeleteVariableResponse* out, ErrorDetails* details);

absl::Status ListTensors(const RequestScope& scope, const v1::ListTensorsRequest& in,
                         v1::ListTensorsResponse* out, ErrorDetails* details);
absl::Status ReleaseTensors(const RequestScope& scope, const v1::ReleaseTensorsRequest& in,
                            v1::ReleaseTensorsResponse* out, ErrorDetails* details);

absl::Status GetServerInfo(const RequestScope& scope, const v1::GetServerInfoRequest& in,
                           v1::GetServerInfoResponse* out, ErrorDetails* details);
absl::Status ListOps(const RequestScope& scope, const v1::ListOpsRequest& in,
                     v1::ListOpsResponse* out, ErrorDetails* details);
absl::Status ListNamespaces(const RequestScope& scope, const v1::ListNamespacesRequest& in,
                            v1::ListNamespacesResponse* out, ErrorDetails* details);
absl::Status SetDurability(const RequestScope& scope, const v1::SetDurabilityRequest& in,
                           v1::SetDurabilityResponse* out, ErrorDetails* details);
absl::Status Clear(const RequestScope& scope, const v1::ClearRequest& in, v1::ClearResponse* out,
                   ErrorDetails* details);

}  // namespace formwork::server::methods
