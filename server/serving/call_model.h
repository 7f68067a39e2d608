#pragma once

// From a request for a prediction to the call of its model, and to its answer.

#include <memory>
#include <utility>

#include "core/base/memory_budget.h"
#include "core/engine.h"
#include "server/inline_turn.h"
#include "server/request_scope.h"
#include "server/serving/model.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// Makes the call of a model that a request asks for and has it answered. Where the model's
/// function was replaced once between being found and called, there is another one, and the request
/// is read again. `caller`, which is copied, is the request's:
///
///   absl::StatusOr<PredictCall> Read();        // Held to the memory limit.
///   bool MayTakeTurn();                        // Whether its thread may be kept (InlineTurn).
///   void Begin(std::shared_ptr<CallHandle>);   // Puts it where it can be cancelled, starts it.
///   void Guard(absl::FunctionRef<void()>);     // Runs what the engine has called back for.
///   void Answer(PredictCall, CallResult);      // Without the call's spec.
///   void Refuse(const absl::Status&);          // What could not be read.
template <typename Caller>
void CallModel(const RequestScope& scope, Caller caller, bool again = false) {
  absl::StatusOr<PredictCall> call =
      HoldToBudget(scope.engine.memory(), [&] { return caller.Read(); });
  if (!call.ok()) return caller.Refuse(call.status());
  const InlineTurn turn(scope.inline_turns, caller.MayTakeTurn());
  turn.Apply(call->spec);
  CallSpec spec = std::move(call->spec);
  caller.Begin(scope.engine.Call(
      std::move(spec), [&scope, caller, again, made = *std::move(call)](CallResult result) mutable {
        caller.Guard([&] {
          if (!again && WasReplaced(result)) return CallModel(scope, caller, /*again=*/true);
          caller.Answer(std::move(made), std::move(result));
        });
      }));
}

}  // namespace formwork::server
