// variables, read, assign, delete, release, call

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "command/chrome_trace.h"
#include "command/commands.h"
#include "command/json_tensor.h"
#include "command/npy.h"
#include "command/table.h"
#include "command/value_text.h"

namespace formwork::command {
namespace {

using client::Tensor;
using client::Value;
using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json VariableJson(const v1::VariableInfo& variable) {
  ordered_json json = {{"id", variable.id()}, {"name", variable.name()}};
  if (variable.kind().empty()) {
    json["dtype"] = client::DataTypeName(variable.dtype());
    json["shape"] = ShapeJson(variable.shape());
  } else {
    json["kind"] = variable.kind();
    json["type"] = variable.type();
  }
  json["initialized"] = variable.initialized();
  json["version"] = variable.version();
  json["bytes"] = variable.bytes();
  json["last_writer"] = variable.last_writer();
  json["snapshot_version"] = variable.snapshot_version();
  return json;
}

// What the last snapshot has of it.
std::string SnapshotText(const v1::VariableInfo& variable, std::optional<absl::Duration> age) {
  if (variable.snapshot_version() == 0 || !age) return "";
  return absl::StrCat("version ", variable.snapshot_version(), ", ",
                      absl::FormatDuration(absl::Ceil(*age, absl::Seconds(1))), " ago");
}

// PATH.npy for one value, PATH_0.npy, PATH_1.npy, ... for more.
absl::Status Save(const std::vector<Value>& values, const std::string& path) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&values[i]);
    if (tensor == nullptr) continue;
    const absl::Status written =
        WriteNpy(*tensor, values.size() == 1 ? absl::StrCat(path, ".npy")
                                             : absl::StrCat(path, "_", i, ".npy"));
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

// `function`: what is called, where it is there.
absl::StatusOr<client::CallRequest> RequestOf(client::Client& client, const Arguments& arguments,
                                              const absl::StatusOr<v1::FunctionInfo>& function) {
  client::CallRequest request;
  request.function_id = arguments.id;
  request.name = arguments.name;
  request.atomic = arguments.atomic;
  request.relaxed = arguments.relaxed;
  std::vector<std::string> inputs = arguments.inputs;
  if (function.ok()) {
    auto ordered = InOrder(*function, inputs);
    if (!ordered.ok()) return ordered.status();
    inputs = *std::move(ordered);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const client::DataType dtype =
        function.ok() ? function->inputs(static_cast<int>(i)).dtype() : formwork::tf::DT_INVALID;
    auto value = ParseValue(client, inputs[i], dtype);
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          absl::StrCat("input ", i, ": ", value.status().message()));
    }
    request.inputs.push_back(*std::move(value));
  }
  return request;
}

// A call over a stream, where a failed one has a timeline as well, which is written.
absl::StatusOr<client::CallResponse> CallTraced(client::Client& client, client::CallRequest request,
                                                const Arguments& arguments) {
  // The server ends a call that takes too long, and answers; this is for one that does not.
  constexpr absl::Duration kAnswers = absl::Seconds(10);
  request.timeline = true;
  const auto stream = client.OpenStream(client.options().timeout + kAnswers);
  std::optional<client::CallResponse> response;
  if (stream->Write(request)) {
    stream->WritesDone();
    response = stream->Read();
  }
  if (!response) {
    while (stream->Read()) {
    }
    const absl::Status broken = stream->Finish();
    return broken.ok() ? absl::InternalError("the server did not answer") : broken;
  }
  if (response->timeline) {
    const std::string name =
        arguments.name.empty() ? absl::StrCat("function ", arguments.id) : arguments.name;
    const absl::Status written = WriteChromeTrace(*response->timeline, name, arguments.trace);
    if (!written.ok()) return written;
  }
  if (!response->status.ok()) return response->status;
  return *std::move(response);
}

}  // namespace

absl::Status ListVariables(client::Client& client, const Arguments& arguments) {
  std::optional<absl::Duration> snapshot_age;
  const auto listed = client.ListVariables(/*all_kinds=*/true, &snapshot_age);
  if (!listed.ok()) return listed.status();
  if (arguments.json) {
    ordered_json list = ordered_json::array();
    for (const auto& variable : *listed) list.push_back(VariableJson(variable));
    std::printf("%s\n", list.dump(2).c_str());
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "TYPE", "SIZE", "VERSION", "LAST WRITER", "LAST SNAPSHOT"}};
  for (const auto& variable : *listed) {
    const std::string type = variable.kind().empty() ? client::DataTypeName(variable.dtype()) +
                                                           ShapeText(variable.shape())
                                                     : variable.type();
    rows.push_back({absl::StrCat(variable.id()), variable.name(), type,
                    variable.initialized() ? BytesText(variable.bytes()) : "uninitialized",
                    absl::StrCat(variable.version()), variable.last_writer(),
                    SnapshotText(variable, snapshot_age)});
  }
  PrintTable(rows);
  return absl::OkStatus();
}

