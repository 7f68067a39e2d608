// What a call has before it runs: its function, the values of its inputs and captures, and which
// places it is to take at its resources.

#include <algorithm>
#include <cstdint>

#include "core/base/hash_map.h"
#include "core/base/reason.h"
#include "core/base/stable_hash.h"
#include "core/base/status.h"
#include "core/engine/call_task.h"
#include "core/ops/data.h"

namespace formwork {

uint64_t CallTask::ContentHash() {
  StableHash hash;
  hash.Add(spec_.function.id).Add(spec_.function.name).Add(uint64_t{spec_.keep_outputs});
  for (const Argument& input : spec_.inputs) {
    const Tensor& tensor = input.tensor;
    hash.Add(static_cast<uint64_t>(input.kind)).Add(input.id);
    hash.Add(static_cast<uint64_t>(tensor.dtype()) << 32 | uint64_t(tensor.shape().rank()));
    for (int64_t dim : tensor.shape().dims()) hash.Add(static_cast<uint64_t>(dim));
  }
  return hash.value();
}

absl::Status CallTask::Prepare(std::vector<AccessRequest>& access) {
  if (spec_.timeline) recorder_ = std::make_shared<TimelineRecorder>();
  BeginPhase("find function");
  FORMWORK_ASSIGN_OR_RETURN(function_, FindFunction());
  BeginPhase("bind");
  result_.function_id = function_->id;
  result_.function_name = function_->name;
  function_->calls.fetch_add(1, std::memory_order_relaxed);
  ticket_.set_writer(function_->id);
  FORMWORK_RETURN_IF_ERROR(Bind(access));
  if (bound().program().open_ended) ticket_.set_owner(weak_from_this());
  if (bound().program().late_handles) {
    engine_.late_handle_calls_.fetch_add(1, std::memory_order_relaxed);
  }
  // What it is answered becomes durable with what it changes.
  if (does_ && is_logged()) ticket_.HoldAll();
  if (spec_.relaxed) return MakeRelaxed(access);
  return spec_.atomic ? MakeAtomic(access) : absl::OkStatus();
}

absl::StatusOr<FunctionPtr> CallTask::FindFunction() {
  if (spec_.function.id != 0) {
    FunctionPtr function = engine_.functions_.Find(name_space_, spec_.function.id);
    if (function != nullptr) return function;
    return InField(NoFunction(spec_.function), "function_id");
  }
  std::vector<InputType> types(spec_.inputs.size());
  std::vector<std::shared_ptr<Resource>> variables;  // Whose shapes the types point into.
  for (size_t i = 0; i < types.size(); ++i) {
    Argument& argument = spec_.inputs[i];
    InputType& type = types[i];
    const auto in_input = [i](const absl::Status& status, absl::string_view field) {
      return InField(Annotate(status, absl::StrCat("input ", i)),
                     absl::StrCat("inputs[", i, "].", field));
    };
    if (argument.kind == Argument::Kind::kKeptTensor) {
      absl::StatusOr<Tensor> kept = engine_.kept_.Use(name_space_, argument.id);
      if (!kept.ok()) return in_input(kept.status(), "kept_tensor_id");
      argument.tensor = *std::move(kept);
      argument.kind = Argument::Kind::kTensor;
    }
    if (argument.kind == Argument::Kind::kTensor) {
      type.dtype = argument.tensor.dtype();
      type.dims = argument.tensor.shape().dims();
      continue;
    }
    std::shared_ptr<Resource> resource = engine_.resources_.Find(argument.id);
    if (resource == nullptr || resource->name_space != name_space_) {
      return in_input(NoResource({argument.id, ""}), "resource_id");
    }
    type.dtype = DType::kResource;
    if (!resource->type.is_variable()) continue;
    type.variable_dtype = resource->dtype();
    type.known_rank = resource->shape().known_rank();
    type.dims = resource->shape().dims();
    variables.push_back(std::move(resource));
  }
  Dispatch dispatch = engine_.functions_.Find(name_space_, spec_.function.name, types);
  if (dispatch.function != nullptr) return dispatch.function;
  if (dispatch.unknown_name) {
    return InField(NoFunction(spec_.function), "function_name");
  }
  result_.details.candidates = std::move(dispatch.candidates);
  result_.details.suggested = std::move(dispatch.suggested);
  return InField(
      WithReason(NotFound("no signature of function '", spec_.function.name,
                          "' takes these inputs: candidates=", result_.details.candidates.size()),
                 Reason::kNoMatchingSignature, {{"functionName", spec_.function.name}}),
      "inputs");
}

absl::Status CallTask::BindInput(size_t i, Argument& argument, std::vector<AccessRequest>& access) {
  const TensorSpec& spec = bound().inputs[i];
  auto where = [&] { return absl::StrCat("input ", i, " ('", spec.name, "')"); };
  if (argument.kind == Argument::Kind::kResource) {
    if (spec.dtype != DType::kResource) {
      return InvalidArgument(where(), ": a resource was given for a tensor of dtype ",
                             DTypeName(spec.dtype));
    }
    std::shared_ptr<Resource> resource = engine_.resources_.Find(argument.id);
    if (resource == nullptr || resource->name_space != name_space_) {
      return InField(Annotate(NoResource({argument.id, ""}), where()), "resource_id");
    }
    values_.push_back(Tensor::Scalar(ResourceHandle{argument.id}));
    const Access mode = bound().program().arg_access[i];
    if (mode != Access::kNone) {
      resource_bytes_ += resource->bytes();
      access.push_back({std::move(resource), mode});
    }
    return absl::OkStatus();
  }
  Tensor value = std::move(argument.tensor);
  if (argument.kind == Argument::Kind::kKeptTensor) {
    absl::StatusOr<Tensor> kept = engine_.kept_.Use(name_space_, argument.id);
    if (!kept.ok()) return InField(Annotate(kept.status(), where()), "kept_tensor_id");
    value = *std::move(kept);
  }
  if (value.dtype() != spec.dtype) {
    return InvalidArgument(where(), " has a wrong dtype: expected=", DTypeName(spec.dtype),
                           " given=", DTypeName(value.dtype()));
  }
  if (!spec.shape.Accepts(value.shape())) {
    return InvalidArgument(where(), " has a wrong shape: expected=", spec.shape.ToString(),
                           " given=", value.shape().ToString());
  }
  values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status CallTask::Bind(std::vector<AccessRequest>& access) {
  const EngineFunction& function = bound();
  if (spec_.inputs.size() != function.inputs.size()) {
    return InField(InvalidArgument("function '", function.name,
                                   "' was called with a wrong number of inputs: expected=",
                                   function.inputs.size(), " given=", spec_.inputs.size()),
                   "inputs");
  }
  values_.reserve(function.program().arg_dtypes.size());
  access.reserve(function.resources.size());
  for (const BoundResource& bound_to : function.resources) {
    if (bound_to.access == Access::kNone) continue;
    std::shared_ptr<Resource> resource = bound_to.resource.lock();
    if (resource == nullptr || resource->destroyed()) {
      return WithReason(FailedPrecondition("Could not find ", bound_to.kind->name, " ",
                                           bound_to.name, " of function '", function.name,
                                           "': the ", bound_to.kind->name, " has been deleted"),
                        Reason::kVariableDeleted,
                        {{"variableName", bound_to.name}, {"functionName", function.name}});
    }
    resource_bytes_ += resource->bytes();
    access.push_back({std::move(resource), bound_to.access});
  }
  for (size_t i = 0; i < spec_.inputs.size(); ++i) {
    absl::Status input = BindInput(i, spec_.inputs[i], access);
    if (!input.ok()) return InField(std::move(input), absl::StrCat("inputs[", i, "]"));
  }
  for (const Binding& binding : function.identity.bindings) {
    values_.push_back(binding.resource_id == 0
                          ? binding.value
                          : Tensor::Scalar(ResourceHandle{binding.resource_id}));
  }
  return BindUses(access);
}

absl::Status CallTask::BindUses(std::vector<AccessRequest>& access) {
  HashMap<uint64_t, Access> known;  // What has come to `access` here.
  const auto note = [&](const UsedResources& uses, bool needed) -> absl::Status {
    for (const UsedResource& used : uses) {
      Access& noted = known[used.id];
      if (noted >= used.access) continue;
      noted = used.access;
      std::shared_ptr<Resource> resource = engine_.resources_.Find(used.id);
      if (resource == nullptr || resource->name_space != name_space_ || resource->destroyed()) {
        if (!needed) continue;  // An iterator may be about to begin anew.
        return WithReason(
            FailedPrecondition("a dataset uses a resource that has been deleted: id=", used.id),
            Reason::kVariableDeleted, {{"functionName", bound().name}});
      }
      resource_bytes_ += resource->bytes();
      access.push_back({std::move(resource), used.access});
    }
    has_uses_ = true;
    return absl::OkStatus();
  };
  for (const Tensor& value : values_) {
    if (value.dtype() != DType::kVariant || value.rank() != 0) continue;
    const auto* const user = dynamic_cast<const UsesResources*>(value.scalar<Variant>().get());
    const auto uses = user == nullptr ? nullptr : user->uses();
    if (uses != nullptr) FORMWORK_RETURN_IF_ERROR(note(*uses, true));
  }
  for (size_t i = 0; i < access.size(); ++i) {  // Which may grow.
    const auto uses = access[i].resource->uses();
    if (uses != nullptr) FORMWORK_RETURN_IF_ERROR(note(*uses, false));
  }
  // The plan does not know when they are used last.
  if (has_uses_) ticket_.HoldAll();
  return absl::OkStatus();
}

absl::Status CallTask::MakeAtomic(absl::Span<const AccessRequest> access) {
  for (const AccessRequest& request : access) {
    if (request.mode == Access::kWrite && request.resource->type.kind == &kIteratorKind) {
      return Unimplemented("atomic calls that take elements of an iterator: ",
                           Described(*request.resource), " cannot be put back");
    }
  }
  ticket_.SetAtomic();
  return absl::OkStatus();
}

absl::Status CallTask::MakeRelaxed(std::vector<AccessRequest>& access) {
  if (spec_.atomic) return InvalidArgument("a call cannot be both atomic and relaxed");
  const RelaxedForm* const form = bound().relaxed.get();
  std::sort(access.begin(), access.end(), [](const AccessRequest& a, const AccessRequest& b) {
    return a.resource->id < b.resource->id;
  });
  // Under two names a resource could be in two regions at once.
  const bool aliased = std::adjacent_find(access.begin(), access.end(),
                                          [](const AccessRequest& a, const AccessRequest& b) {
                                            return a.resource == b.resource;
                                          }) != access.end();
  // Nor is it known in which regions a dataset uses what it has.
  if (form == nullptr || aliased || has_uses_ || (form->known() && form->program() == nullptr)) {
    engine_.relaxed_ordered_.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  if (is_logged()) FORMWORK_RETURN_IF_ERROR(log_->Admit(access));
  access_ = std::exchange(access, {});
  stage_ = Stage::kNew;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<AccessRequest>>> CallTask::RequestsOfRegions() {
  std::vector<std::vector<AccessRequest>> requests;
  for (const Plan::Region& region : relaxed_->plan->regions) {
    std::vector<AccessRequest>& of_region = requests.emplace_back();
    for (const auto& [origin, mode] : region.access) {
      const uint64_t id =
          (origin >= 0 ? values_[static_cast<size_t>(origin)].scalar<ResourceHandle>()
                       : relaxed_->named[static_cast<size_t>(-1 - origin)])
              .id;
      const auto found = std::lower_bound(
          access_.begin(), access_.end(), id,
          [](const AccessRequest& request, uint64_t id) { return request.resource->id < id; });
      std::shared_ptr<Resource> resource = found != access_.end() && found->resource->id == id
                                               ? found->resource
                                               : engine_.resources_.Find(id);
      if (resource == nullptr) return NoResource({id, ""});
      of_region.push_back({std::move(resource), mode});
    }
  }
  return requests;
}

}  // namespace formwork
