#include "server/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "prometheus/text_serializer.h"
#include "server/utf8.h"
#include "server/version.h"

namespace formwork::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr char kOther[] = "other";

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

// The host of gRPC's peer text: "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711", "unix:...".
std::string HostOf(absl::string_view peer) {
  if (peer.substr(0, 5) == "unix:" || peer.empty()) return "unix";
  peer = peer.substr(0, peer.rfind(':'));
  return std::string(peer.substr(std::min(peer.size(), peer.find(':') + 1)));
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family{name, help, type, {}};
  ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return family;
}

// Every family that comes from the engine's statistics.
struct StatFamily {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const EngineStats&);
};

#define FORMWORK_STAT(field) [](const EngineStats& s) { return static_cast<double>(s.field); }
constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kCounter = MetricType::Counter;
const StatFamily kStatFamilies[] = {
    {"formwork_functions", "Concrete functions in the cache.", kGauge, FORMWORK_STAT(functions)},
    {"formwork_function_cache_bytes", "Bytes that the function cache holds.", kGauge,
     FORMWORK_STAT(function_bytes)},
    {"formwork_function_cache_hits_total", "Calls and registrations that found their function.",
     kCounter, FORMWORK_STAT(cache_hits)},
    {"formwork_function_cache_misses_total", "Calls and registrations that did not.", kCounter,
     FORMWORK_STAT(cache_misses)},
    {"formwork_function_cache_evictions_total", "Functions that had to go for others.", kCounter,
     FORMWORK_STAT(cache_evictions)},
    {"formwork_variables", "Variables.", kGauge, FORMWORK_STAT(variables)},
    {"formwork_variable_bytes", "Bytes of the variables' values.", kGauge,
     FORMWORK_STAT(variable_bytes)},
    {"formwork_kept_tensors", "Outputs that calls left on the server.", kGauge,
     FORMWORK_STAT(kept_tensors)},
    {"formwork_calls_queued", "Admitted calls that wait for a thread or for an earlier call.",
     kGauge, FORMWORK_STAT(calls_queued)},
    {"formwork_calls_running", "Calls that run.", kGauge, FORMWORK_STAT(calls_running)},
    {"formwork_ticket_waits_total", "Calls that waited for an earlier call's variables.", kCounter,
     FORMWORK_STAT(ticket_waits)},
    {"formwork_ticket_wait_seconds_total", "Time that calls waited for earlier calls' variables.",
     kCounter, FORMWORK_STAT(ticket_wait_seconds)},
    {"formwork_tensor_bytes", "Memory of tensors.", kGauge, FORMWORK_STAT(tensor_bytes)},
};
#undef FORMWORK_STAT

}  // namespace

void FunctionLatencies::Observe(absl::string_view function, absl::Duration latency) {
  const double seconds = absl::ToDoubleSeconds(latency);
  const size_t bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  absl::MutexLock lock(&mutex_);
  Histogram* histogram = &other_;
  auto found = functions_.find(function);
  if (found == functions_.end() && !function.empty() && functions_.size() < kMaxNames) {
    found = functions_.try_emplace(std::string(function)).first;
    if (functions_.size() <= series_) found->second.own = std::make_unique<Histogram>();
  }
  if (found != functions_.end()) {
    ++found->second.calls;
    if (found->second.own) histogram = found->second.own.get();
  }
  ++histogram->buckets[bucket];
  histogram->sum += seconds;
}

void FunctionLatencies::ChooseSeries() const {
  if (functions_.size() <= series_) return;
  std::vector<std::pair<uint64_t, Function*>> by_calls;
  by_calls.reserve(functions_.size());
  for (auto& [name, function] : functions_) by_calls.emplace_back(function.calls, &function);
  std::nth_element(by_calls.begin(), by_calls.begin() + static_cast<std::ptrdiff_t>(series_),
                   by_calls.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < by_calls.size(); ++i) {
    Function& function = *by_calls[i].second;
    if (i >= series_) {
      function.own = nullptr;
    } else if (!function.own) {
      function.own = std::make_unique<Histogram>();
    }
  }
}

