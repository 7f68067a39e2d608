#include "command/json_tensor.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace formwork::command {
namespace {

namespace tf = formwork::tf;
using client::DataType;
using client::Tensor;
using nlohmann::ordered_json;

// The shape that nested lists have, after their first elements.
void DimsOf(const ordered_json& json, std::vector<int64_t>* dims) {
  if (!json.is_array()) return;
  dims->push_back(static_cast<int64_t>(json.size()));
  if (!json.empty()) DimsOf(json[0], dims);
}

bool Flatten(const ordered_json& json, const std::vector<int64_t>& dims, size_t depth,
             std::vector<const ordered_json*>* elements) {
  if (depth == dims.size()) {
    elements->push_back(&json);
    return !json.is_array() && !json.is_object() && !json.is_null();
  }
  if (!json.is_array() || static_cast<int64_t>(json.size()) != dims[depth]) return false;
  for (const ordered_json& item : json) {
    if (!Flatten(item, dims, depth + 1, elements)) return false;
  }
  return true;
}

DataType Guess(const std::vector<const ordered_json*>& elements) {
  DataType guess = tf::DT_INT32;
  for (const ordered_json* element : elements) {
    if (element->is_string()) return tf::DT_STRING;
    if (element->is_boolean()) return tf::DT_BOOL;
    if (element->is_number_float()) guess = tf::DT_FLOAT;
  }
  return guess;
}

template <typename T>
std::optional<T> Integer(const ordered_json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> Float(const ordered_json& json) {
  if (json.is_number()) {
    const double value = json.get<double>();
    const T rounded = static_cast<T>(value);
    if (std::isfinite(rounded)) return rounded;
  }
  if (json == "NaN") return std::numeric_limits<T>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<T>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<T>::infinity();
  return std::nullopt;
}

std::optional<uint8_t> Bool(const ordered_json& json) {
  if (!json.is_boolean()) return std::nullopt;
  return json.get<bool>() ? 1 : 0;
}

absl::Status Append(const std::vector<const ordered_json*>& elements, DataType dtype, auto parse,
                    std::string* content) {
  for (const ordered_json* element : elements) {
    const auto value = parse(*element);
    if (!value) {
      return absl::InvalidArgumentError(
          absl::StrCat("not a value of dtype ", client::DataTypeName(dtype), ": ",
                       element->dump(-1, ' ', false, ordered_json::error_handler_t::replace)));
    }
    content->append(reinterpret_cast<const char*>(&*value), sizeof(*value));
  }
  return absl::OkStatus();
}

absl::Status AppendAll(const std::vector<const ordered_json*>& elements, DataType dtype,
                       std::string* content) {
  switch (dtype) {
    case tf::DT_FLOAT:
      return Append(elements, dtype, Float<float>, content);
    case tf::DT_DOUBLE:
      return Append(elements, dtype, Float<double>, content);
    case tf::DT_INT8:
      return Append(elements, dtype, Integer<int8_t>, content);
    case tf::DT_INT16:
      return Append(elements, dtype, Integer<int16_t>, content);
    case tf::DT_INT32:
      return Append(elements, dtype, Integer<int32_t>, content);
    case tf::DT_INT64:
      return Append(elements, dtype, Integer<int64_t>, content);
    case tf::DT_UINT8:
      return Append(elements, dtype, Integer<uint8_t>, content);
    case tf::DT_UINT16:
      return Append(elements, dtype, Integer<uint16_t>, content);
    case tf::DT_UINT32:
      return Append(elements, dtype, Integer<uint32_t>, content);
    case tf::DT_UINT64:
      return Append(elements, dtype, Integer<uint64_t>, content);
    case tf::DT_BOOL:
      return Append(elements, dtype, Bool, content);
    default:
      return absl::InvalidArgumentError(absl::StrCat("values of dtype ",
                                                     client::DataTypeName(dtype),
                                                     " are not read from JSON: give a .npy file"));
  }
}

}  // namespace

absl::StatusOr<Tensor> TensorFromJson(const ordered_json& json, DataType dtype) {
  std::vector<int64_t> dims;
  DimsOf(json, &dims);
  std::vector<const ordered_json*> elements;
  if (!Flatten(json, dims, 0, &elements)) {
    return absl::InvalidArgumentError("the lists are not of one shape");
  }
  if (dtype == tf::DT_INVALID) dtype = Guess(elements);
  if (dtype == tf::DT_STRING) {
    std::vector<std::string> strings;
    for (const ordered_json* element : elements) {
      if (!element->is_string()) return absl::InvalidArgumentError("not a string");
      strings.push_back(element->get<std::string>());
    }
    return Tensor::OfStrings(std::move(dims), strings);
  }
  std::string content;
  const absl::Status appended = AppendAll(elements, dtype, &content);
  if (!appended.ok()) return appended;
  return Tensor(dtype, std::move(dims), std::move(content));
}

}  // namespace formwork::command
