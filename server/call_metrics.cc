#include "server/call_metrics.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/utf8.h"

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
  size_t code = static_cast<size_t>(call.status.code());
  if (code >= kCodes) code = static_cast<size_t>(absl::StatusCode::kUnknown);
  absl::MutexLock lock(&mutex_);
  PerNamespace& name_space = namespaces_.See(call.name_space);
  ++name_space.codes[code];
  name_space.seconds += seconds;
  Histogram& histogram = functions_.See(call.function);
  ++histogram.buckets[bucket];
  histogram.sum += seconds;
}

void CallMetrics::PerNamespace::Add(const PerNamespace& more) {
  for (size_t i = 0; i < codes.size(); ++i) codes[i] += more.codes[i];
  seconds += more.seconds;
}

void CallMetrics::AddNamespace(absl::string_view name_space, const PerNamespace& counted,
                               MetricFamily* calls, MetricFamily* seconds) {
  const prometheus::ClientMetric::Label label = {"namespace", ToValidUtf8(name_space)};
  for (size_t code = 0; code < kCodes; ++code) {
    if (counted.codes[code] == 0 && code != 0) continue;
    ClientMetric& metric = calls->metric.emplace_back();
    metric.label = {{"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}, label};
    metric.counter.value = static_cast<double>(counted.codes[code]);
  }
  ClientMetric& metric = seconds->metric.emplace_back();
  metric.label = {label};
  metric.counter.value = counted.seconds;
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
  MetricFamily seconds{"formwork_call_seconds_total",
                       "Time from calls' arrival to their answers, by namespace.",
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
  PerNamespace others = namespaces_.others();
  namespaces_.ForEach([&](absl::string_view name_space, const PerNamespace& counted) {
    if (name_space == kOther) return others.Add(counted);
    AddNamespace(name_space, counted, &calls, &seconds);
  });
  AddNamespace(kOther, others, &calls, &seconds);
  Histogram other = functions_.others();
  functions_.ForEach([&](absl::string_view function, const Histogram& histogram) {
    if (function != kOther) return AddHistogram(function, histogram, &durations);
    for (size_t i = 0; i < other.buckets.size(); ++i) other.buckets[i] += histogram.buckets[i];
    other.sum += histogram.sum;
  });
  AddHistogram(kOther, other, &durations);
  return {std::move(calls), std::move(seconds), std::move(durations)};
}

}  // namespace formwork::server
