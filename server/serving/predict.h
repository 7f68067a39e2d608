#pragma once

// A prediction as TensorFlow Serving's APIs ask for it: a call of a model's function, whose outputs
// have names.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine.h"
#include "server/serving/model.h"

namespace formwork::server {

/// What is answered.
struct Prediction {
  ModelSpec model;  ///< With the version that it was.
  std::vector<std::string> names;
  std::vector<Tensor> values;  ///< One for each name.
};

/// A call, and what is answered of its result.
struct PredictCall {
  CallSpec spec;
  Prediction prediction;       ///< Without values.
  std::vector<size_t> places;  ///< Of its outputs, among the call's.
};

/// The call of the one of `functions` (FindModel) that takes `values`, the latest where several do;
/// where none does the latest of all, whose call says what is wrong. `names`: of the values, in any
/// order. `wanted`: names of outputs; none: all. Errors: PlacesOf', CheckInputNames', FindOutputs'.
absl::StatusOr<PredictCall> MakePredictCall(const ModelSpec& model,
                                            absl::Span<const NamedFunction> functions,
                                            absl::Span<const std::string> names,
                                            std::vector<Tensor> values,
                                            absl::Span<const std::string> wanted);

/// The prediction of a call that has succeeded. Errors: kInvalidArgument naming an output that
/// cannot be sent.
absl::StatusOr<Prediction> PredictionOf(PredictCall call, CallResult result);

}  // namespace formwork::server
