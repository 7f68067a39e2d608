#include "core/runtime/call.h"

#include "absl/time/clock.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// Of one call: a loop that prints must not fill the memory.
constexpr size_t kMostPrintedBytes = size_t{4} << 20;

}  // namespace

void Call::Print(absl::string_view text) {
  if (printed_bytes_ > kMostPrintedBytes) return;
  printed_bytes_ += text.size();
  if (printed_bytes_ > kMostPrintedBytes) {
    printed_.push_back("[the call's further output was left out]\n");
    return;
  }
  printed_.emplace_back(text);
}

absl::Status Call::CheckStopped() {
  if (cancelled_.load(std::memory_order_relaxed)) {
    return absl::CancelledError("the call was cancelled");
  }
  // Reading the clock costs as much as a trivial step: look at it now and then.
  if ((checks_++ & 15u) == 0 && deadline_ != absl::InfiniteFuture() && absl::Now() >= deadline_) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  return absl::OkStatus();
}

}  // namespace formwork
