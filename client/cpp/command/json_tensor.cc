#include "command/json_tensor.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float fraction = static_cast<float>(bits & 1023);
  float value = exponent == 0    ? std::ldexp(fraction, -24)
                : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -value : value;
}

template <typename T>
T At(const std::string& content, int64_t index) {
  T value;
  std::memcpy(&value, content.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// JSON has no NaN and no infinities: their names stand for them.
ordered_json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

// The shortest digits that give back the float.
ordered_json ShortNumber(float value) {
  if (!std::isfinite(value)) return Number(value);
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", static_cast<double>(value));
  for (int digits = 7; digits <= 9 && std::strtof(text, nullptr) != value; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(value));
  }
  return std::strtod(text, nullptr);
}

ordered_json Element(DataType dtype, const std::string& content, int64_t i) {
  switch (dtype) {
    case tf::DT_FLOAT:
      return ShortNumber(At<float>(content, i));
    case tf::DT_DOUBLE:
      return Number(At<double>(content, i));
    case tf::DT_HALF:
      return ShortNumber(FromHalf(At<uint16_t>(content, i)));
    case tf::DT_BFLOAT16:
      return ShortNumber(
          std::bit_cast<float>(static_cast<uint32_t>(At<uint16_t>(content, i)) << 16));
    case tf::DT_COMPLEX64:
      return {ShortNumber(At<float>(content, 2 * i)), ShortNumber(At<float>(content, 2 * i + 1))};
    case tf::DT_COMPLEX128:
      return {Number(At<double>(content, 2 * i)), Number(At<double>(content, 2 * i + 1))};
    case tf::DT_BOOL:
      return At<uint8_t>(content, i) != 0;
    case tf::DT_INT16:
    case tf::DT_QINT16:
      return At<int16_t>(content, i);
    case tf::DT_INT32:
    case tf::DT_QINT32:
      return At<int32_t>(content, i);
    case tf::DT_INT64:
      return At<int64_t>(content, i);
    case tf::DT_UINT16:
    case tf::DT_QUINT16:
      return At<uint16_t>(content, i);
    case tf::DT_UINT32:
      return At<uint32_t>(content, i);
    case tf::DT_UINT64:
      return At<uint64_t>(content, i);
    case tf::DT_INT8:
    case tf::DT_QINT8:
    case tf::DT_INT4:
    case tf::DT_INT2:
      return At<int8_t>(content, i);
    default:
      return At<uint8_t>(content, i);
  }
}

// The elements [*next, ...) as lists of dims[depth], dims[depth + 1], ...
template <typename ElementAt>
ordered_json Nest(const std::vector<int64_t>& dims, size_t depth, int64_t* next,
                  const ElementAt& element_at) {
  if (depth == dims.size()) return element_at((*next)++);
  ordered_json list = ordered_json::array();
  for (int64_t i = 0; i < dims[depth]; ++i) {
    list.push_back(Nest(dims, depth + 1, next, element_at));
  }
  return list;
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

ordered_json ToJson(const Tensor& tensor) {
  const std::optional<int64_t> n = tensor.num_elements();
  int64_t next = 0;
  if (tensor.dtype() == tf::DT_STRING) {
    const auto strings = tensor.Strings();
    if (!n || !strings || static_cast<int64_t>(strings->size()) != *n) return nullptr;
    return Nest(tensor.dims(), 0, &next,
                [&](int64_t i) { return ordered_json((*strings)[static_cast<size_t>(i)]); });
  }
  const size_t size = client::DataTypeSize(tensor.dtype());
  if (!n || size == 0 || tensor.bytes() != static_cast<size_t>(*n) * size) return nullptr;
  const std::string content = tensor.Content();
  return Nest(tensor.dims(), 0, &next,
              [&](int64_t i) { return Element(tensor.dtype(), content, i); });
}

}  // namespace formwork::command
