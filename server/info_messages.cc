#include "server/info_messages.h"

#include <utility>

#include "core/base/status.h"
#include "server/tensor_codec.h"
#include "server/type_messages.h"
#include "server/utf8.h"

namespace formwork::server {
namespace {

formwork::tf::DataType ToMessage(DType dtype) { return static_cast<formwork::tf::DataType>(dtype); }

absl::StatusOr<TensorSpec> TensorSpecFrom(const v1::TensorSpec& message) {
  TensorSpec spec;
  spec.name = message.name();
  FORMWORK_ASSIGN_OR_RETURN(spec.dtype, DTypeFrom(message.dtype()));
  FORMWORK_ASSIGN_OR_RETURN(spec.shape, ShapeFrom(message.shape()));
  return spec;
}

absl::StatusOr<Argument> ArgumentFrom(const v1::Value& message, Allocator& allocator) {
  Argument argument;
  switch (message.kind_case()) {
    case v1::Value::kTensor: {
      FORMWORK_ASSIGN_OR_RETURN(argument.tensor, TensorFromMessage(message.tensor(), allocator));
      return argument;
    }
    case v1::Value::kResourceId:
      argument.kind = Argument::Kind::kResource;
      argument.id = message.resource_id();
      return argument;
    case v1::Value::kKeptTensorId:
      argument.kind = Argument::Kind::kKeptTensor;
      argument.id = message.kept_tensor_id();
      return argument;
    case v1::Value::kOpaque:
      return InvalidArgument("Value: an opaque value cannot be captured");
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("Value: it holds nothing");
}

}  // namespace

void ToMessage(const PartialShape& shape, v1::Shape* message) {
  message->set_unknown_rank(!shape.known_rank());
  for (int64_t dim : shape.dims()) message->add_dims(dim);
}

void ToMessage(const TensorSpec& spec, v1::TensorSpec* message) {
  message->set_name(ToValidUtf8(spec.name));
  message->set_dtype(ToMessage(spec.dtype));
  ToMessage(spec.shape, message->mutable_shape());
}

void ToMessage(const VariableInfo& variable, v1::VariableInfo* message) {
  message->set_id(variable.id);
  message->set_name(ToValidUtf8(variable.name));
  message->set_dtype(ToMessage(variable.dtype));
  ToMessage(variable.shape, message->mutable_shape());
  message->set_initialized(variable.initialized);
  message->set_version(variable.version);
  message->set_bytes(variable.bytes);
}

void ToMessage(const FunctionInfo& function, v1::ConcreteFunctionInfo* message) {
  message->set_id(function.id);
  message->set_name(ToValidUtf8(function.name));
  ToMessage(function.signature, message->mutable_signature());
  for (const TensorSpec& spec : function.inputs) ToMessage(spec, message->add_inputs());
  for (const TensorSpec& spec : function.outputs) ToMessage(spec, message->add_outputs());
  message->set_pretty_signature(ToValidUtf8(function.pretty_signature));
  message->set_calls(function.calls);
  message->set_bytes(function.bytes);
  for (const std::string& name : function.captured_variables) {
    message->add_captured_variables(ToValidUtf8(name));
  }
}

absl::StatusOr<PartialShape> ShapeFrom(const v1::Shape& message) {
  if (message.unknown_rank()) {
    if (message.dims_size() == 0) return PartialShape::Unknown();
    return InvalidArgument("Shape: unknown rank, but it has dims: ", message.dims_size());
  }
  return PartialShape::Make(message.dims());
}

absl::StatusOr<DType> DTypeFrom(int32_t dtype) {
  const DType known = dtype > 0 && dtype < 256 ? static_cast<DType>(dtype) : DType::kInvalid;
  if (!IsKnown(known)) return InvalidArgument("unknown dtype: ", dtype);
  return known;
}

absl::StatusOr<Registration> RegistrationFrom(const v1::RegisterRequest& request,
                                              Allocator& allocator) {
  Registration registration;
  registration.name_space = request.namespace_();
  registration.name = request.name();
  registration.graph_def = request.graph_def();
  registration.fingerprint = request.fingerprint();
  for (const v1::TensorSpec& input : request.inputs()) {
    absl::StatusOr<TensorSpec> spec = TensorSpecFrom(input);
    if (!spec.ok()) return Annotate(spec.status(), absl::StrCat("input '", input.name(), "'"));
    registration.inputs.push_back(*std::move(spec));
  }
  registration.outputs.assign(request.outputs().begin(), request.outputs().end());
  for (const v1::Capture& capture : request.captures()) {
    absl::StatusOr<Argument> value = ArgumentFrom(capture.value(), allocator);
    if (!value.ok()) {
      return Annotate(value.status(), absl::StrCat("capture '", capture.tensor(), "'"));
    }
    registration.captures.emplace_back(capture.tensor(), *std::move(value));
  }
  registration.targets.assign(request.targets().begin(), request.targets().end());
  if (request.has_signature()) {
    FORMWORK_ASSIGN_OR_RETURN(registration.signature, FunctionTypeFrom(request.signature()));
  }
  registration.pretty_signature = request.pretty_signature();
  registration.replace = request.replace();
  registration.retrace = request.retrace();
  return registration;
}

}  // namespace formwork::server
