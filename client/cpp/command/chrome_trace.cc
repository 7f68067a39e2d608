#include "command/chrome_trace.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace formwork::command {
namespace {

using nlohmann::ordered_json;
using v1::Timeline;

constexpr int kProcess = 1;

const std::string& TextOf(const Timeline& timeline, uint32_t index) {
  static const std::string empty;
  return index < static_cast<uint32_t>(timeline.texts_size())
             ? timeline.texts(static_cast<int>(index))
             : empty;
}

const char* Category(Timeline::Kind kind) {
  switch (kind) {
    case Timeline::KIND_PHASE:
      return "phase";
    case Timeline::KIND_STEP:
      return "step";
    case Timeline::KIND_CALL:
      return "call";
    case Timeline::KIND_LANES:
      return "lanes";
    case Timeline::KIND_WORK:
      return "work";
    case Timeline::KIND_COPY:
      return "copy";
    case Timeline::KIND_WAIT:
      return "wait";
    case Timeline::KIND_SUSPENDED:
      return "suspended";
    default:
      return "other";
  }
}

// What `detail` is.
const char* DetailName(Timeline::Kind kind) {
  switch (kind) {
    case Timeline::KIND_CALL:
      return "function";
    case Timeline::KIND_WAIT:
    case Timeline::KIND_SUSPENDED:
      return "for";
    case Timeline::KIND_COPY:
      return "to";
    default:
      return "outputs";
  }
}

double Microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

ordered_json SpanJson(const Timeline& timeline, const Timeline::Span& span) {
  const std::string& name = TextOf(timeline, span.name());
  const std::string& op = TextOf(timeline, span.op());
  const std::string& detail = TextOf(timeline, span.detail());
  ordered_json arguments = ordered_json::object();
  if (!op.empty()) arguments["op"] = op;
  if (!detail.empty()) arguments[DetailName(span.kind())] = detail;
  if (span.bytes() > 0) arguments["bytes"] = span.bytes();
  return {{"name", name.empty() ? op : name},
          {"cat", Category(span.kind())},
          {"ph", "X"},
          {"ts", Microseconds(span.begin_ns())},
          {"dur", Microseconds(span.duration_ns())},
          {"pid", kProcess},
          {"tid", span.track()},
          {"args", std::move(arguments)}};
}

ordered_json NameJson(const char* what, int track, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

std::string ChromeTrace(const Timeline& timeline, const std::string& name) {
  ordered_json events = ordered_json::array();
  events.push_back(NameJson("process_name", 0, name));
  for (int track = 0; track < timeline.tracks_size(); ++track) {
    events.push_back(NameJson("thread_name", track, timeline.tracks(track)));
  }
  uint64_t end = 0;
  for (const Timeline::Span& span : timeline.spans()) {
    events.push_back(SpanJson(timeline, span));
    end = std::max(end, span.begin_ns() + span.duration_ns());
  }
  if (timeline.left_out() > 0) {
    events.push_back({{"name", absl::StrCat(timeline.left_out(), " more were left out")},
                      {"ph", "i"},
                      {"s", "p"},
                      {"ts", Microseconds(end)},
                      {"pid", kProcess},
                      {"tid", 0}});
  }
  const ordered_json trace = {
      {"displayTimeUnit", "ns"},
      {"otherData", {{"start_unix_ns", timeline.start_ns()}, {"left_out", timeline.left_out()}}},
      {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

absl::Status WriteChromeTrace(const Timeline& timeline, const std::string& name,
                              const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << ChromeTrace(timeline, name) << '\n';
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace formwork::command
