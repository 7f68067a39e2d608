// What ThreadSanitizer must know of Debian's Abseil, which was built without it: which calls order
// which. Linked into the tests of the preset `tsan` alone, with the options of abseil.options.

#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

// FORMWORK_WRAP*(mangled name, ...): declares the real function and opens the wrapper.
#define FORMWORK_WRAP(result, name, ...) \
  result __real_##name(__VA_ARGS__);     \
  result __wrap_##name(__VA_ARGS__)

using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

extern "C" {

// Conditions are looked at inside of the library, under the mutex, by whoever unlocks or waits.
// oneTBB orders what it splits by means that are not seen either.
const char* __tsan_default_suppressions() {
  return "race:absl::debian3::Mutex::UnlockSlow\n"
         "race:absl::debian3::Mutex::Await\n"
         "race:absl::debian3::Mutex::LockSlowLoop\n"
         "race:oneapi/tbb/\n"
         "called_from_lib:libtbb.so.12\n"
         "race:absl::debian3::Status::Unref\n";
}

FORMWORK_WRAP(void, _ZN4absl7debian35Mutex4LockEv, Mutex* mutex) {
  __real__ZN4absl7debian35Mutex4LockEv(mutex);
  __tsan_acquire(mutex);
}
FORMWORK_WRAP(void, _ZN4absl7debian35Mutex6UnlockEv, Mutex* mutex) {
  __tsan_release(mutex);
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
}
FORMWORK_WRAP(bool, _ZN4absl7debian35Mutex7TryLockEv, Mutex* mutex) {
  const bool locked = __real__ZN4absl7debian35Mutex7TryLockEv(mutex);
  if (locked) __tsan_acquire(mutex);
  return locked;
}
FORMWORK_WRAP(void, _ZN4absl7debian35Mutex10ReaderLockEv, Mutex* mutex) {
  __real__ZN4absl7debian35Mutex10ReaderLockEv(mutex);
  __tsan_acquire(mutex);
}
FORMWORK_WRAP(void, _ZN4absl7debian35Mutex12ReaderUnlockEv, Mutex* mutex) {
  __tsan_release(mutex);
  __real__ZN4absl7debian35Mutex12ReaderUnlockEv(mutex);
}
FORMWORK_WRAP(void, _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE, Mutex* mutex,
              const Condition* condition) {
  __tsan_release(mutex);
  __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  __tsan_acquire(mutex);
}
FORMWORK_WRAP(bool, _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE,
              Mutex* mutex, const Condition* condition, Time deadline) {
  __tsan_release(mutex);
  const bool met = __real__ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE(
      mutex, condition, deadline);
  __tsan_acquire(mutex);
  return met;
}
FORMWORK_WRAP(bool, _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE,
              Mutex* mutex, const Condition* condition, Duration timeout) {
  __tsan_release(mutex);
  const bool met = __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
      mutex, condition, timeout);
  __tsan_acquire(mutex);
  return met;
}
FORMWORK_WRAP(void, _ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE, Mutex* mutex,
              const Condition* condition) {
  __real__ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE(mutex, condition);
  __tsan_acquire(mutex);
}
FORMWORK_WRAP(void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE, CondVar* variable, Mutex* mutex) {
  __tsan_release(mutex);
  __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(variable, mutex);
  __tsan_acquire(mutex);
}
FORMWORK_WRAP(bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE,
              CondVar* variable, Mutex* mutex, Time deadline) {
  __tsan_release(mutex);
  const bool timed_out = __real__ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE(
      variable, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}
FORMWORK_WRAP(bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE,
              CondVar* variable, Mutex* mutex, Duration timeout) {
  __tsan_release(mutex);
  const bool timed_out =
      __real__ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE(variable, mutex,
                                                                                  timeout);
  __tsan_acquire(mutex);
  return timed_out;
}
FORMWORK_WRAP(void, _ZN4absl7debian312Notification6NotifyEv, Notification* notification) {
  __tsan_release(notification);
  __real__ZN4absl7debian312Notification6NotifyEv(notification);
}
FORMWORK_WRAP(void, _ZNK4absl7debian312Notification19WaitForNotificationEv,
              Notification* notification) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(notification);
  __tsan_acquire(notification);
}
FORMWORK_WRAP(bool, _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
              Notification* notification, Duration timeout) {
  const bool notified =
      __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
          notification, timeout);
  if (notified) __tsan_acquire(notification);
  return notified;
}

}  // extern "C"
