// functions, describe, register, load, rm, clear

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "command/commands.h"
#include "command/npy.h"
#include "command/progress.h"
#include "command/table.h"
#include "command/value_text.h"

namespace formwork::command {
namespace {

using nlohmann::ordered_json;

std::string SpecText(const v1::TensorSpec& spec) {
  return absl::StrCat(client::DataTypeName(spec.dtype()), ShapeText(spec.shape()));
}

template <typename Specs>
std::string SpecsText(const Specs& specs) {
  return absl::StrCat("(",
                      absl::StrJoin(specs, ", ",
                                    [](std::string* out, const v1::TensorSpec& spec) {
                                      absl::StrAppend(out, SpecText(spec));
                                    }),
                      ")");
}

template <typename Specs>
ordered_json SpecsJson(const Specs& specs) {
  ordered_json list = ordered_json::array();
  for (const v1::TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name()},
                    {"dtype", client::DataTypeName(spec.dtype())},
                    {"shape", ShapeJson(spec.shape())}});
  }
  return list;
}

ordered_json FunctionJson(const v1::FunctionInfo& function) {
  ordered_json json = {{"id", function.id()},
                       {"name", function.name()},
                       {"signature", function.pretty_signature()},
                       {"inputs", SpecsJson(function.inputs())},
                       {"outputs", SpecsJson(function.outputs())},
                       {"captured_variables", ordered_json::array()},
                       {"deleted_variables", ordered_json::array()},
                       {"calls", function.calls()},
                       {"bytes", function.bytes()}};
  for (const std::string& name : function.captured_variables()) {
    json["captured_variables"].push_back(name);
  }
  for (const std::string& name : function.deleted_variables()) {
    json["deleted_variables"].push_back(name);
  }
  if (!function.plan().empty()) json["plan"] = function.plan();
  return json;
}

template <typename Functions>
void PrintFunctions(const Functions& functions, bool json) {
  if (json) {
    ordered_json list = ordered_json::array();
    for (const auto& function : functions) list.push_back(FunctionJson(function));
    std::printf("%s\n", list.dump(2).c_str());
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"ID", "NAME", "CALLS", "SIZE", "VARIABLES", "INPUTS -> OUTPUTS"}};
  for (const auto& function : functions) {
    rows.push_back(
        {absl::StrCat(function.id()), function.name(), absl::StrCat(function.calls()),
         BytesText(function.bytes()), absl::StrCat(function.captured_variables_size()),
         absl::StrCat(SpecsText(function.inputs()), " -> ", SpecsText(function.outputs()))});
  }
  PrintTable(rows);
}

// "x:0=float32[?,3]" -> {"x:0", "float32[?,3]"}
absl::StatusOr<std::pair<std::string, std::string>> SplitBinding(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.size() == 2) return std::make_pair(parts[0], parts[1]);
  return absl::InvalidArgumentError(absl::StrCat("not TENSOR=WHAT: ", text));
}

absl::Status AddCapture(client::Client& client, const std::string& text,
                        v1::RegisterRequest* request) {
  const auto binding = SplitBinding(text);
  if (!binding.ok()) return binding.status();
  const auto value = ParseValue(client, binding->second, formwork::tf::DT_INVALID);
  if (!value.ok()) return value.status();
  v1::Capture* capture = request->add_captures();
  capture->set_tensor(binding->first);
  if (const auto* variable = std::get_if<client::ResourceId>(&*value)) {
    capture->mutable_value()->set_resource_id(variable->id);
  } else if (const auto* kept = std::get_if<client::KeptTensor>(&*value)) {
    capture->mutable_value()->set_kept_tensor_id(kept->id);
  } else if (const auto* tensor = std::get_if<client::Tensor>(&*value)) {
    v1::Tensor* to = capture->mutable_value()->mutable_tensor();
    to->set_dtype(tensor->dtype());
    to->mutable_dims()->Add(tensor->dims().begin(), tensor->dims().end());
    to->set_content(tensor->Content());
  }
  return absl::OkStatus();
}

// On a terminal, for what cannot be undone.
bool Confirmed(const Arguments& arguments) {
  if (arguments.yes || !isatty(STDIN_FILENO)) return true;
  std::fprintf(stderr,
               "Remove all functions, variables and kept tensors of namespace '%s' on %s? [y/N] ",
               Printable(arguments.name_space).c_str(), Printable(arguments.server).c_str());
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

}  // namespace

