#pragma once

// What /metrics shows. Counting is cheap and thread-safe; label values are bounded.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace formwork::server {

/// Latencies of the calls of each function: a histogram for each of the functions that are called
/// most, one named "other" for the rest. Which they are is looked at again at each scrape; a
/// series that begins then counts from there on, so that no series ever falls. Thread-safe.
class FunctionLatencies final : public prometheus::Collectable {
 public:
  /// `series`: how many functions have a histogram of their own.
  explicit FunctionLatencies(size_t series) : series_(series) {}

  void Observe(absl::string_view function, absl::Duration latency);
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  static constexpr std::array<double, 16> kBounds = {50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3,
                                                     5e-3,  10e-3,  20e-3,  50e-3,  0.1,  0.25,
                                                     0.5,   1,      5,      30};
  // Names beyond these are counted under "other" and never looked at again.
  static constexpr size_t kMaxNames = 4096;

  struct Histogram {
    std::array<uint64_t, kBounds.size() + 1> buckets{};
    double sum = 0;
  };
  struct Function {
    uint64_t calls = 0;
    std::unique_ptr<Histogram> own;  // Null where it is counted under "other".
  };

  void ChooseSeries() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static prometheus::ClientMetric ToMetric(const std::string& name, const Histogram& histogram);

  const size_t series_;
  mutable absl::Mutex mutex_;
  mutable absl::flat_hash_map<std::string, Function> functions_ ABSL_GUARDED_BY(mutex_);
  Histogram other_ ABSL_GUARDED_BY(mutex_);
};

/// All metrics of a server: counters in a registry of prometheus-cpp, levels asked of the engine at
/// each scrape. Thread-safe.
class Metrics {
 public:
  /// `stats` is called at each scrape, as long as this lives.
  explicit Metrics(std::function<EngineStats()> stats, size_t function_series = 20);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// One finished call. `function`: the name that it ran, empty where none was found.
  void CountCall(absl::string_view function, absl::StatusCode code, absl::Duration latency);
  /// One finished request of another method.
  void CountRequest(absl::string_view method, absl::StatusCode code);
  void CountReceived(size_t bytes) { received_->Increment(static_cast<double>(bytes)); }
  void CountSent(size_t bytes) { sent_->Increment(static_cast<double>(bytes)); }
  /// A registration that followed a miss of the client at `peer` (gRPC's text for it).
  void CountRetrace(absl::string_view peer);
  /// A stream of calls was opened (1) or closed (-1).
  void CountStream(int change) { streams_->Increment(change); }

  /// Prometheus' text format.
  std::string Text() const;

 private:
  static constexpr size_t kCodes = 17;
  static constexpr size_t kMaxClients = 32;

  const std::function<EngineStats()> stats_;
  prometheus::Registry registry_;
  std::array<prometheus::Counter*, kCodes> calls_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Family<prometheus::Counter>* retraces_;
  prometheus::Counter* received_;
  prometheus::Counter* sent_;
  prometheus::Gauge* streams_;
  FunctionLatencies latencies_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
