#include "command/value_text.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "command/json_tensor.h"
#include "command/npy.h"

namespace formwork::command {
namespace {

namespace tf = formwork::tf;
using client::DataType;
using client::Tensor;
using nlohmann::ordered_json;

constexpr size_t kMaxShown = 1000;  // Characters of a value for people.

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

absl::StatusOr<client::Value> ParseValue(client::Client& client, const std::string& text,
                                         DataType dtype) {
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(text);
  uint64_t id;
  if (absl::StartsWith(rest, "var:")) {
    auto variables = client.ListVariables();
    if (!variables.ok()) return variables.status();
    for (const v1::VariableInfo& variable : *variables) {
      if (variable.name() == rest.substr(4)) return client::ResourceId{variable.id()};
    }
    return absl::NotFoundError(absl::StrCat("no variable '", rest.substr(4), "'"));
  }
  if (absl::StartsWith(rest, "kept:") && absl::SimpleAtoi(rest.substr(5), &id)) {
    return client::KeptTensor{id};
  }
  const size_t colon = rest.find(':');
  if (colon != absl::string_view::npos) {
    const DataType given = client::DataTypeFromName(rest.substr(0, colon));
    if (given != tf::DT_INVALID) {
      dtype = given;
      rest.remove_prefix(colon + 1);
    }
  }
  if (absl::StartsWith(rest, "@")) rest.remove_prefix(1);
  if (absl::EndsWith(rest, ".npy")) return ReadNpy(std::string(rest));
  const ordered_json json = ordered_json::parse(rest.begin(), rest.end(), nullptr, false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat("neither JSON nor a .npy file: ", rest));
  }
  return TensorFromJson(json, dtype);
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

ordered_json ToJson(const client::Value& value) {
  if (const auto* tensor = std::get_if<Tensor>(&value)) {
    return {{"dtype", client::DataTypeName(tensor->dtype())},
            {"shape", tensor->dims()},
            {"value", ToJson(*tensor)}};
  }
  if (const auto* kept = std::get_if<client::KeptTensor>(&value)) return {{"kept", kept->id}};
  if (const auto* id = std::get_if<client::ResourceId>(&value)) return {{"resource", id->id}};
  return {{"opaque", client::DataTypeName(std::get<client::Opaque>(value).dtype)}};
}

std::string ToText(const client::Value& value) {
  if (const auto* tensor = std::get_if<Tensor>(&value)) {
    std::string elements =
        ToJson(*tensor).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    if (elements.size() > kMaxShown) elements = elements.substr(0, kMaxShown) + " ...";
    return absl::StrCat(client::DataTypeName(tensor->dtype()), "[",
                        absl::StrJoin(tensor->dims(), ","), "] ", elements);
  }
  if (const auto* kept = std::get_if<client::KeptTensor>(&value)) {
    return absl::StrCat("kept:", kept->id);
  }
  if (const auto* id = std::get_if<client::ResourceId>(&value)) {
    return absl::StrCat("resource ", id->id);
  }
  return absl::StrCat("<", client::DataTypeName(std::get<client::Opaque>(value).dtype),
                      " that stays on the server>");
}

std::string ShapeText(const v1::Shape& shape) {
  if (shape.unknown_rank()) return "<unknown>";
  return absl::StrCat("[",
                      absl::StrJoin(shape.dims(), ",",
                                    [](std::string* out, int64_t dim) {
                                      dim < 0 ? absl::StrAppend(out, "?")
                                              : absl::StrAppend(out, dim);
                                    }),
                      "]");
}

ordered_json ShapeJson(const v1::Shape& shape) {
  if (shape.unknown_rank()) return nullptr;
  ordered_json dims = ordered_json::array();
  for (int64_t dim : shape.dims())
    dims.push_back(dim < 0 ? ordered_json(nullptr) : ordered_json(dim));
  return dims;
}

absl::StatusOr<v1::TensorSpec> ParseSpec(const std::string& name, const std::string& text) {
  v1::TensorSpec spec;
  spec.set_name(name);
  const size_t open = text.find('[');
  spec.set_dtype(client::DataTypeFromName(text.substr(0, open)));
  const absl::Status bad =
      absl::InvalidArgumentError(absl::StrCat("not a dtype and shape, as float32[?,3]: ", text));
  if (spec.dtype() == tf::DT_INVALID) return bad;
  if (open == std::string::npos) {
    spec.mutable_shape()->set_unknown_rank(true);
    return spec;
  }
  if (text.back() != ']') return bad;
  const std::string dims = text.substr(open + 1, text.size() - open - 2);
  for (absl::string_view part : absl::StrSplit(dims, ',', absl::SkipWhitespace())) {
    int64_t dim = -1;
    if (part != "?" && (!absl::SimpleAtoi(part, &dim) || dim < 0)) return bad;
    spec.mutable_shape()->add_dims(dim);
  }
  spec.mutable_shape();
  return spec;
}

}  // namespace formwork::command
