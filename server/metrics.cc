#include "server/metrics.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/memory_budget.h"
#include "core/base/utf8.h"
#include "prometheus/text_serializer.h"
#include "server/event_log.h"
#include "server/process_stats.h"
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

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family{name, help, type, {}};
  ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return family;
}

// A family of one series that comes from a field of `Stats`.
template <typename Stats>
struct StatFamily {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const Stats&);
};

template <typename Families, typename Stats>
void AddFamilies(const Families& list, const Stats& stats, std::vector<MetricFamily>* families) {
  for (const auto& family : list) {
    families->push_back(Single(family.name, family.help, family.type, family.value(stats)));
  }
}

#define FORMWORK_STAT(field) [](const auto& s) { return static_cast<double>(s.field); }
constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kCounter = MetricType::Counter;
const StatFamily<EngineStats> kEngineFamilies[] = {
    {"formwork_functions", "Concrete functions in the cache.", kGauge, FORMWORK_STAT(functions)},
    {"formwork_function_cache_bytes", "Bytes that the function cache holds.", kGauge,
     FORMWORK_STAT(function_bytes)},
    {"formwork_function_cache_hits_total", "Calls and registrations that found their function.",
     kCounter, FORMWORK_STAT(cache_hits)},
    {"formwork_function_cache_misses_total", "Calls and registrations that did not.", kCounter,
     FORMWORK_STAT(cache_misses)},
    {"formwork_function_cache_evictions_total", "Functions that had to go for others.", kCounter,
     FORMWORK_STAT(cache_evictions)},
    {"formwork_variables", "Variables and tables.", kGauge, FORMWORK_STAT(variables)},
    {"formwork_variable_bytes", "Bytes of the variables' values and of what tables hold.", kGauge,
     FORMWORK_STAT(variable_bytes)},
    {"formwork_kept_tensors", "Kept tensors.", kGauge, FORMWORK_STAT(kept_tensors)},
    {"formwork_kept_tensor_bytes", "Bytes of the kept tensors.", kGauge, FORMWORK_STAT(kept_bytes)},
    {"formwork_kept_tensor_leases", "Kept tensors that have a time to live.", kGauge,
     FORMWORK_STAT(kept_leases)},
    {"formwork_kept_tensor_evictions_total",
     "Kept tensors that nobody used for their time to live, or whose client had gone.", kCounter,
     FORMWORK_STAT(kept_evictions)},
    {"formwork_calls_queued", "Admitted calls that wait for a thread or for an earlier call.",
     kGauge, FORMWORK_STAT(calls_queued)},
    {"formwork_calls_running", "Calls that run.", kGauge, FORMWORK_STAT(calls_running)},
    {"formwork_ticket_waits_total", "Calls that waited for an earlier call's variables or tables.",
     kCounter, FORMWORK_STAT(ticket_waits)},
    {"formwork_ticket_wait_seconds_total",
     "Time that calls waited for earlier calls' variables or tables.", kCounter,
     FORMWORK_STAT(ticket_wait_seconds)},
    {"formwork_batches_total", "Times that several calls were computed as one.", kCounter,
     FORMWORK_STAT(batches)},
    {"formwork_batched_calls_total", "Calls that were computed so.", kCounter,
     FORMWORK_STAT(batched_calls)},
    {"formwork_late_handle_calls_total",
     "Calls that had places at more resources than they touch, because only their steps know "
     "which.",
     kCounter, FORMWORK_STAT(late_handle_calls)},
    {"formwork_relaxed_calls_total", "Calls that asked to be relaxed and were.", kCounter,
     FORMWORK_STAT(relaxed_calls)},
    {"formwork_relaxed_calls_ordered_total", "Calls that asked to be relaxed and ran as any other.",
     kCounter, FORMWORK_STAT(relaxed_ordered)},
    {"formwork_tensor_bytes", "Memory of tensors.", kGauge, FORMWORK_STAT(tensor_bytes)},
    {"formwork_memory_used_bytes", "What the memory limit counts.", kGauge,
     FORMWORK_STAT(memory_used_bytes)},
    {"formwork_memory_limit_bytes", "The memory limit; 0: none.", kGauge,
     FORMWORK_STAT(memory_limit_bytes)},
    {"formwork_device_memory_used_bytes",
     "What the limit of the device's own memory counts; 0: it has none.", kGauge,
     FORMWORK_STAT(device_memory_used_bytes)},
    {"formwork_device_memory_limit_bytes", "The limit of the device's own memory; 0: none.", kGauge,
     FORMWORK_STAT(device_memory_limit_bytes)},
    {"formwork_device_lost", "1 once the device cannot be used any more, until a restart.", kGauge,
     FORMWORK_STAT(device_lost)},
    {"formwork_calls_captured_total", "Calls on a device whose work was captured as one.", kCounter,
     FORMWORK_STAT(calls_captured)},
    {"formwork_calls_repeated_total", "Calls on a device that enqueued captured work.", kCounter,
     FORMWORK_STAT(calls_repeated)},
    {"formwork_memory_refusals_total", "Requests that the memory limit refused.", kCounter,
     FORMWORK_STAT(memory_refusals)},
    {"formwork_answers", "Answers that are remembered for requests that are sent again.", kGauge,
     FORMWORK_STAT(answers)},
    {"formwork_answer_bytes", "Bytes of the remembered answers.", kGauge,
     FORMWORK_STAT(answer_bytes)},
    {"formwork_answer_evictions_total",
     "Remembered answers that went before their clients had acknowledged them.", kCounter,
     FORMWORK_STAT(answer_evictions)},
    {"formwork_repeats_answered_total", "Requests that were sent again and not done again.",
     kCounter, FORMWORK_STAT(repeats_answered)},
    {"formwork_repeats_forgotten_total",
     "Requests that were sent again and refused, for their answers had gone.", kCounter,
     FORMWORK_STAT(repeats_forgotten)},
    {"formwork_snapshots_total", "Snapshots that were taken.", kCounter,
     FORMWORK_STAT(snapshots.taken)},
    {"formwork_snapshot_failures_total", "Snapshots that could not be taken.", kCounter,
     FORMWORK_STAT(snapshots.failed)},
    {"formwork_snapshot_written_bytes_total", "Bytes of values that snapshots have written.",
     kCounter, FORMWORK_STAT(snapshots.bytes_written)},
    {"formwork_snapshot_timestamp_seconds", "When the last snapshot was the state; 0: never.",
     kGauge,
     [](const auto& s) {
       return absl::ToDoubleSeconds(s.snapshots.last.taken - absl::UnixEpoch());
     }},
    {"formwork_snapshot_duration_seconds", "What the last snapshot took.", kGauge,
     [](const auto& s) { return absl::ToDoubleSeconds(s.snapshots.last.duration); }},
    {"formwork_commits_total", "Calls and other changes that have been made durable.", kCounter,
     FORMWORK_STAT(commits.records)},
    {"formwork_commit_bytes_total", "Bytes that these have written to the log.", kCounter,
     FORMWORK_STAT(commits.bytes)},
    {"formwork_commit_failures_total", "Writes to the log that failed, and were tried again.",
     kCounter, FORMWORK_STAT(commits.failures)},
    {"formwork_commits_waiting", "Answers that wait for the disk.", kGauge,
     FORMWORK_STAT(commits.waiting)},
    {"formwork_log_bytes", "Bytes of the log that came after the last snapshot.", kGauge,
     FORMWORK_STAT(commits.log_bytes)},
};
const StatFamily<ConnectionListener::Stats> kConnectionFamilies[] = {
    {"formwork_connections", "Open gRPC connections.", kGauge, FORMWORK_STAT(open)},
    {"formwork_connections_accepted_total", "gRPC connections that were made.", kCounter,
     FORMWORK_STAT(accepted)},
    {"formwork_connections_cut_off_total", "Idle gRPC connections that made place for others.",
     kCounter, FORMWORK_STAT(cut_off)},
};
// As all exporters name them.
const StatFamily<ProcessStats> kProcessFamilies[] = {
    {"process_cpu_seconds_total", "User and system CPU time.", kCounter,
     FORMWORK_STAT(cpu_seconds)},
    {"process_open_fds", "Open file descriptors.", kGauge, FORMWORK_STAT(open_fds)},
    {"process_max_fds", "Most file descriptors.", kGauge, FORMWORK_STAT(max_fds)},
    {"process_resident_memory_bytes", "Resident memory.", kGauge, FORMWORK_STAT(resident_bytes)},
    {"process_virtual_memory_bytes", "Virtual memory.", kGauge, FORMWORK_STAT(virtual_bytes)},
    {"process_threads", "Threads.", kGauge, FORMWORK_STAT(threads)},
    {"process_start_time_seconds", "When the process started, in seconds since 1970.", kGauge,
     FORMWORK_STAT(start_time_seconds)},
};
#undef FORMWORK_STAT

}  // namespace