absl::StatusOr<v1::FunctionInfo> FindFunction(client::Client& client, const Arguments& arguments,
                                              int inputs) {
  const auto listed = client.ListFunctions();
  if (!listed.ok()) return listed.status();
  bool there = false;
  for (const auto& function : *listed) {
    const bool fits = inputs < 0 || function.inputs_size() == inputs;
    const bool named =
        arguments.id != 0 ? function.id() == arguments.id : function.name() == arguments.name;
    if (named && fits) return function;
    there |= named;
  }
  const std::string which = arguments.id != 0 ? absl::StrCat("with ID ", arguments.id)
                                              : absl::StrCat("'", arguments.name, "'");
  return absl::NotFoundError(absl::StrCat("there is no function ", which,
                                          there ? absl::StrCat(" of ", inputs, " inputs") : ""));
}

absl::StatusOr<std::vector<std::string>> InOrder(const v1::FunctionInfo& function,
                                                 const std::vector<std::string>& inputs) {
  // Keyword-only parameters are the last ones, by name.
  std::vector<std::string> names, keywords;
  for (const v1::Parameter& parameter : function.signature().parameters()) {
    const bool keyword = parameter.kind() == v1::Parameter::KIND_KEYWORD_ONLY;
    (keyword ? keywords : names).push_back(parameter.name());
  }
  std::sort(keywords.begin(), keywords.end());
  names.insert(names.end(), keywords.begin(), keywords.end());
  std::map<std::string, std::string> given;
  for (const std::string& input : inputs) {
    const size_t end = input.find('=');
    const std::string name = input.substr(0, end);
    if (end == std::string::npos || std::find(names.begin(), names.end(), name) == names.end()) {
      continue;
    }
    if (!given.emplace(name, input.substr(end + 1)).second) {
      return absl::InvalidArgumentError(absl::StrCat("input '", name, "' is given twice"));
    }
  }
  if (given.empty()) return inputs;
  const std::string takes = absl::StrCat("; the function takes ", absl::StrJoin(names, ", "));
  if (given.size() != inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("some inputs have a parameter's name before them, and some have not", takes));
  }
  if (static_cast<int>(names.size()) != function.inputs_size()) {
    return absl::InvalidArgumentError(
        "inputs have names only where each of the function's parameters is one tensor");
  }
  std::vector<std::string> ordered;
  for (const std::string& name : names) {
    const auto found = given.find(name);
    if (found == given.end()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", name, "' is missing", takes));
    }
    ordered.push_back(found->second);
  }
  return ordered;
}

std::vector<std::string> OutputNames(const v1::FunctionInfo& function) {
  std::vector<std::string> names;
  const v1::Type& result = function.signature().result();
  if (result.dict().items_size() != function.outputs_size()) return names;
  for (const v1::Type& item : result.dict().items()) {
    if (!item.has_tensor()) return {};
  }
  for (const std::string& key : result.dict().keys()) {
    const ordered_json json = ordered_json::parse(key, nullptr, /*allow_exceptions=*/false);
    names.push_back(json.is_string() ? json.get<std::string>() : key);
  }
  return names;
}

absl::Status ListFunctions(client::Client& client, const Arguments& arguments) {
  const auto listed = client.ListFunctions();
  if (!listed.ok()) return listed.status();
  PrintFunctions(*listed, arguments.json);
  return absl::OkStatus();
}

absl::Status DescribeFunction(client::Client& client, const Arguments& arguments) {
  const auto described = client.DescribeFunction(arguments.name, arguments.plan);
  if (!described.ok()) return described.status();
  if (arguments.json) {
    PrintFunctions(described->functions(), true);
  } else {
    std::printf("%s\n", Printable(described->text(), /*lines=*/true).c_str());
  }
  return absl::OkStatus();
}

absl::Status Register(client::Client& client, const Arguments& arguments) {
  auto graph = ReadFile(arguments.graph);
  if (!graph.ok()) return graph.status();
  v1::RegisterRequest request;
  request.set_name(arguments.name);
  request.set_graph_def(*std::move(graph));
  request.set_replace(arguments.replace);
  for (const std::string& text : arguments.specs) {
    const auto binding = SplitBinding(text);
    if (!binding.ok()) return binding.status();
    auto spec = ParseSpec(binding->first, binding->second);
    if (!spec.ok()) return spec.status();
    *request.add_inputs() = *std::move(spec);
  }
  for (const std::string& output : arguments.outputs) request.add_outputs(output);
  for (const std::string& target : arguments.targets) request.add_targets(target);
  for (const std::string& capture : arguments.captures) {
    const absl::Status added = AddCapture(client, capture, &request);
    if (!added.ok()) return added;
  }
  const auto registered = client.Register(std::move(request));
  if (!registered.ok()) return registered.status();
  PrintFunctions(std::vector<v1::FunctionInfo>{registered->function()}, arguments.json);
  return absl::OkStatus();
}

