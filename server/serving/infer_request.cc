#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "formwork/serving/inference_service.pb.h"
#include "server/call_codec.h"
#include "server/serving/infer_codec.h"
#include "server/serving/infer_contents.h"
#include "server/tensor_codec.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;
using InputTensor = ModelInferRequest::InferInputTensor;
using RequestedOutput = ModelInferRequest::InferRequestedOutputTensor;

constexpr char kInferRequest[] = "ModelInferRequest";

// An InferParameter; false where it is malformed.
bool ReadParameterValue(WireReader reader, ParameterValue* value) {
  while (!reader.done()) {
    uint32_t tag;
    uint64_t bits = 0;
    std::string text;
    if (!reader.ReadTag(&tag)) return false;
    switch (tag) {
      case MakeTag(InferParameter::kBoolParamFieldNumber, WireType::kVarint):
        if (!reader.ReadVarint(&bits)) return false;
        *value = {bits != 0, 0};
        break;
      case MakeTag(InferParameter::kInt64ParamFieldNumber, WireType::kVarint):
      case MakeTag(InferParameter::kUint64ParamFieldNumber, WireType::kVarint):
        if (!reader.ReadVarint(&bits)) return false;
        *value = {bits != 0, static_cast<int64_t>(bits)};
        break;
      case MakeTag(InferParameter::kStringParamFieldNumber, WireType::kBytes):
        if (!reader.ReadString(&text)) return false;
        *value = {!text.empty(), 0};
        break;
      case MakeTag(InferParameter::kDoubleParamFieldNumber, WireType::kFixed64):
        if (reader.remaining() < sizeof(bits)) return false;
        reader.CopyTo(&bits, sizeof(bits));
        *value = {bits << 1 != 0, 0};  // Neither 0 nor -0.
        break;
      default:
        if (!reader.SkipField(tag)) return false;
    }
  }
  return true;
}

// One entry of a map of parameters; false where it is malformed.
bool ReadParameter(WireReader entry, std::string* name, ParameterValue* value) {
  while (!entry.done()) {
    uint32_t tag;
    WireReader nested;
    if (!entry.ReadTag(&tag)) return false;
    const bool read = tag == MakeTag(kMapKey, WireType::kBytes) ? entry.ReadString(name)
                      : tag == MakeTag(kMapValue, WireType::kBytes)
                          ? entry.ReadNested(&nested) && ReadParameterValue(nested, value)
                          : entry.SkipField(tag);
    if (!read) return false;
  }
  return true;
}

// Reads a field `parameters`, whose entry comes next.
absl::Status TakeParameter(ParameterOf of, absl::string_view owner, WireReader& reader,
                           InferRequest* request) {
  WireReader entry;
  std::string name;
  ParameterValue value;
  if (!reader.ReadNested(&entry) || !ReadParameter(entry, &name, &value)) {
    return Malformed(kInferRequest);
  }
  return TakeParameter(of, owner, name, value, request);
}

// An input as it is met; its elements stay where they are.
struct WireInput {
  std::string name;
  std::string datatype;
  Dims dims;
  absl::InlinedVector<WireReader, 1> contents;  // Messages that are merged.

  void AddDim(uint64_t dim) {
    // One more than any shape may have is enough to be refused.
    if (dims.size() <= static_cast<size_t>(kMaxRank)) dims.push_back(static_cast<int64_t>(dim));
  }
  bool has_contents() const {
    for (const WireReader& piece : contents) {
      if (!piece.done()) return true;
    }
    return false;
  }
};

bool ReadDims(WireReader packed, WireInput* input) {
  while (!packed.done()) {
    uint64_t dim;
    if (!packed.ReadVarint(&dim)) return false;
    input->AddDim(dim);
  }
  return true;
}

