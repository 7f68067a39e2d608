#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "prometheus/metric_family.h"
#include "server/most_seen.h"

namespace formwork::server {

/// A call that has been answered.
struct FinishedCall {
  absl::string_view name_space;
  absl::string_view function;  ///< The name that it ran; empty where none was found.
  const absl::Status& status;
  absl::Duration latency;  ///< From its arrival.
};

/// Counts calls by namespace and code, their seconds by namespace, and their latencies by function:
/// for the namespaces and functions that are called most, and for "other". Which they are is looked
/// at again at each Collect; a series that begins then counts from there on. Thread-safe.
class CallMetrics {
 public:
  CallMetrics(size_t namespaces, size_t functions)
      : namespaces_(namespaces), functions_(functions) {}

  void Count(const FinishedCall& call);
  std::vector<prometheus::MetricFamily> Collect();

 private:
  static constexpr std::array<double, 16> kBounds = {50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3,
                                                     5e-3,  10e-3,  20e-3,  50e-3,  0.1,  0.25,
                                                     0.5,   1,      5,      30};
  static constexpr size_t kCodes = 17;

  struct PerNamespace {
    std::array<uint64_t, kCodes> codes{};
    double seconds = 0;

    void Add(const PerNamespace& more);
  };
  struct Histogram {
    std::array<uint64_t, kBounds.size() + 1> buckets{};
    double sum = 0;
  };

  static void AddNamespace(absl::string_view name_space, const PerNamespace& counted,
                           prometheus::MetricFamily* calls, prometheus::MetricFamily* seconds);
  static void AddHistogram(absl::string_view function, const Histogram& histogram,
                           prometheus::MetricFamily* family);

  absl::Mutex mutex_;
  MostSeen<PerNamespace> namespaces_ ABSL_GUARDED_BY(mutex_);
  MostSeen<Histogram> functions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