absl::Status LoadModel(client::Client& client, const Arguments& arguments) {
  const auto loaded = client.LoadSavedModel(arguments.path, arguments.name, arguments.tags,
                                            arguments.replace, arguments.max_batch_rows);
  if (!loaded.ok()) return loaded.status();
  PrintFunctions(loaded->functions(), arguments.json);
  if (!arguments.json) {
    std::printf("from %s: variables: %lld, %s\n", Printable(loaded->path()).c_str(),
                static_cast<long long>(loaded->variables()), BytesText(loaded->bytes()).c_str());
  }
  return absl::OkStatus();
}

absl::Status Remove(client::Client& client, const Arguments& arguments) {
  const auto removed = client.Unregister(arguments.id, arguments.name);
  if (!removed.ok()) return removed.status();
  const std::string count = absl::StrCat(*removed);
  std::printf(arguments.json ? "{\"removed\": %s}\n" : "removed: %s\n", count.c_str());
  return absl::OkStatus();
}

absl::Status Export(client::Client& client, const Arguments& arguments) {
  const auto saved = [&] {
    const Progress progress(client, v1::Transfer::SAVE_CHECKPOINT, arguments.path);
    return client.SaveCheckpoint(arguments.path, arguments.names);
  }();
  if (!saved.ok()) return saved.status();
  std::printf(arguments.json ? "{\"variables\": %lld, \"bytes\": %llu, \"left_out\": %lld}\n"
                             : "variables: %lld\nbytes: %llu\nleft out: %lld\n",
              static_cast<long long>(saved->variables()),
              static_cast<unsigned long long>(saved->bytes()),
              static_cast<long long>(saved->left_out()));
  return absl::OkStatus();
}

absl::Status Restore(client::Client& client, const Arguments& arguments) {
  const auto restored = [&] {
    const Progress progress(client, v1::Transfer::RESTORE_CHECKPOINT, arguments.path);
    return client.RestoreCheckpoint(arguments.path, arguments.names);
  }();
  if (!restored.ok()) return restored.status();
  std::printf(arguments.json ? "{\"variables\": %lld, \"created\": %lld, \"bytes\": %llu}\n"
                             : "variables: %lld\ncreated: %lld\nbytes: %llu\n",
              static_cast<long long>(restored->variables()),
              static_cast<long long>(restored->created()),
              static_cast<unsigned long long>(restored->bytes()));
  return absl::OkStatus();
}

absl::Status TakeSnapshot(client::Client& client, const Arguments& arguments) {
  const auto taken = [&] {
    const Progress progress(client, v1::Transfer::SNAPSHOT);
    return client.TakeSnapshot();
  }();
  if (!taken.ok()) return taken.status();
  const auto& duration = taken->duration();
  const double seconds = static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
  std::printf(
      arguments.json ? "{\"variables\": %lld, \"functions\": %lld, \"bytes_written\": %llu, "
                       "\"left_out\": %lld, \"seconds\": %.3f}\n"
                     : "variables: %lld\nfunctions: %lld\nbytes written: %llu\nleft out: "
                       "%lld\nseconds: %.3f\n",
      static_cast<long long>(taken->variables()), static_cast<long long>(taken->functions()),
      static_cast<unsigned long long>(taken->bytes_written()),
      static_cast<long long>(taken->left_out()), seconds);
  return absl::OkStatus();
}

absl::Status Clear(client::Client& client, const Arguments& arguments) {
  if (!Confirmed(arguments)) return absl::CancelledError("nothing was removed");
  const absl::Status cleared = client.Clear();
  if (!cleared.ok()) return cleared;
  if (arguments.json) {
    std::printf("{}\n");
  } else {
    std::printf("cleared: %s\n", Printable(arguments.name_space).c_str());
  }
  return absl::OkStatus();
}

}  // namespace formwork::command