absl::Status ReadInput(WireReader reader, WireInput* input, InferRequest* request) {
  while (!reader.done()) {
    uint32_t tag;
    uint64_t dim;
    WireReader nested;
    if (!reader.ReadTag(&tag)) return Malformed(kInferRequest);
    bool read = true;
    switch (tag) {
      case MakeTag(InputTensor::kNameFieldNumber, WireType::kBytes):
        read = reader.ReadString(&input->name);
        break;
      case MakeTag(InputTensor::kDatatypeFieldNumber, WireType::kBytes):
        read = reader.ReadString(&input->datatype);
        break;
      case MakeTag(InputTensor::kShapeFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&dim);
        if (read) input->AddDim(dim);
        break;
      case MakeTag(InputTensor::kShapeFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&nested) && ReadDims(nested, input);
        break;
      case MakeTag(InputTensor::kParametersFieldNumber, WireType::kBytes):
        FORMWORK_RETURN_IF_ERROR(TakeParameter(ParameterOf::kInput, input->name, reader, request));
        break;
      case MakeTag(InputTensor::kContentsFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&input->contents.emplace_back());
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed(kInferRequest);
  }
  return absl::OkStatus();
}

absl::Status ReadOutput(WireReader reader, InferRequest* request) {
  std::string& name = request->outputs.emplace_back();
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return Malformed(kInferRequest);
    if (tag == MakeTag(RequestedOutput::kParametersFieldNumber, WireType::kBytes)) {
      FORMWORK_RETURN_IF_ERROR(TakeParameter(ParameterOf::kOutput, name, reader, request));
    } else if (!(tag == MakeTag(RequestedOutput::kNameFieldNumber, WireType::kBytes)
                     ? reader.ReadString(&name)
                     : reader.SkipField(tag))) {
      return Malformed(kInferRequest);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorOf(const WireInput& input, const WireReader* raw,
                                Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFromDatatype(input.datatype));
  if (raw == nullptr) return ReadInferContents(input.contents, dtype, input.dims, allocator);
  if (!input.has_contents()) return TensorParts::Of(dtype, input.dims, *raw).Build(allocator);
  return InvalidArgument("it has contents, and the request has raw_input_contents");
}

// All parts of a request as they are met.
struct WireInferRequest {
  std::vector<WireInput> inputs;
  std::vector<WireReader> raw;
};

absl::Status ReadRequest(WireReader reader, WireInferRequest* wire, InferRequest* request) {
  const auto has_room = [](size_t count) { return count < kMaxInputs; };
  std::string version;
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    std::string id;
    if (!reader.ReadTag(&tag)) return Malformed(kInferRequest);
    bool read = true;
    switch (tag) {
      case MakeTag(ModelInferRequest::kModelNameFieldNumber, WireType::kBytes):
        read = reader.ReadString(&request->model.name);
        break;
      case MakeTag(ModelInferRequest::kModelVersionFieldNumber, WireType::kBytes):
        read = reader.ReadString(&version);
        break;
      case MakeTag(ModelInferRequest::kIdFieldNumber, WireType::kBytes):
        read = reader.ReadString(&id);
        if (read) FORMWORK_RETURN_IF_ERROR(SetRequestId(std::move(id), request));
        break;
      case MakeTag(ModelInferRequest::kParametersFieldNumber, WireType::kBytes):
        FORMWORK_RETURN_IF_ERROR(TakeParameter(ParameterOf::kRequest, "", reader, request));
        break;
      case MakeTag(ModelInferRequest::kInputsFieldNumber, WireType::kBytes):
        if (!has_room(wire->inputs.size())) {
          return InvalidArgument("too many inputs: limit=", kMaxInputs);
        }
        read = reader.ReadNested(&nested);
        if (!read) break;
        FORMWORK_RETURN_IF_ERROR(ReadInput(nested, &wire->inputs.emplace_back(), request));
        break;
      case MakeTag(ModelInferRequest::kOutputsFieldNumber, WireType::kBytes):
        if (!has_room(request->outputs.size())) {
          return InvalidArgument("too many outputs: limit=", kMaxInputs);
        }
        read = reader.ReadNested(&nested);
        if (read) FORMWORK_RETURN_IF_ERROR(ReadOutput(nested, request));
        break;
      case MakeTag(ModelInferRequest::kRawInputContentsFieldNumber, WireType::kBytes):
        if (!has_room(wire->raw.size())) {
          return InvalidArgument("too many raw_input_contents: limit=", kMaxInputs);
        }
        read = reader.ReadNested(&wire->raw.emplace_back());
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed(kInferRequest);
  }
  FORMWORK_ASSIGN_OR_RETURN(request->model.version, VersionFrom(version));
  return absl::OkStatus();
}

absl::Status DecodeInfer(const grpc::ByteBuffer& message, Allocator& allocator,
                         InferRequest* request) {
  const ReceivedMessage received(message);
  WireInferRequest wire;
  FORMWORK_RETURN_IF_ERROR(
      ReadRequest(WireReader(received.chunks(), received.size()), &wire, request));
  const bool has_raw = !wire.raw.empty();
  if (has_raw && wire.raw.size() != wire.inputs.size()) {
    return InvalidArgument("raw_input_contents are not one of each input: contents=",
                           wire.raw.size(), " inputs=", wire.inputs.size());
  }
  request->names.reserve(wire.inputs.size());
  request->values.reserve(wire.inputs.size());
  for (size_t i = 0; i < wire.inputs.size(); ++i) {
    WireInput& input = wire.inputs[i];
    absl::StatusOr<Tensor> tensor = TensorOf(input, has_raw ? &wire.raw[i] : nullptr, allocator);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("input '", input.name, "'"));
    request->names.push_back(std::move(input.name));
    request->values.push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeInferRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                InferRequest* request) {
  const absl::Status decoded = DecodeInfer(message, allocator, request);
  if (decoded.ok() || request->model.name.empty()) return decoded;
  return Annotate(decoded, absl::StrCat("model '", request->model.name, "'"));
}

}  // namespace formwork::server
