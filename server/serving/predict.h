#pragma once

// A prediction as the APIs of other servers ask for it: a call of a model's function, whose outputs
// have names.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/engine.h"
#include "server/serving/model.h"

namespace formwork::server {

/// What is answered.
struct Prediction {
  ModelSpec model;  ///< With the version that it was.
  std::vector<std::string> names;
  std::vector<Tensor> values;  ///< One for each name.
  std::string request_id;      ///< Its client's, where the protocol has such.
};

/// The outputs that a request asks for; none: all.
struct WantedOutputs {
  absl::Span<const std::string> names;
  absl::string_view field;  ///< Of the request, which has them, for errors.
};

/// A call, and what is answered of its result.
struct PredictCall {
  CallSpec spec;
  Prediction prediction;                              ///< Without values.
  std::vector<size_t> places;                         ///< Of its outputs, among the call's.
  absl::Duration timeout = absl::InfiniteDuration();  ///< From the request's arrival on.
};

/// The call of the one of `functions` (FindModel) that takes `values`, the latest where several do;
/// where none does the latest of all, whose call says what is wrong. `names`: of the values, in any
/// order. Errors: PlacesOf', CheckInputNames', FindOutputs'.
absl::StatusOr<PredictCall> MakePredictCall(const ModelSpec& model,
                                            absl::Span<const NamedFunction> functions,
                                            absl::Span<const std::string> names,
                                            std::vector<Tensor> values,
                                            const WantedOutputs& wanted);

/// The prediction of a call that has succeeded. Errors: kInvalidArgument naming an output that
/// cannot be sent.
absl::StatusOr<Prediction> PredictionOf(PredictCall call, CallResult result);

}  // namespace formwork::server
