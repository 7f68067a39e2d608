// status

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
            {"connections", limits.connections()}}},
          {"now",
           {{"functions", stats.functions()},
            {"function_bytes", stats.function_bytes()},
            {"variables", stats.variables()},
            {"variable_bytes", stats.variable_bytes()},
            {"kept_tensors", stats.kept_tensors()},
            {"kept_tensor_bytes", stats.kept_tensor_bytes()},
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

}  // namespace

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