absl::Status ReadVariable(client::Client& client, const Arguments& arguments) {
  const auto read = client.ReadVariable(arguments.id, arguments.name);
  if (!read.ok()) return read.status();
  if (arguments.json) {
    ordered_json json = VariableJson(read->variable);
    json["shape"] = read->value.dims();
    json["value"] = ToJson(read->value);
    std::printf("%s\n", Dump(json).c_str());
  } else {
    std::printf("%s\n", Printable(ToText(read->value)).c_str());
  }
  return arguments.save.empty() ? absl::OkStatus() : Save({read->value}, arguments.save);
}

absl::Status AssignVariable(client::Client& client, const Arguments& arguments) {
  // For its dtype, so that 1 is a float32 where that is wanted; whether it is there the server
  // says.
  const auto listed = client.ListVariables();
  if (!listed.ok()) return listed.status();
  client::DataType dtype = formwork::tf::DT_INVALID;
  for (const v1::VariableInfo& variable : *listed) {
    const bool meant =
        arguments.id != 0 ? variable.id() == arguments.id : variable.name() == arguments.name;
    if (meant) dtype = variable.dtype();
  }
  const auto value = ParseValue(client, arguments.value, dtype);
  if (!value.ok()) return value.status();
  const auto* tensor = std::get_if<Tensor>(&*value);
  if (tensor == nullptr)
    return absl::InvalidArgumentError("the value is not JSON and no .npy file");
  const auto assigned = client.AssignVariable(arguments.id, arguments.name, *tensor);
  if (!assigned.ok()) return assigned.status();
  if (arguments.json) {
    std::printf("%s\n", Dump(VariableJson(*assigned)).c_str());
  } else {
    std::printf("assigned: %s, version %s\n", Printable(assigned->name()).c_str(),
                absl::StrCat(assigned->version()).c_str());
  }
  return absl::OkStatus();
}

absl::Status DeleteVariable(client::Client& client, const Arguments& arguments) {
  const absl::Status deleted = client.DeleteVariable(arguments.id, arguments.name);
  if (!deleted.ok()) return deleted;
  const std::string what =
      arguments.id != 0 ? absl::StrCat("id ", arguments.id) : Printable(arguments.name);
  std::printf(arguments.json ? "{}\n" : "deleted: %s\n", what.c_str());
  return absl::OkStatus();
}

absl::Status Release(client::Client& client, const Arguments& arguments) {
  std::vector<client::KeptTensor> kept;
  for (uint64_t id : arguments.ids) kept.push_back({id});
  const auto released = client.ReleaseTensors(kept);
  if (!released.ok()) return released.status();
  const std::string count = absl::StrCat(*released);
  std::printf(arguments.json ? "{\"released\": %s}\n" : "released: %s\n", count.c_str());
  return absl::OkStatus();
}

absl::Status Call(client::Client& client, const Arguments& arguments) {
  // For dtypes and names alone: a function that is not there is the server's to refuse.
  const auto function = FindFunction(client, arguments, static_cast<int>(arguments.inputs.size()));
  const auto request = RequestOf(client, arguments, function);
  if (!request.ok()) return request.status();
  const auto response =
      arguments.trace.empty() ? client.Call(*request) : CallTraced(client, *request, arguments);
  if (!response.ok()) return response.status();
  for (const std::string& text : response->printed)
    std::fputs(Printable(text, /*lines=*/true).c_str(), stderr);
  std::vector<std::string> names;
  if (function.ok() && function->id() == response->function_id) names = OutputNames(*function);
  ordered_json outputs = ordered_json::array();
  for (size_t i = 0; i < response->outputs.size(); ++i) {
    const Value& output = response->outputs[i];
    const std::string name = i < names.size() ? names[i] : "";
    if (arguments.json) {
      outputs.push_back(ValueJson(output));
      if (!name.empty()) outputs.back()["name"] = name;
    } else {
      const std::string before = name.empty() ? "" : absl::StrCat(name, ": ");
      std::printf("%s\n", Printable(absl::StrCat(before, ToText(output))).c_str());
    }
  }
  if (arguments.json) {
    std::printf("%s\n",
                Dump({{"function_id", response->function_id}, {"outputs", outputs}}).c_str());
  }
  const absl::Status saved =
      arguments.save.empty() ? absl::OkStatus() : Save(response->outputs, arguments.save);
  if (!saved.ok() || arguments.trace.empty() || response->timeline) return saved;
  return absl::UnimplementedError("the call has run, but the server gave no timeline");
}

}  // namespace formwork::command
