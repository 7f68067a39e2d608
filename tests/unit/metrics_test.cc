#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/most_seen.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MostSeen, BeginsWithNothingSeenWhateverTheMemoryHeld) {
  alignas(MostSeen<std::array<uint64_t, 4>>) char memory[sizeof(MostSeen<std::array<uint64_t, 4>>)];
  std::memset(memory, 0x5a, sizeof(memory));
  auto* seen = new (memory) MostSeen<std::array<uint64_t, 4>>(2);
  EXPECT_THAT(seen->others(), ::testing::Each(0u));
  std::destroy_at(seen);
}

// The value of the series that `line` begins with; -1 where there is none.
double ValueOf(const std::string& text, const std::string& series) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double value;
    if (parts.first == series && absl::SimpleAtod(parts.second, &value)) return value;
  }
  return -1;
}

std::string CountOf(const std::string& function) {
  return absl::StrCat("formwork_call_duration_seconds_count{function=\"", function, "\"}");
}

Metrics::Options WithoutSources() {
  return {.engine = [] { return EngineStats(); },
          .connections = [] { return ConnectionListener::Stats(); }};
}

FinishedCall CallOf(absl::string_view function, absl::string_view name_space = "default") {
  static const absl::Status ok;
  return {name_space, function, ok, absl::Milliseconds(1)};
}

int LinesWith(const std::string& text, absl::string_view part) {
  int lines = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) lines += absl::StrContains(line, part);
  return lines;
}

TEST(Metrics, CountCallsByCodeAndFunction) {
  Metrics metrics(WithoutSources());
  metrics.CountCall({"a", "f", absl::OkStatus(), absl::Milliseconds(3)});
  metrics.CountCall({"a", "f", absl::OkStatus(), absl::Microseconds(30)});
  metrics.CountCall({"b", "", absl::NotFoundError(""), absl::Microseconds(30)});
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_calls_total{code=\"OK\",namespace=\"a\"}"), 2);
  EXPECT_EQ(ValueOf(text, "formwork_calls_total{code=\"NOT_FOUND\",namespace=\"b\"}"), 1);
  EXPECT_NEAR(ValueOf(text, "formwork_call_seconds_total{namespace=\"a\"}"), 3.03e-3, 1e-9);
  EXPECT_EQ(ValueOf(text, CountOf("f")), 2);
  EXPECT_EQ(ValueOf(text, CountOf("other")), 1);
  EXPECT_EQ(ValueOf(text, "formwork_call_duration_seconds_bucket{function=\"f\",le=\"5e-05\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_call_duration_seconds_bucket{function=\"f\",le=\"0.005\"}"), 2);
}

TEST(Metrics, TakeLevelsFromTheirOwners) {
  Metrics metrics({.engine =
                       [] {
                         EngineStats stats;
                         stats.variables = 7;
                         stats.cache_evictions = 3;
                         stats.ticket_wait_seconds = 1.5;
                         return stats;
                       },
                   .connections = [] { return ConnectionListener::Stats{.open = 2, .refused = 1}; },
                   .limits = {{"formwork_calls_queued_limit", "", 9}}});
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_variables"), 7);
  EXPECT_EQ(ValueOf(text, "formwork_function_cache_evictions_total"), 3);
  EXPECT_EQ(ValueOf(text, "formwork_ticket_wait_seconds_total"), 1.5);
  EXPECT_EQ(ValueOf(text, "formwork_connections"), 2);
  EXPECT_EQ(ValueOf(text, "formwork_refusals_total{cause=\"connections\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_calls_queued_limit"), 9);
}

TEST(Metrics, TellHowBusyTheDeviceIs) {
  absl::StatusOr<DeviceLoad> load = DeviceLoad();
  load->utilization = 0.75;
  load->watts = 123.4;
  Metrics::Options options = WithoutSources();
  EXPECT_THAT(Metrics(options).Text(), Not(HasSubstr("\nformwork_device_utilization_ratio ")));
  options.device_load = [&load] { return load; };
  Metrics metrics(options);
  std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_device_utilization_ratio"), 0.75);
  EXPECT_EQ(ValueOf(text, "formwork_device_power_watts"), 123.4);
  EXPECT_THAT(text, HasSubstr("# TYPE formwork_device_temperature_celsius gauge\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nformwork_device_temperature_celsius ")));

  load = DeviceLoad();
  load->memory_utilization = 0.5;
  load->memory_occupied_bytes = 8e10;
  load->celsius = 45;
  text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_device_memory_utilization_ratio"), 0.5);
  EXPECT_EQ(ValueOf(text, "formwork_device_memory_occupied_bytes"), 8e10);
  EXPECT_EQ(ValueOf(text, "formwork_device_temperature_celsius"), 45);
  EXPECT_THAT(text, Not(HasSubstr("\nformwork_device_utilization_ratio ")));
}

// The lines that the default logger writes meanwhile.
std::string LogOf(absl::AnyInvocable<void()> work) {
  std::ostringstream lines;
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  work();
  spdlog::set_default_logger(before);
  return lines.str();
}

