#include <utility>

#include "core/base/status.h"
#include "server/serving/json_elements.h"
#include "server/serving/json_infer.h"

namespace formwork::server {
namespace {

template <typename T>
void WriteJsonList(const Tensor& tensor, JsonWriter& json) {
  json.StartArray();
  for (const T& element : tensor.span<T>()) WriteJsonElement(element, /*bytes=*/false, json);
  json.EndArray();
}

void WriteJsonList(const Tensor& tensor, JsonWriter& json) {
  switch (tensor.dtype()) {
    FORMWORK_REAL_CASES(return WriteJsonList<T>(tensor, json))
    FORMWORK_CASE(bool, return WriteJsonList<T>(tensor, json))
    FORMWORK_CASE(std::string, return WriteJsonList<T>(tensor, json))
    default:
      return;
  }
}

// In binary, too, 32 bits have a string's length.
absl::Status CheckTexts(const std::string& name, const Tensor& tensor, bool binary) {
  if (tensor.dtype() != DType::kString) return absl::OkStatus();
  for (const std::string& text : tensor.span<std::string>()) {
    if (text.size() > kMostJsonStringBytes) {
      return ResourceExhausted("output '", name, "': a string of ", text.size(),
                               " bytes is too long to be sent");
    }
    if (!binary && !IsValidUtf8(text)) {
      return InvalidArgument("output '", name,
                             "' has bytes that are no UTF-8: ask for it with \"binary_data\"");
    }
  }
  return absl::OkStatus();
}

size_t BinarySize(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) return tensor.bytes();
  size_t bytes = 0;
  for (const std::string& text : tensor.span<std::string>()) {
    bytes += sizeof(uint32_t) + text.size();
  }
  return bytes;
}

void AppendBinary(const Tensor& tensor, std::string* out) {
  if (tensor.dtype() != DType::kString) {
    out->append(static_cast<const char*>(tensor.raw()), tensor.bytes());
    return;
  }
  for (const std::string& text : tensor.span<std::string>()) {
    const uint32_t length = static_cast<uint32_t>(text.size());
    out->append(reinterpret_cast<const char*>(&length), sizeof(length));
    out->append(text);
  }
}

void WriteJsonOutput(const std::string& name, const Tensor& value, bool binary, JsonWriter& json) {
  json.StartObject();
  WriteJsonText("name", json);
  WriteJsonText(name, json);
  WriteJsonText("datatype", json);
  WriteJsonText(DatatypeOf(value.dtype()), json);
  WriteJsonText("shape", json);
  json.StartArray();
  for (const int64_t dim : value.shape().dims()) json.Int64(dim);
  json.EndArray();
  if (binary) {
    WriteJsonText("parameters", json);
    json.StartObject();
    WriteJsonText("binary_data_size", json);
    json.Uint64(BinarySize(value));
    json.EndObject();
  } else {
    WriteJsonText("data", json);
    WriteJsonList(value, json);
  }
  json.EndObject();
}

}  // namespace

absl::StatusOr<std::string> WriteJsonInfer(const Prediction& prediction,
                                           const JsonInferForms& forms, size_t* json_bytes) {
  FORMWORK_RETURN_IF_ERROR(CheckDatatypes(prediction));
  const size_t count = prediction.names.size();
  size_t expected = 128 * (count + 1), binary = 0;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& value = prediction.values[i];
    FORMWORK_RETURN_IF_ERROR(CheckTexts(prediction.names[i], value, forms.IsBinary(i)));
    if (forms.IsBinary(i)) {
      binary += BinarySize(value);
    } else {
      expected += static_cast<size_t>(value.num_elements()) * 8;
    }
  }
  JsonText text;
  text.text.reserve(expected + binary);
  JsonWriter json(text);
  json.StartObject();
  WriteJsonText("model_name", json);
  WriteJsonText(prediction.model.name, json);
  WriteJsonText("model_version", json);
  WriteJsonText(VersionTextOf(prediction.model.version), json);
  if (!prediction.request_id.empty()) {
    WriteJsonText("id", json);
    WriteJsonText(prediction.request_id, json);
  }
  WriteJsonText("outputs", json);
  json.StartArray();
  for (size_t i = 0; i < count; ++i) {
    WriteJsonOutput(prediction.names[i], prediction.values[i], forms.IsBinary(i), json);
  }
  json.EndArray();
  json.EndObject();
  std::string body = std::move(text.text);
  *json_bytes = body.size();
  for (size_t i = 0; i < count; ++i) {
    if (forms.IsBinary(i)) AppendBinary(prediction.values[i], &body);
  }
  return body;
}

}  // namespace formwork::server
