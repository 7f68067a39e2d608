// status, namespaces, durability

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "command/commands.h"
#include "command/table.h"

namespace formwork::command {
namespace {

using nlohmann::ordered_json;

std::string Limit(uint64_t limit) { return limit == 0 ? "" : absl::StrCat("of ", limit); }
std::string BytesLimit(uint64_t limit) {
  return limit == 0 ? "" : absl::StrCat("of ", BytesText(limit));
}

ordered_json ToJson(const v1::GetServerInfoResponse& answer) {
  const v1::ServerInfo& server = answer.server();
  const v1::ServerInfo::Limits& limits = server.limits();
  const v1::ServerStats& stats = answer.stats();
  ordered_json devices = ordered_json::array();
  for (const auto& device : server.devices()) {
    devices.push_back(
        {{"name", device.name()}, {"kind", device.kind()}, {"threads", device.threads()}});
  }
  return {{"version", server.version()},
          {"epoch", server.epoch()},
          {"uptime_seconds", server.uptime().seconds()},
          {"devices", devices},
          {"instruction_set", server.instruction_set()},
          {"ops", server.ops_size()},
          {"limits",
           {{"memory_bytes", limits.memory_bytes()},
            {"message_bytes", limits.message_bytes()},
            {"queued_calls", limits.queued_calls()},
            {"functions", limits.functions()},
            {"function_bytes", limits.function_bytes()},
            {"kept_tensor_bytes", limits.kept_tensor_bytes()},
            {"connections", limits.connections()},
            {"namespace_bytes", limits.namespace_bytes()},
            {"namespace_variables", limits.namespace_variables()},
            {"namespace_functions", limits.namespace_functions()},
            {"namespace_kept_tensors", limits.namespace_kept_tensors()},
            {"client_kept_tensor_bytes", limits.client_kept_tensor_bytes()}}},
          {"now",
           {{"functions", stats.functions()},
            {"function_bytes", stats.function_bytes()},
            {"variables", stats.variables()},
            {"variable_bytes", stats.variable_bytes()},
            {"kept_tensors", stats.kept_tensors()},
            {"kept_tensor_bytes", stats.kept_tensor_bytes()},
            {"kept_tensor_leases", stats.kept_tensor_leases()},
            {"calls_queued", stats.calls_queued()},
            {"calls_running", stats.calls_running()},
            {"memory_bytes", stats.memory_bytes()}}}};
}

void Print(const v1::GetServerInfoResponse& answer) {
  const v1::ServerInfo& server = answer.server();
  const v1::ServerInfo::Limits& limits = server.limits();
  const v1::ServerStats& stats = answer.stats();
  std::string devices;
  for (const auto& device : server.devices()) {
    absl::StrAppend(&devices, devices.empty() ? "" : ", ", device.name(), " (", device.threads(),
                    " threads, ", server.instruction_set(), ")");
  }
  PrintTable(
      {{"SERVER", absl::StrCat("formwork ", server.version())},
       {"epoch", absl::StrCat(server.epoch())},
       {"uptime", absl::FormatDuration(absl::Seconds(server.uptime().seconds()))},
       {"devices", devices},
       {"ops", absl::StrCat(server.ops_size())},
       {"memory", BytesText(stats.memory_bytes()), BytesLimit(limits.memory_bytes())},
       {"calls running", absl::StrCat(stats.calls_running())},
       {"calls queued", absl::StrCat(stats.calls_queued()), Limit(limits.queued_calls())},
       {"functions", absl::StrCat(stats.functions()), Limit(limits.functions())},
       {"function bytes", BytesText(stats.function_bytes()), BytesLimit(limits.function_bytes())},
       {"variables", absl::StrCat(stats.variables())},
       {"variable bytes", BytesText(stats.variable_bytes())},
       {"kept tensors", absl::StrCat(stats.kept_tensors())},
       {"kept bytes", BytesText(stats.kept_tensor_bytes()),
        BytesLimit(limits.kept_tensor_bytes())}});
}

std::string DurabilityText(v1::Durability durability) {
  switch (durability) {
    case v1::DURABILITY_MEMORY:
      return "memory";
    case v1::DURABILITY_SNAPSHOT:
      return "snapshot";
    case v1::DURABILITY_SYNC:
      return "sync";
    default:
      return "";
  }
}

uint64_t BytesOf(const v1::NamespaceInfo& one) {
  return one.variable_bytes() + one.other_resource_bytes() + one.function_bytes() +
         one.kept_tensor_bytes();
}

ordered_json ToJson(const v1::NamespaceInfo& one) {
  return {{"name", one.name()},
          {"variables", one.variables()},
          {"variable_bytes", one.variable_bytes()},
          {"other_resources", one.other_resources()},
          {"other_resource_bytes", one.other_resource_bytes()},
          {"functions", one.functions()},
          {"function_bytes", one.function_bytes()},
          {"kept_tensors", one.kept_tensors()},
          {"kept_tensor_bytes", one.kept_tensor_bytes()},
          {"bytes", BytesOf(one)},
          {"durability", DurabilityText(one.durability())}};
}

}  // namespace

absl::Status ListOps(client::Client& client, const Arguments& arguments) {
  const auto listed = client.ListOps(arguments.filter);
  if (!listed.ok()) return listed.status();
  if (listed->empty() && !arguments.filter.empty()) {
    return absl::NotFoundError(absl::StrCat("no op '", arguments.filter, "'"));
  }
  if (arguments.json) {
    ordered_json list = ordered_json::array();
    for (const v1::OpInfo& op : *listed) {
      list.push_back(
          {{"name", op.name()}, {"signature", op.signature()}, {"devices", op.devices()}});
    }
    std::printf("%s\n", list.dump(2).c_str());
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {{"DEVICES", "OP"}};
  for (const v1::OpInfo& op : *listed) {
    rows.push_back({absl::StrJoin(op.devices(), " "), op.signature()});
  }
  PrintTable(rows);
  return absl::OkStatus();
}

absl::Status ListNamespaces(client::Client& client, const Arguments& arguments) {
  const auto listed = client.ListNamespaces();
  if (!listed.ok()) return listed.status();
  if (arguments.json) {
    ordered_json list = ordered_json::array();
    for (const v1::NamespaceInfo& one : *listed) list.push_back(ToJson(one));
    std::printf("%s\n", list.dump(2).c_str());
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "VARIABLES", "TABLES ETC.", "FUNCTIONS", "KEPT TENSORS", "SIZE", "DURABILITY"}};
  for (const v1::NamespaceInfo& one : *listed) {
    rows.push_back({one.name(), absl::StrCat(one.variables()), absl::StrCat(one.other_resources()),
                    absl::StrCat(one.functions()), absl::StrCat(one.kept_tensors()),
                    BytesText(BytesOf(one)), DurabilityText(one.durability())});
  }
  PrintTable(rows);
  return absl::OkStatus();
}

absl::Status SetDurability(client::Client& client, const Arguments& arguments) {
  for (const v1::Durability durability :
       {v1::DURABILITY_MEMORY, v1::DURABILITY_SNAPSHOT, v1::DURABILITY_SYNC}) {
    if (DurabilityText(durability) != arguments.durability) continue;
    const absl::Status set = client.SetDurability(durability);
    if (!set.ok()) return set;
    if (arguments.json) {
      std::printf("%s\n", ordered_json({{"durability", arguments.durability}}).dump(2).c_str());
    } else {
      std::printf("durability: %s\n", arguments.durability.c_str());
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no such durability: '", arguments.durability, "'"));
}

absl::Status Status(client::Client& client, const Arguments& arguments) {
  while (true) {
    const auto answer = client.GetServerInfo();
    if (!answer.ok()) return answer.status();
    if (arguments.json) {
      std::printf("%s\n", ToJson(*answer).dump(arguments.watch ? -1 : 2).c_str());
    } else {
      // Watching on a terminal: each in the place of the one before.
      if (arguments.watch && isatty(STDOUT_FILENO)) std::printf("\x1b[H\x1b[J");
      Print(*answer);
    }
    std::fflush(stdout);
    if (!arguments.watch) return absl::OkStatus();
    absl::SleepFor(absl::Seconds(1));
  }
}

}  // namespace formwork::command
