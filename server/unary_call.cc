#include "server/unary_call.h"

#include <utility>

#include "server/call_codec.h"
#include "server/read_call.h"
#include "server/value_codec.h"

namespace formwork::server {
namespace {

void Complete(const RequestScope& scope, UnaryRequest& unary, CallResult result) {
  unary.set_function_name(std::move(result.function_name));
  if (!result.status.ok()) return unary.Finish(result.status, result.details, result.printed);
  ErrorDetails details;
  details.effects = Effects::kAll;  // Of a response that cannot be sent: the call has run.
  const auto encode = [&scope, &response = *unary.response(),
                       epoch = unary.epoch()](const CallResult& answered) {
    return EncodeCallResponse(answered, epoch, 0, scope.max_message_bytes, &response);
  };
  if (!SlowToEncode(result)) return unary.Finish(encode(result), details);
  unary.AnswerLarge([encode, result = std::move(result)] { return encode(result); },
                    std::move(details));
}

}  // namespace

void RunUnaryCall(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  DecodedCall call;
  CallResult refused;
  refused.status = ReadCall(scope, unary->message(), unary->context(), unary->arrival(),
                            unary->deadline(), &call, &refused.details);
  unary->set_name_space(call.spec.name_space);
  if (!refused.status.ok()) return unary->Finish(refused.status, refused.details);
  const InlineTurn turn(scope.inline_turns, /*wanted=*/true);
  turn.Apply(call.spec);
  unary->Begin(scope.engine.Call(std::move(call.spec), [&scope, unary](CallResult result) {
    unary->Guard([&] { Complete(scope, *unary, std::move(result)); });
  }));
}

}  // namespace formwork::server
