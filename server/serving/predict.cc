#include "server/serving/predict.h"

#include <utility>

#include "core/base/status.h"

namespace formwork::server {

absl::StatusOr<PredictCall> MakePredictCall(const ModelSpec& model, const NamedFunction& function,
                                            std::vector<Tensor> inputs,
                                            absl::Span<const std::string> wanted) {
  const std::vector<TensorSpec>& outputs = function.values->outputs;
  PredictCall call;
  FORMWORK_ASSIGN_OR_RETURN(call.places, FindOutputs(wanted, outputs));
  for (const size_t place : call.places) call.prediction.names.push_back(outputs[place].name);
  call.prediction.model = model;
  call.prediction.model.version = function.model_version;
  call.spec.name_space = model.name_space;
  call.spec.function.id = function.id;
  call.spec.inputs.reserve(inputs.size());
  for (Tensor& input : inputs) {
    call.spec.inputs.push_back({Argument::Kind::kTensor, std::move(input), 0});
  }
  return call;
}

absl::StatusOr<Prediction> PredictionOf(PredictCall call, CallResult result) {
  for (size_t i = 0; i < call.places.size(); ++i) {
    CallOutput& output = result.outputs[call.places[i]];
    if (output.opaque != DType::kInvalid) {
      return InvalidArgument("output '", call.prediction.names[i],
                             "' cannot be sent: dtype=", std::string(DTypeName(output.opaque)));
    }
    call.prediction.values.push_back(std::move(output.tensor));
  }
  return std::move(call.prediction);
}

}  // namespace formwork::server