ClientMetric FunctionLatencies::ToMetric(const std::string& name, const Histogram& histogram) {
  ClientMetric metric;
  metric.label.push_back({"function", ToValidUtf8(name)});
  uint64_t count = 0;
  for (size_t i = 0; i < histogram.buckets.size(); ++i) {
    count += histogram.buckets[i];
    const double bound = i < kBounds.size() ? kBounds[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({count, bound});
  }
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = histogram.sum;
  return metric;
}

std::vector<MetricFamily> FunctionLatencies::Collect() const {
  MetricFamily family{"formwork_call_duration_seconds",
                      "From a call's arrival to its answer, by function: the most called and "
                      "\"other\".",
                      MetricType::Histogram,
                      {}};
  absl::MutexLock lock(&mutex_);
  ChooseSeries();
  Histogram other = other_;
  for (const auto& [name, function] : functions_) {
    if (!function.own) continue;
    if (name != kOther) {
      family.metric.push_back(ToMetric(name, *function.own));
      continue;
    }
    // A function of that very name shares the series.
    for (size_t i = 0; i < other.buckets.size(); ++i) other.buckets[i] += function.own->buckets[i];
    other.sum += function.own->sum;
  }
  family.metric.push_back(ToMetric(kOther, other));
  return {std::move(family)};
}

Metrics::Metrics(std::function<EngineStats()> stats, size_t function_series)
    : stats_(std::move(stats)), latencies_(function_series) {
  using prometheus::BuildCounter;
  using prometheus::BuildGauge;
  auto& calls = BuildCounter()
                    .Name("formwork_calls_total")
                    .Help("Finished calls by gRPC status code.")
                    .Register(registry_);
  for (size_t code = 0; code < kCodes; ++code) {
    calls_[code] = &calls.Add({{"code", CodeName(static_cast<absl::StatusCode>(code))}});
  }
  requests_ = &BuildCounter()
                   .Name("formwork_requests_total")
                   .Help("Finished requests other than calls, by method and gRPC status code.")
                   .Register(registry_);
  retraces_ = &BuildCounter()
                   .Name("formwork_retraces_total")
                   .Help("Registrations that followed a miss, by the client's host.")
                   .Register(registry_);
  retraces_->Add({{"client", kOther}});  // So that the name is there before the first one.
  received_ = &BuildCounter()
                   .Name("formwork_received_bytes_total")
                   .Help("Bytes of the requests' messages.")
                   .Register(registry_)
                   .Add({});
  sent_ = &BuildCounter()
               .Name("formwork_sent_bytes_total")
               .Help("Bytes of the responses' messages.")
               .Register(registry_)
               .Add({});
  streams_ = &BuildGauge()
                  .Name("formwork_call_streams")
                  .Help("Open streams of calls.")
                  .Register(registry_)
                  .Add({});
  BuildGauge()
      .Name("formwork_build_info")
      .Help("1; the version is a label.")
      .Register(registry_)
      .Add({{"version", kVersion}})
      .Set(1);
  BuildGauge()
      .Name("formwork_start_time_seconds")
      .Help("When the server started, in seconds since 1970.")
      .Register(registry_)
      .Add({})
      .Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
}

void Metrics::CountCall(absl::string_view function, absl::StatusCode code, absl::Duration latency) {
  const size_t index = static_cast<size_t>(code);
  calls_[index < kCodes ? index : static_cast<size_t>(absl::StatusCode::kUnknown)]->Increment();
  latencies_.Observe(function, latency);
}

void Metrics::CountRequest(absl::string_view method, absl::StatusCode code) {
  requests_->Add({{"method", std::string(method)}, {"code", CodeName(code)}}).Increment();
}

void Metrics::CountRetrace(absl::string_view peer) {
  std::string host = HostOf(peer);
  {
    absl::MutexLock lock(&mutex_);
    if (clients_.size() < kMaxClients) {
      clients_.insert(host);
    } else if (!clients_.contains(host)) {
      host = kOther;
    }
  }
  retraces_->Add({{"client", host}}).Increment();
}

std::string Metrics::Text() const {
  std::vector<MetricFamily> families = registry_.Collect();
  for (MetricFamily& family : latencies_.Collect()) families.push_back(std::move(family));
  const EngineStats stats = stats_();
  for (const StatFamily& family : kStatFamilies) {
    families.push_back(Single(family.name, family.help, family.type, family.value(stats)));
  }
  families.push_back(Single("formwork_resident_memory_bytes", "Resident memory of the process.",
                            MetricType::Gauge, ResidentBytes()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace formwork::server
