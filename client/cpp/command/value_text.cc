#include "command/value_text.h"

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

ordered_json ValueJson(const client::Value& value) {
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
