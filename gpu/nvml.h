#pragma once

// How busy a GPU is, as NVIDIA's management library (NVML) says it. Private to gpu/. Needs no CUDA
// itself.
//
// The library comes with the driver. It is opened when it is first wanted, and a server runs
// without it.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/device/device.h"

namespace formwork {

/// What NVML says of one GPU. Thread-safe.
class NvmlLoad {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";
  static constexpr absl::Duration kFresh = absl::Seconds(1);  ///< So long a reading is given again.
  static constexpr absl::Duration kPatience = absl::Milliseconds(500);

  /// Of the GPU at `pci_bus_id`, such as "0000:3b:00.0", by which alone CUDA and NVML know it
  /// alike; by `library`, as dlopen takes it.
  explicit NvmlLoad(std::string pci_bus_id, std::string library = kLibrary);
  /// Waits for a reading that is under way, for at most kPatience.
  ~NvmlLoad();
  NvmlLoad(const NvmlLoad&) = delete;
  NvmlLoad& operator=(const NvmlLoad&) = delete;

  /// As Device::Load. A reading is taken on a thread of its own, one at a time, so that a driver
  /// that does not answer holds up nobody for longer than kPatience, and only once.
  /// Errors: kUnavailable: there is no library, it does not know the GPU, it says nothing of it, or
  /// it does not answer.
  absl::StatusOr<DeviceLoad> Get();

 private:
  class Reader;
  const std::shared_ptr<Reader> reader_;  // The thread's, too.
};

}  // namespace formwork
