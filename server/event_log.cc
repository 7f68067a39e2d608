#include "server/event_log.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "server/logging.h"

namespace formwork::server {
namespace {

constexpr size_t kMostNameBytes = 128;
constexpr size_t kMostTextBytes = 400;

std::string Shown(absl::string_view text, size_t bytes) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(Utf8Prefix(text, bytes)), "\"");
}
std::string Shown(absl::string_view name) { return Shown(name, kMostNameBytes); }

std::string CodeName(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

std::string TextOf(const absl::Status& status) {
  const std::string text(status.message());
  return Shown(text, kMostTextBytes);
}

}  // namespace

void LogSlowCall(const FinishedCall& call) {
  static LogLimit& limit = *new LogLimit;
  LogLimited(limit, spdlog::level::info,
             "slow call: namespace={} function={} code={} seconds={:.3f}", Shown(call.name_space),
             Shown(call.function), CodeName(call.status), absl::ToDoubleSeconds(call.latency));
}

void LogRefusedCall(absl::string_view cause, const FinishedCall& call) {
  static LogLimit& limit = *new LogLimit;
  LogLimited(limit, spdlog::level::warn,
             "refused a call: cause={} namespace={} function={} code={} text={}",
             std::string(cause), Shown(call.name_space), Shown(call.function),
             CodeName(call.status), TextOf(call.status));
}

void LogRefusedRequest(absl::string_view cause, absl::string_view method,
                       const absl::Status& status) {
  static LogLimit& limit = *new LogLimit;
  LogLimited(limit, spdlog::level::warn, "refused a request: cause={} method={} code={} text={}",
             std::string(cause), std::string(method), CodeName(status), TextOf(status));
}

void LogEviction(const Eviction& eviction) {
  static LogLimit& functions = *new LogLimit;
  static LogLimit& tensors = *new LogLimit;
  if (eviction.kind == Eviction::Kind::kFunction) {
    LogLimited(functions, spdlog::level::info,
               "evicted a function: the cache is full: namespace={} function={} id={} bytes={}",
               Shown(eviction.name_space), Shown(eviction.name), eviction.id, eviction.bytes);
  } else {
    LogLimited(tensors, spdlog::level::info,
               "evicted a kept tensor: nobody used it for its time to live: namespace={} owner={} "
               "id={} bytes={}",
               Shown(eviction.name_space), Shown(eviction.name), eviction.id, eviction.bytes);
  }
}

void LogSnapshot(const absl::StatusOr<SnapshotInfo>& taken) {
  static LogLimit& limit = *new LogLimit;
  if (!taken.ok()) {
    LogLimited(limit, spdlog::level::err, "no snapshot could be taken: code={} text={}",
               CodeName(taken.status()), TextOf(taken.status()));
    return;
  }
  LogLimited(limit, taken->left_out > 0 ? spdlog::level::warn : spdlog::level::debug,
             "snapshot: variables={} functions={} bytes_written={} left_out={} seconds={:.3f}",
             taken->resources, taken->functions, taken->bytes_written, taken->left_out,
             absl::ToDoubleSeconds(taken->duration));
}

void LogLostFunction(absl::string_view name, const absl::Status& status) {
  static LogLimit& limit = *new LogLimit;
  LogLimited(limit, spdlog::level::warn,
             "a function of the snapshot cannot be registered: function={} code={} text={}",
             Shown(name), CodeName(status), TextOf(status));
}

void LogLostPosition(absl::string_view name, const absl::Status& status) {
  static LogLimit& limit = *new LogLimit;
  LogLimited(limit, spdlog::level::warn,
             "the position of an iterator cannot be restored: iterator={} code={} text={}",
             Shown(name), CodeName(status), TextOf(status));
}

void LogMissingDevice(absl::string_view device) {
  static LogLimit& limit = *new LogLimit;
  LogLimited(limit, spdlog::level::warn,
             "a graph names a device that is not here: its nodes run on what is: device={}",
             Shown(device));
}

}  // namespace formwork::server