Metrics::Metrics(const Options& options)
    : options_(options),
      calls_(static_cast<size_t>(options.namespace_series),
             static_cast<size_t>(options.function_series)),
      load_(options.device_load) {
  using prometheus::BuildCounter;
  using prometheus::BuildGauge;
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
  compiles_ = &prometheus::BuildHistogram()
                   .Name("formwork_compile_duration_seconds")
                   .Help("Importing and compiling a function, as part of its registration.")
                   .Register(registry_)
                   .Add({}, prometheus::Histogram::BucketBoundaries{1e-3, 5e-3, 10e-3, 50e-3, 0.1,
                                                                    0.5, 1, 5, 10, 30, 60});
}

std::optional<absl::string_view> Metrics::CountRefusal(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) && !absl::IsUnavailable(status)) return std::nullopt;
  const Reason reason = ReasonOf(status);
  size_t i = 0;
  while (i + 1 < kRefusals.size() && kRefusals[i].reason != reason) ++i;
  refusals_[i].fetch_add(1, std::memory_order_relaxed);
  return kRefusals[i].cause;
}

MetricFamily Metrics::CollectFallbacks(const EngineStats& engine) {
  MetricFamily family{"formwork_host_fallbacks_total",
                      "Nodes of compiled functions that run on the host because the device has no "
                      "kernel for them, by op.",
                      MetricType::Counter,
                      {}};
  for (const auto& [op, nodes] : engine.fallbacks) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"op", op}};
    metric.counter.value = static_cast<double>(nodes);
  }
  return family;
}