TEST(Metrics, AreThereWhereNobodyTellsHowBusyTheDeviceIs) {
  absl::Status status = absl::UnavailableError("NVML: there is none");
  Metrics::Options options = WithoutSources();
  options.device_load = [&status] { return status; };
  Metrics metrics(options);
  std::string text;
  const std::string log = LogOf([&] {
    for (int i = 0; i < 3; ++i) text = metrics.Text();
  });
  EXPECT_EQ(ValueOf(text, "formwork_variables"), 0);
  EXPECT_THAT(text, Not(HasSubstr("\nformwork_device_utilization_ratio ")));
  EXPECT_EQ(LinesWith(log, "how busy the device is: NVML: there is none"), 1) << log;
  EXPECT_THAT(log, HasSubstr("info"));

  status = absl::UnimplementedError("of another kind");
  EXPECT_EQ(LogOf([&] { metrics.Text(); }), "");
}

TEST(Metrics, TellOfOrderRepeatsAndTheDisk) {
  Metrics metrics({.engine =
                       [] {
                         EngineStats stats;
                         stats.ticket_waits = 3;
                         stats.late_handle_calls = 4;
                         stats.relaxed_calls = 5;
                         stats.relaxed_ordered = 6;
                         stats.kept_leases = 7;
                         stats.kept_evictions = 8;
                         stats.answers = 9;
                         stats.answer_evictions = 10;
                         stats.repeats_answered = 11;
                         stats.repeats_forgotten = 12;
                         stats.snapshots.taken = 13;
                         stats.snapshots.failed = 14;
                         stats.snapshots.bytes_written = 15;
                         stats.snapshots.last.taken = absl::FromUnixSeconds(16);
                         stats.snapshots.last.duration = absl::Seconds(17);
                         stats.commits.buckets[0] = 1;
                         stats.commits.buckets[3] = 2;
                         stats.commits.seconds = 18;
                         stats.commits.records = 19;
                         stats.commits.waiting = 20;
                         return stats;
                       },
                   .connections = [] { return ConnectionListener::Stats(); }});
  const std::string text = metrics.Text();
  const std::pair<const char*, double> wanted[] = {
      {"formwork_ticket_waits_total", 3},
      {"formwork_late_handle_calls_total", 4},
      {"formwork_relaxed_calls_total", 5},
      {"formwork_relaxed_calls_ordered_total", 6},
      {"formwork_kept_tensor_leases", 7},
      {"formwork_kept_tensor_evictions_total", 8},
      {"formwork_answers", 9},
      {"formwork_answer_evictions_total", 10},
      {"formwork_repeats_answered_total", 11},
      {"formwork_repeats_forgotten_total", 12},
      {"formwork_snapshots_total", 13},
      {"formwork_snapshot_failures_total", 14},
      {"formwork_snapshot_written_bytes_total", 15},
      {"formwork_snapshot_timestamp_seconds", 16},
      {"formwork_snapshot_duration_seconds", 17},
      {"formwork_commit_duration_seconds_sum", 18},
      {"formwork_commit_duration_seconds_count", 3},
      {"formwork_commit_duration_seconds_bucket{le=\"0.0001\"}", 1},
      {"formwork_commit_duration_seconds_bucket{le=\"0.001\"}", 3},
      {"formwork_commits_total", 19},
      {"formwork_commits_waiting", 20},
  };
  for (const auto& [series, value] : wanted) EXPECT_EQ(ValueOf(text, series), value) << series;
}

TEST(Metrics, SayWhatTheLargestNamespacesHold) {
  Metrics::Options options = WithoutSources();
  options.namespace_series = 2;
  options.namespaces = [] {
    std::vector<NamespaceHoldings> list;
    for (uint64_t i = 1; i <= 4; ++i) {
      NamespaceHoldings& one = list.emplace_back();
      one.name = i == 4 ? "other" : absl::StrCat("n", i);
      one.amounts[0] = {1, 100 * i};
      one.amounts[2] = {2, 10};
    }
    return list;
  };
  Metrics metrics(options);
  const std::string text = metrics.Text();
  const auto series = [](absl::string_view what, absl::string_view name, absl::string_view of) {
    return absl::StrCat("formwork_namespace_", what, "{namespace=\"", name, "\",of=\"", of, "\"}");
  };
  EXPECT_EQ(ValueOf(text, series("bytes", "n3", "variables")), 300);
  EXPECT_EQ(ValueOf(text, series("items", "n2", "functions")), 2);
  EXPECT_EQ(ValueOf(text, series("bytes", "n1", "variables")), -1);
  EXPECT_EQ(ValueOf(text, series("bytes", "other", "variables")), 500);
  EXPECT_EQ(ValueOf(text, series("items", "other", "functions")), 4);
  EXPECT_EQ(LinesWith(text, "formwork_namespace_bytes{"), 12);
}

