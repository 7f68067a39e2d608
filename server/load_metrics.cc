#include "server/load_metrics.h"

#include <optional>
#include <string>
#include <utility>

#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

struct LoadFamily {
  const char* name;
  const char* help;
  std::optional<double> DeviceLoad::*value;
};
constexpr LoadFamily kFamilies[] = {
    {"formwork_device_utilization_ratio",
     "Part of the time in which something ran on the device, of any process's.",
     &DeviceLoad::utilization},
    {"formwork_device_memory_utilization_ratio",
     "Part of the time in which the device's memory was read or written.",
     &DeviceLoad::memory_utilization},
    {"formwork_device_memory_occupied_bytes",
     "Bytes of the device's own memory that all processes, and its driver, have taken.",
     &DeviceLoad::memory_occupied_bytes},
    {"formwork_device_temperature_celsius", "Temperature of the device.", &DeviceLoad::celsius},
    {"formwork_device_power_watts", "Power that the device draws.", &DeviceLoad::watts},
};

}  // namespace

std::vector<prometheus::MetricFamily> LoadMetrics::Collect() {
  absl::StatusOr<DeviceLoad> load = DeviceLoad();
  if (source_ != nullptr) load = source_();
  {
    absl::MutexLock lock(&mutex_);
    const bool is_new = load.status() != last_;
    last_ = load.status();
    // A device of a kind that does not tell is none to wonder about.
    if (is_new && !load.ok() && !absl::IsUnimplemented(last_)) {
      spdlog::info("there are no metrics of how busy the device is: {}",
                   std::string(last_.message()));
    }
  }
  std::vector<prometheus::MetricFamily> families;
  for (const LoadFamily& of : kFamilies) {
    prometheus::MetricFamily& family = families.emplace_back(
        prometheus::MetricFamily{of.name, of.help, prometheus::MetricType::Gauge, {}});
    if (!load.ok()) continue;
    if (const std::optional<double>& value = (*load).*of.value) {
      family.metric.emplace_back().gauge.value = *value;
    }
  }
  return families;
}

}  // namespace formwork::server