void Metrics::CollectNamespaces(std::vector<MetricFamily>* families) const {
  constexpr std::array<const char*, 4> kOf = {"variables", "other_resources", "functions",
                                              "kept_tensors"};
  MetricFamily counts{"formwork_namespace_items",
                      "What a namespace holds (the largest, and \"other\"), by what it is.",
                      MetricType::Gauge,
                      {}};
  MetricFamily bytes{"formwork_namespace_bytes",
                     "Bytes of what a namespace holds (the largest, and \"other\"), by what it is.",
                     MetricType::Gauge,
                     {}};
  const auto add = [&](const NamespaceHoldings& holdings) {
    for (size_t i = 0; i < kOf.size(); ++i) {
      const auto label = [&](ClientMetric& metric) {
        metric.label = {{"namespace", ToValidUtf8(holdings.name)}, {"of", kOf[i]}};
      };
      ClientMetric& count = counts.metric.emplace_back();
      label(count);
      count.gauge.value = static_cast<double>(holdings.amounts[i].count);
      ClientMetric& size = bytes.metric.emplace_back();
      label(size);
      size.gauge.value = static_cast<double>(holdings.amounts[i].bytes);
    }
  };
  std::vector<NamespaceHoldings> list;
  if (options_.namespaces != nullptr) list = options_.namespaces();
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.bytes() > b.bytes(); });
  NamespaceHoldings others{kOther, {}};
  int series = 0;
  for (const NamespaceHoldings& holdings : list) {
    // What is named "other" shares the others' series.
    if (holdings.name != kOther && series++ < options_.namespace_series) {
      add(holdings);
      continue;
    }
    for (size_t i = 0; i < kOf.size(); ++i) {
      others.amounts[i].count += holdings.amounts[i].count;
      others.amounts[i].bytes += holdings.amounts[i].bytes;
    }
  }
  add(others);
  families->push_back(std::move(counts));
  families->push_back(std::move(bytes));
}

MetricFamily Metrics::CollectCommits(const CommitStats& commits) {
  MetricFamily family{"formwork_commit_duration_seconds",
                      "Writing one group of changes to the log, with the disk's answer.",
                      MetricType::Histogram,
                      {}};
  prometheus::ClientMetric::Histogram& histogram = family.metric.emplace_back().histogram;
  for (size_t i = 0; i < commits.buckets.size(); ++i) {
    histogram.sample_count += commits.buckets[i];
    const double bound = i < CommitStats::kBounds.size() ? CommitStats::kBounds[i]
                                                         : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = commits.seconds;
  return family;
}

MetricFamily Metrics::CollectRefusals() const {
  MetricFamily family{"formwork_refusals_total",
                      "Requests that the server refused for its own sake, by cause, and "
                      "connections that found no place.",
                      MetricType::Counter,
                      {}};
  const auto add = [&family](const char* cause, uint64_t value) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"cause", cause}};
    metric.counter.value = static_cast<double>(value);
  };
  for (size_t i = 0; i < kRefusals.size(); ++i) add(kRefusals[i].cause, refusals_[i].load());
  add("connections", options_.connections().refused);
  return family;
}

void Metrics::CountCall(const FinishedCall& call) {
  CatchOutOfMemory([&] {
    calls_.Count(call);
    if (call.latency > options_.slow_call) LogSlowCall(call);
    if (call.status.ok()) return absl::OkStatus();
    if (const auto cause = CountRefusal(call.status)) LogRefusedCall(*cause, call);
    return absl::OkStatus();
  }).IgnoreError();
}

void Metrics::CountRequest(absl::string_view method, const absl::Status& status) {
  CatchOutOfMemory([&] {
    requests_->Add({{"method", std::string(method)}, {"code", CodeName(status.code())}})
        .Increment();
    if (status.ok()) return absl::OkStatus();
    if (const auto cause = CountRefusal(status)) LogRefusedRequest(*cause, method, status);
    return absl::OkStatus();
  }).IgnoreError();
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

std::string Metrics::Text() {
  std::vector<MetricFamily> families = registry_.Collect();
  for (MetricFamily& family : calls_.Collect()) families.push_back(std::move(family));
  families.push_back(CollectRefusals());
  const EngineStats engine = options_.engine();
  AddFamilies(kEngineFamilies, engine, &families);
  families.push_back(CollectFallbacks(engine));
  for (MetricFamily& family : load_.Collect()) families.push_back(std::move(family));
  families.push_back(CollectCommits(engine.commits));
  CollectNamespaces(&families);
  AddFamilies(kConnectionFamilies, options_.connections(), &families);
  AddFamilies(kProcessFamilies, ReadProcessStats(), &families);
  for (const Options::Limit& limit : options_.limits) {
    families.push_back(Single(limit.name, limit.help, MetricType::Gauge, limit.value));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace formwork::server
