#include "core/base/background_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace formwork {
namespace {

// The longest that there is.
constexpr uint64_t kSliceNanos = 100'000'000;

// As the system call has it; the C library has no name for it.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_nanos = 0;
  uint64_t deadline_nanos = 0;
  uint64_t period_nanos = 0;
};

}  // namespace

void StayInBackground(int nice) {
  Attributes attributes;
  attributes.nice = nice;
  attributes.slice_nanos = kSliceNanos;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  setpriority(PRIO_PROCESS, 0, nice);
}

}  // namespace formwork