TEST(Metrics, SayWhatTheSystemSaysOfTheProcess) {
  Metrics metrics(WithoutSources());
  const std::string text = metrics.Text();
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_NEAR(ValueOf(text, "process_start_time_seconds"), now, 600);
  EXPECT_GT(ValueOf(text, "process_resident_memory_bytes"), 1e6);
  EXPECT_GT(ValueOf(text, "process_virtual_memory_bytes"),
            ValueOf(text, "process_resident_memory_bytes"));
  EXPECT_GE(ValueOf(text, "process_cpu_seconds_total"), 0);
  EXPECT_GE(ValueOf(text, "process_open_fds"), 3);
  EXPECT_GT(ValueOf(text, "process_max_fds"), ValueOf(text, "process_open_fds"));
  EXPECT_GE(ValueOf(text, "process_threads"), 1);
}

TEST(Metrics, GiveTheMostCalledFunctionsTheirOwnSeries) {
  Metrics::Options options = WithoutSources();
  options.function_series = 3;
  Metrics metrics(options);
  for (int i = 0; i < 10; ++i) metrics.CountCall(CallOf(absl::StrCat("f", i)));
  for (int i = 0; i < 5; ++i) metrics.CountCall(CallOf("late"));
  std::string text = metrics.Text();  // Sees that "late" is large.
  for (int i = 0; i < 5; ++i) metrics.CountCall(CallOf("late"));
  const double other_before = ValueOf(text, CountOf("other"));
  text = metrics.Text();
  EXPECT_EQ(ValueOf(text, CountOf("late")), 5);
  EXPECT_GE(ValueOf(text, CountOf("other")), other_before);
  EXPECT_EQ(LinesWith(text, "formwork_call_duration_seconds_count{"), 4);
}

TEST(Metrics, StaySmallAndUsefulWhateverNamesClientsMakeUp) {
  Metrics metrics(WithoutSources());
  const std::string filler(1 << 20, 'x');
  for (int i = 0; i < 5000; ++i) {
    const std::string made_up = absl::StrCat(i, "_", filler);
    metrics.CountCall(CallOf(made_up, made_up));
  }
  for (int i = 0; i < 2000; ++i) metrics.CountCall(CallOf("train", "mine"));
  EXPECT_LT(metrics.Text().size(), 200'000);
  for (int i = 0; i < 10; ++i) metrics.CountCall(CallOf("train", "mine"));
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, CountOf("train")), 10);
  EXPECT_EQ(ValueOf(text, "formwork_calls_total{code=\"OK\",namespace=\"mine\"}"), 10);
}

TEST(Metrics, KeepAnyNameWellFormed) {
  Metrics metrics(WithoutSources());
  metrics.CountCall(CallOf("a\"b\\\n\xff", "c\"d\n"));
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("a\\\"b\\\\\\n\xef\xbf\xbd"));
  EXPECT_THAT(text, HasSubstr("namespace=\"c\\\"d\\n\""));
}

TEST(Metrics, CountRefusalsByCause) {
  Metrics metrics(WithoutSources());
  const absl::Status full = absl::ResourceExhaustedError("full");
  metrics.CountCall({"a", "f", WithReason(full, Reason::kQueueFull), absl::ZeroDuration()});
  metrics.CountRequest("Register", WithReason(full, Reason::kQueueFull));
  metrics.CountRequest("CreateVariable", WithReason(full, Reason::kMemoryLimit));
  metrics.CountRequest("ListVariables", full);
  metrics.CountRequest("Resolve", absl::NotFoundError(""));
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_refusals_total{cause=\"queue\"}"), 2);
  EXPECT_EQ(ValueOf(text, "formwork_refusals_total{cause=\"memory\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_refusals_total{cause=\"other\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_refusals_total{cause=\"draining\"}"), 0);
}

TEST(Metrics, CountCompilations) {
  Metrics metrics(WithoutSources());
  metrics.CountCompile(absl::Milliseconds(20));
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_compile_duration_seconds_count"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_compile_duration_seconds_bucket{le=\"0.05\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_compile_duration_seconds_bucket{le=\"0.01\"}"), 0);
}

TEST(Metrics, CountRetracesByHostWithinBounds) {
  Metrics metrics(WithoutSources());
  metrics.CountRetrace("ipv4:10.0.0.1:4711");
  metrics.CountRetrace("ipv4:10.0.0.1:4712");
  metrics.CountRetrace("ipv6:%5B::1%5D:4712");
  metrics.CountRetrace("unix:");
  for (int i = 0; i < 100; ++i) metrics.CountRetrace(absl::StrCat("ipv4:10.0.1.", i, ":1"));
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_retraces_total{client=\"10.0.0.1\"}"), 2);
  EXPECT_EQ(ValueOf(text, "formwork_retraces_total{client=\"%5B::1%5D\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_retraces_total{client=\"unix\"}"), 1);
  EXPECT_GT(ValueOf(text, "formwork_retraces_total{client=\"other\"}"), 60);
  EXPECT_THAT(text, Not(HasSubstr("10.0.1.99")));
}

}  // namespace
}  // namespace formwork::server
