#include "server/call_metrics.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "server/utf8.h"

namespace formwork::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr absl::string_view kOther = "other";

}  // namespace

void CallMetrics::Count(const FinishedCall& call) {
  const double seconds = absl::ToDoubleSeconds(call.latency);
  const size_t bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  size_t code = static_cast<size_t>(call.code);
  if (code >= kCodes) code = static_cast<size_t>(absl::StatusCode::kUnknown);
  absl::MutexLock lock(&mutex_);
  ++namespaces_.See(call.name_space)[code];
  Histogram& histogram = functions_.See(call.function);
  ++histogram.buckets[bucket];
  histogram.sum += seconds;
}

void CallMetrics::AddCodes(absl::string_view name_space, const Codes& codes, MetricFamily* family) {
  for (size_t code = 0; code < kCodes; ++code) {
    if (codes[code] == 0 && code != 0) continue;
    ClientMetric& metric = family->metric.emplace_back();
    metric.label = {{"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))},
                    {"namespace", ToValidUtf8(name_space)}};
    metric.counter.value = static_cast<double>(codes[code]);
  }
}

void CallMetrics::AddHistogram(absl::string_view function, const Histogram& histogram,
                               MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label.push_back({"function", ToValidUtf8(function)});
  uint64_t count = 0;
  for (size_t i = 0; i < histogram.buckets.size(); ++i) {
    count += histogram.buckets[i];
    const double bound = i < kBounds.size() ? kBounds[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({count, bound});
  }
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = histogram.sum;
}

std::vector<MetricFamily> CallMetrics::Collect() {
  MetricFamily calls{"formwork_calls_total",
                     "Finished calls by namespace (those with most calls, and \"other\") and gRPC "
                     "status code.",
                     MetricType::Counter,
                     {}};
  MetricFamily durations{"formwork_call_duration_seconds",
                         "From a call's arrival to its answer, by function: the most called and "
                         "\"other\".",
                         MetricType::Histogram,
                         {}};
  absl::MutexLock lock(&mutex_);
  namespaces_.Choose();
  functions_.Choose();
  // What is named "other" shares the others' series.
  Codes other_codes = namespaces_.others();
  namespaces_.ForEach([&](absl::string_view name_space, const Codes& codes) {
    if (name_space != kOther) return AddCodes(name_space, codes, &calls);
    for (size_t i = 0; i < codes.size(); ++i) other_codes[i] += codes[i];
  });
  AddCodes(kOther, other_codes, &calls);
  Histogram other = functions_.others();
  functions_.ForEach([&](absl::string_view function, const Histogram& histogram) {
    if (function != kOther) return AddHistogram(function, histogram, &durations);
    for (size_t i = 0; i < other.buckets.size(); ++i) other.buckets[i] += histogram.buckets[i];
    other.sum += histogram.sum;
  });
  AddHistogram(kOther, other, &durations);
  return {std::move(calls), std::move(durations)};
}

}  // namespace formwork::server
