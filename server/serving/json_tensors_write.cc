#include <utility>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "server/serving/json_elements.h"
#include "server/serving/json_tensors.h"

namespace formwork::server {
namespace {

// Writes the values of one output.
class OutputWriter {
 public:
  OutputWriter(const std::string& name, const Tensor& tensor)
      : name_(name), tensor_(tensor), bytes_(absl::EndsWith(name, "_bytes")) {}

  const std::string& name() const { return name_; }
  const Tensor& tensor() const { return tensor_; }

  // Writes what comes next, of the dimensions from `level` on.
  void Write(int level, JsonWriter& json) {
    switch (tensor_.dtype()) {
      FORMWORK_REAL_CASES(return Write(level, tensor_.data<T>(), json))
      FORMWORK_CASE(bool, return Write(level, tensor_.data<T>(), json))
      FORMWORK_CASE(std::string, return Write(level, tensor_.data<T>(), json))
      default:
        return;
    }
  }

 private:
  template <typename T>
  void Write(int level, const T* elements, JsonWriter& json) {
    if (level == tensor_.rank()) return WriteJsonElement(elements[next_++], bytes_, json);
    json.StartArray();
    for (int64_t i = 0; i < tensor_.dim(level); ++i) Write(level + 1, elements, json);
    json.EndArray();
  }

  const std::string& name_;
  const Tensor& tensor_;
  const bool bytes_;
  int64_t next_ = 0;
};

// The value of the only output, or an object of those of all.
void WriteOutputs(std::vector<OutputWriter>& outputs, int level, JsonWriter& json) {
  if (outputs.size() == 1) return outputs[0].Write(level, json);
  json.StartObject();
  for (OutputWriter& output : outputs) {
    WriteJsonText(output.name(), json);
    output.Write(level, json);
  }
  json.EndObject();
}

// How many rows all outputs have.
absl::StatusOr<int64_t> RowsOf(absl::Span<const OutputWriter> outputs) {
  const auto first = [](const OutputWriter& output) {
    return output.tensor().rank() == 0 ? -1 : output.tensor().dim(0);
  };
  const auto shown = [&](const OutputWriter& output) {
    return absl::StrCat("output '", output.name(), "' ",
                        first(output) < 0 ? "is a scalar" : absl::StrCat("has ", first(output)));
  };
  for (const OutputWriter& output : outputs) {
    if (first(output) >= 0 && first(output) == first(outputs[0])) continue;
    return InvalidArgument(
        "\"predictions\" are rows, and the outputs have no common first dimension: ",
        shown(outputs[0]), &output == &outputs[0] ? "" : absl::StrCat(", ", shown(output)),
        "; a request with \"inputs\" gets them as they are");
  }
  return outputs.empty() ? 0 : first(outputs[0]);
}

}  // namespace

absl::StatusOr<std::string> WriteJsonOutputs(bool row_format, absl::Span<const std::string> names,
                                             absl::Span<const Tensor> outputs) {
  std::vector<OutputWriter> writers;
  writers.reserve(outputs.size());
  size_t expected = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!HasJsonForm(outputs[i].dtype())) {
      return Unimplemented("output '", names[i], "': JSON has no form for dtype ",
                           DTypeName(outputs[i].dtype()));
    }
    if (outputs[i].dtype() == DType::kString) {
      for (const std::string& value : outputs[i].span<std::string>()) {
        if (value.size() <= kMostJsonStringBytes) continue;
        return ResourceExhausted("output '", names[i], "': a string of ", value.size(),
                                 " bytes is too long for JSON");
      }
    }
    writers.emplace_back(names[i], outputs[i]);
    expected += static_cast<size_t>(outputs[i].num_elements()) * 8;
  }
  int64_t rows = 0;
  if (row_format) {
    FORMWORK_ASSIGN_OR_RETURN(rows, RowsOf(writers));
  }
  JsonText text;
  text.text.reserve(expected);
  JsonWriter json(text);
  json.StartObject();
  WriteJsonText(row_format ? "predictions" : "outputs", json);
  if (!row_format) {
    WriteOutputs(writers, 0, json);
  } else {
    json.StartArray();
    for (int64_t row = 0; row < rows; ++row) WriteOutputs(writers, 1, json);
    json.EndArray();
  }
  json.EndObject();
  return std::move(text.text);
}

}  // namespace formwork::server
