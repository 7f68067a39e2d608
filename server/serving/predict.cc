#include "server/serving/predict.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"

namespace formwork::server {

namespace {

bool Takes(const NamedFunction& function, const NamePlaces& names,
           absl::Span<const Tensor> values) {
  const std::vector<TensorSpec>& inputs = function.values->inputs;
  return inputs.size() == names.size() &&
         std::all_of(inputs.begin(), inputs.end(), [&](const TensorSpec& input) {
           const auto place = names.find(input.name);
           return place != names.end() && values[place->second].dtype() == input.dtype &&
                  input.shape.Accepts(values[place->second].shape());
         });
}

}  // namespace

absl::StatusOr<PredictCall> MakePredictCall(const ModelSpec& model,
                                            absl::Span<const NamedFunction> functions,
                                            absl::Span<const std::string> names,
                                            std::vector<Tensor> values,
                                            const WantedOutputs& wanted) {
  const absl::StatusOr<NamePlaces> given = PlacesOf(names);
  if (!given.ok()) return Annotate(given.status(), "inputs");
  const auto fits = std::find_if(functions.begin(), functions.end(),
                                 [&](const NamedFunction& f) { return Takes(f, *given, values); });
  const NamedFunction& function = fits == functions.end() ? functions.front() : *fits;
  const std::vector<TensorSpec>& inputs = function.values->inputs;
  const std::vector<TensorSpec>& outputs = function.values->outputs;
  FORMWORK_RETURN_IF_ERROR(CheckInputNames(*given, inputs));
  PredictCall call;
  absl::StatusOr<std::vector<size_t>> places = FindOutputs(wanted.names, outputs);
  if (!places.ok()) return Annotate(places.status(), wanted.field);
  call.places = *std::move(places);
  for (const size_t place : call.places) call.prediction.names.push_back(outputs[place].name);
  call.prediction.model = model;
  call.prediction.model.version = function.model_version;
  call.spec.name_space = model.name_space;
  call.spec.function.id = function.id;
  call.spec.inputs.reserve(inputs.size());
  for (const TensorSpec& input : inputs) {
    Tensor& value = values[given->find(input.name)->second];
    call.spec.inputs.push_back({Argument::Kind::kTensor, std::move(value), 0});
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
