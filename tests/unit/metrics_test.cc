#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace formwork::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

EngineStats NoStats() { return {}; }

TEST(Metrics, CountCallsByCodeAndFunction) {
  Metrics metrics(NoStats);
  metrics.CountCall("f", absl::StatusCode::kOk, absl::Milliseconds(3));
  metrics.CountCall("f", absl::StatusCode::kOk, absl::Microseconds(30));
  metrics.CountCall("", absl::StatusCode::kNotFound, absl::Microseconds(30));
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_calls_total{code=\"OK\"}"), 2);
  EXPECT_EQ(ValueOf(text, "formwork_calls_total{code=\"NOT_FOUND\"}"), 1);
  EXPECT_EQ(ValueOf(text, CountOf("f")), 2);
  EXPECT_EQ(ValueOf(text, CountOf("other")), 1);
  EXPECT_EQ(ValueOf(text, "formwork_call_duration_seconds_bucket{function=\"f\",le=\"5e-05\"}"), 1);
  EXPECT_EQ(ValueOf(text, "formwork_call_duration_seconds_bucket{function=\"f\",le=\"0.005\"}"), 2);
}

TEST(Metrics, TakeLevelsFromTheEngine) {
  Metrics metrics([] {
    EngineStats stats;
    stats.variables = 7;
    stats.cache_evictions = 3;
    stats.ticket_wait_seconds = 1.5;
    return stats;
  });
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "formwork_variables"), 7);
  EXPECT_EQ(ValueOf(text, "formwork_function_cache_evictions_total"), 3);
  EXPECT_EQ(ValueOf(text, "formwork_ticket_wait_seconds_total"), 1.5);
  EXPECT_GT(ValueOf(text, "formwork_resident_memory_bytes"), 1e6);
}

TEST(Metrics, GiveTheMostCalledFunctionsTheirOwnSeries) {
  Metrics metrics(NoStats, 3);
  for (int i = 0; i < 10; ++i) {
    metrics.CountCall(absl::StrCat("f", i), absl::StatusCode::kOk, absl::Milliseconds(1));
  }
  for (int i = 0; i < 5; ++i) {
    metrics.CountCall("late", absl::StatusCode::kOk, absl::Milliseconds(1));
  }
  std::string text = metrics.Text();  // Sees that "late" is large.
  for (int i = 0; i < 5; ++i) {
    metrics.CountCall("late", absl::StatusCode::kOk, absl::Milliseconds(1));
  }
  const double other_before = ValueOf(text, CountOf("other"));
  text = metrics.Text();
  EXPECT_EQ(ValueOf(text, CountOf("late")), 5);
  EXPECT_GE(ValueOf(text, CountOf("other")), other_before);
  int series = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    series += line.substr(0, 37) == "formwork_call_duration_seconds_count{";
  }
  EXPECT_EQ(series, 4);
}

TEST(Metrics, KeepAnyFunctionNameWellFormed) {
  Metrics metrics(NoStats);
  metrics.CountCall("a\"b\\\n\xff", absl::StatusCode::kOk, absl::Milliseconds(1));
  EXPECT_THAT(metrics.Text(), HasSubstr("a\\\"b\\\\\\n\xef\xbf\xbd"));
}

TEST(Metrics, CountRetracesByHostWithinBounds) {
  Metrics metrics(NoStats);
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
