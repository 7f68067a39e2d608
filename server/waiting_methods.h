#pragma once

// The unary methods that may wait in the engine, for variables or a thread: each takes the request
// from its bytes to its answer, in the background where it must. Call is in unary_call.h.

#include <memory>

#include "server/request_scope.h"
#include "server/unary_request.h"

namespace formwork::server {

void RunRegister(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
void RunReadVariables(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
void RunAssignVariables(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
void RunSaveCheckpoint(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
void RunRestoreCheckpoint(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
void RunLoadSavedModel(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
void RunTakeSnapshot(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);
/// Waits for nothing, but encodes what may be large.
void RunReadTensor(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);

}  // namespace formwork::server
