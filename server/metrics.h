#pragma once

// What /metrics shows. Counting is cheap and thread-safe; label values are bounded.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/reason.h"
#include "core/engine.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/call_metrics.h"
#include "server/connection_listener.h"
#include "server/load_metrics.h"

namespace formwork::server {

/// All metrics of a server: counters in a registry of prometheus-cpp, levels asked of their owners
/// at each scrape. Thread-safe.
class Metrics {
 public:
  struct Options {
    /// Called at each scrape, as long as this lives.
    std::function<EngineStats()> engine;
    std::function<ConnectionListener::Stats()> connections;
    std::function<std::vector<NamespaceHoldings>()> namespaces =
        nullptr;                                ///< Null: there are none.
    LoadMetrics::Source device_load = nullptr;  ///< Null: there is no device.
    int function_series = 20;                   ///< Functions with a histogram of their own.
    int namespace_series = 10;  ///< Namespaces with counters and levels of their own.
    absl::Duration slow_call = absl::InfiniteDuration();  ///< What takes longer is logged.
    /// Gauges that never change: name, help, value.
    struct Limit {
      const char* name;
      const char* help;
      double value;
    };
    std::vector<Limit> limits = {};
  };

  explicit Metrics(const Options& options);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// These write to the log, too, what was refused and what was slow. They do not throw: what there
  /// is no memory for is not counted.
  void CountCall(const FinishedCall& call);
  /// One finished request of another method.
  void CountRequest(absl::string_view method, const absl::Status& status);
  void CountReceived(size_t bytes) { received_->Increment(static_cast<double>(bytes)); }
  void CountSent(size_t bytes) { sent_->Increment(static_cast<double>(bytes)); }
  /// A function that was imported and compiled, or could not be.
  void CountCompile(absl::Duration duration) {
    compiles_->Observe(absl::ToDoubleSeconds(duration));
  }
  /// A registration that followed a miss of the client at `peer` (gRPC's text for it).
  void CountRetrace(absl::string_view peer);
  /// A stream of calls was opened (1) or closed (-1).
  void CountStream(int change) { streams_->Increment(change); }

  /// Prometheus' text format.
  std::string Text();

 private:
  static constexpr size_t kMaxClients = 32;

  struct Refusal {
    Reason reason;
    const char* cause;
  };
  // The last is for all other reasons, such as a response that is larger than a message may be.
  static constexpr std::array<Refusal, 5> kRefusals = {{{Reason::kMemoryLimit, "memory"},
                                                        {Reason::kQueueFull, "queue"},
                                                        {Reason::kQuota, "quota"},
                                                        {Reason::kDraining, "draining"},
                                                        {Reason::kNone, "other"}}};

  // The cause where the server refused a request that it might take at another time, or with other
  // settings; counts it.
  std::optional<absl::string_view> CountRefusal(const absl::Status& status);
  static prometheus::MetricFamily CollectFallbacks(const EngineStats& engine);
  // Of the largest namespaces, and of the others together.
  void CollectNamespaces(std::vector<prometheus::MetricFamily>* families) const;
  static prometheus::MetricFamily CollectCommits(const CommitStats& commits);
  prometheus::MetricFamily CollectRefusals() const;

  const Options options_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Family<prometheus::Counter>* retraces_;
  prometheus::Counter* received_;
  prometheus::Counter* sent_;
  prometheus::Gauge* streams_;
  prometheus::Histogram* compiles_;
  CallMetrics calls_;
  LoadMetrics load_;
  std::array<std::atomic<uint64_t>, kRefusals.size()> refusals_{};  // As in kRefusals.
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
