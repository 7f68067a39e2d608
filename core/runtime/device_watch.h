#pragma once

// Looks from time to time whether a device can still be used.

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/device/device.h"

namespace formwork {

/// A device is lost, for good, where it says so (Device::Health), or where for `stall` it has not
/// said anything, or nothing that is waited for has gone on. Thread-safe; the device outlives it.
class DeviceWatch {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);  ///< Of two looks.

  /// Gets how it was lost (kUnavailable, Reason::kDeviceLost), on a thread of the watch's.
  using Told = absl::AnyInvocable<void(const absl::Status&)>;
  /// `waits_since`: since when somebody has waited for the device and nobody's wait has ended;
  /// InfiniteFuture: nobody does. `stall` zero: only what the device says counts. It looks from
  /// Start on.
  DeviceWatch(Device& device, absl::Duration stall,
              absl::AnyInvocable<absl::Time() const> waits_since);
  ~DeviceWatch();  ///< Waits for a look that is under way.

  void Start();  ///< Once.

  /// Calls `told` once it is lost; at once, here, where it is. In the order of asking.
  void OnceLost(Told told);
  /// OK, or how it was lost.
  absl::Status status() const;

 private:
  void Look();
  void WatchForStalls();
  void Lose(const absl::Status& status);
  // Sleeps. False where the watch ends.
  bool Pause();

  Device& device_;
  const absl::Duration stall_;
  const absl::AnyInvocable<absl::Time() const> waits_since_;
  mutable absl::Mutex mutex_;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time looks_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<Told> told_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace formwork
