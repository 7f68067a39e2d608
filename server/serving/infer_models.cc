#include "server/serving/infer_models.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

std::vector<InferModel::Value> ValuesOf(const std::vector<TensorSpec>& specs) {
  std::vector<InferModel::Value> values;
  for (const TensorSpec& spec : specs) {
    const absl::Span<const int64_t> dims = spec.shape.dims();
    values.push_back({spec.name, spec.dtype,
                      spec.shape.known_rank() ? Dims(dims.begin(), dims.end()) : Dims({-1})});
  }
  return values;
}

}  // namespace

absl::StatusOr<PredictCall> MakeInferCall(Engine& engine, InferRequest request) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<NamedFunction> functions,
                            FindModel(engine, request.model));
  absl::StatusOr<PredictCall> call =
      MakePredictCall(request.model, functions, request.names, std::move(request.values),
                      {request.outputs, "outputs"});
  if (!call.ok()) {
    return Annotate(call.status(), absl::StrCat("model '", request.model.name, "'"));
  }
  call->prediction.request_id = std::move(request.id);
  call->timeout = request.timeout;
  return call;
}

absl::Status CheckRepository(absl::string_view name) {
  if (name.empty()) return absl::OkStatus();
  return Unimplemented("repository_name: there is one repository, which has no name");
}

absl::StatusOr<InferModel> DescribeModel(Engine& engine, const ModelSpec& model) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<NamedFunction> functions, FindModel(engine, model));
  const NamedFunction& latest = functions.front();
  InferModel described;
  described.name = model.name;
  described.version = latest.model_version;
  described.inputs = ValuesOf(latest.values->inputs);
  described.outputs = ValuesOf(latest.values->outputs);
  for (const FunctionInfo& function : engine.ListFunctions(model.name_space, false)) {
    if (function.id == latest.id) described.max_batch_rows = function.max_batch_rows;
  }
  return described;
}

std::vector<ModelSpec> ListModels(Engine& engine, const std::string& name_space) {
  std::vector<ModelSpec> models;
  std::string last;  // They are in the order of their names, of which none is empty.
  for (const FunctionInfo& function : engine.ListFunctions(name_space, false)) {
    if (function.name == last) continue;
    last = function.name;
    for (const NamedFunction& named : engine.FindNamed(name_space, function.name)) {
      if (named.values == nullptr) continue;
      models.push_back({name_space, function.name, named.model_version, ""});
      break;
    }
  }
  return models;
}

}  // namespace formwork::server
