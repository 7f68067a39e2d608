#include "server/unary_call.h"

#include <algorithm>
#include <utility>

#include "server/call_codec.h"
#include "server/read_call.h"
#include "server/value_codec.h"

namespace formwork::server {
namespace {

void Answer(const RequestScope& scope, UnaryRequest& unary, const CallResult& result) {
  const absl::Status status = EncodeCallResponse(result, scope.engine.epoch(), 0,
                                                 scope.max_message_bytes, unary.response());
  scope.metrics.CountCall(
      {unary.name_space(), result.function_name, status, absl::Now() - unary.arrival()});
  // A response that cannot be sent: the call has run.
  ErrorDetails details;
  if (!status.ok()) details.effects = Effects::kAll;
  unary.Finish(status, details);
}

void Complete(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary,
              CallResult result) {
  if (!result.status.ok()) {
    scope.metrics.CountCall(
        {unary->name_space(), result.function_name, result.status, absl::Now() - unary->arrival()});
    return unary->Finish(result.status, result.details, result.printed);
  }
  const bool slow =
      std::any_of(result.outputs.begin(), result.outputs.end(),
                  [](const CallOutput& output) { return SlowToEncode(output.tensor); });
  if (!slow) return Answer(scope, *unary, result);
  unary->Encode(true,
                [&scope, unary, result = std::move(result)] { Answer(scope, *unary, result); });
}

}  // namespace

void RunUnaryCall(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  DecodedCall call;
  CallResult refused;
  refused.status = ReadCall(scope, unary->message(), unary->context(), unary->arrival(),
                            unary->deadline(), &call, &refused.details);
  if (!refused.status.ok()) return Complete(scope, unary, std::move(refused));
  unary->set_name_space(call.spec.name_space);
  unary->Begin(scope.engine.Call(std::move(call.spec), [&scope, unary](CallResult result) {
    Complete(scope, unary, std::move(result));
  }));
}

}  // namespace formwork::server
