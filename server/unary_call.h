#pragma once

// The method Call: one unary call.

#include <memory>

#include "server/request_scope.h"
#include "server/unary_request.h"

namespace formwork::server {

/// Decodes the request, runs its call and answers.
void RunUnaryCall(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary);

}  // namespace formwork::server
