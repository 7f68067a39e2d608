#pragma once

// How busy the device is, as /metrics shows it.

#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/device.h"
#include "prometheus/metric_family.h"

namespace formwork::server {

/// Thread-safe.
class LoadMetrics {
 public:
  using Source = std::function<absl::StatusOr<DeviceLoad>()>;
  /// `source`: Device::Load; null: there is no device.
  explicit LoadMetrics(Source source) : source_(std::move(source)) {}

  /// Asks the source. What it does not tell has a family without a series; why, is logged when it
  /// is another reason than the last time.
  std::vector<prometheus::MetricFamily> Collect();

 private:
  const Source source_;
  absl::Mutex mutex_;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
