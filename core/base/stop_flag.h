#pragma once

// How a deadline or a cancellation reaches work that is under way.
//
// A StopFlag belongs to one request. While its work runs on a thread a StopScope makes it that
// thread's flag, and ParallelFor hands it on to the threads that help, so that a loop deep
// inside a kernel finds it without an argument:
//
//   ForBlocks(n, kGrain, [&](int64_t begin, int64_t end) { ... });  // looks between blocks
//   for (int64_t i = 0; i < n; ++i) {
//     if (WorkIsCutAt(i)) return WorkStatus();                      // a loop with early returns
//
// Work that is cut leaves its results unfinished: nobody will read them. What it must not do is
// trust them itself, as indices or sizes; between a phase that finds such and one that uses them
// a kernel asks for WorkStatus().

#include <atomic>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace formwork {

/// Cancel, Expire and Abort may come from any thread, and the first of them holds; WorkIsCut from
/// all that do the work; the rest is for the thread that runs it.
class StopFlag {
 public:
  explicit StopFlag(absl::Time deadline = absl::InfiniteFuture())
      : deadline_nanos_(absl::ToUnixNanos(deadline)) {}
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  void Cancel() { Request(kCancelled); }
  void Expire() { Request(kLate); }
  void Abort() { Request(kAborted); }  ///< The engine shuts down.
  absl::Time deadline() const;
  bool has_deadline() const { return deadline_nanos_ != kNoDeadline; }

  /// Whether the work is to stop, as far as somebody has said so. One relaxed load.
  bool requested() const { return request_.load(std::memory_order_relaxed) != kNone; }
  /// As requested(), and looks at the clock: costs some 20 ns where there is a deadline.
  bool Poll();
  /// Whether the work is to stop by then, as far as is known now.
  bool StopsWithin(absl::Duration duration) const;
  /// kCancelled, kDeadlineExceeded or kAborted once requested, else OK.
  absl::Status status() const;

  /// From here on a call that is to stop does so only at loop iterations, and within steps that
  /// take long: stopping elsewhere would leave some of its effects without need.
  void NoteEffect() { after_effect_ = true; }
  bool after_effect() const { return after_effect_; }

  /// For the executor, before a step, once requested: the status to end with, or OK where the step
  /// is to run.
  absl::Status BeforeStep();
  /// Whether a loop has been left unfinished.
  bool cut() const { return cut_.load(std::memory_order_relaxed); }
  /// For loops, some 20 us or more apart: whether to leave the rest undone. Once it has been true
  /// it stays so.
  bool CutsWork();

 private:
  friend class UncutScope;
  static constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();
  enum Reason : uint8_t { kNone, kCancelled, kLate, kAborted };

  void Request(Reason reason) {
    uint8_t none = kNone;
    request_.compare_exchange_strong(none, reason, std::memory_order_relaxed);
  }

  const int64_t deadline_nanos_;
  std::atomic<uint8_t> request_{kNone};
  std::atomic<bool> cut_{false};
  bool after_effect_ = false;
  int uncut_ = 0;
  // After an effect: when the running step was first seen to be in the way of a stop.
  std::atomic<int64_t> in_the_way_since_{0};
};

/// Makes `flag` (null: none) the thread's until it ends. Nests.
class StopScope {
 public:
  explicit StopScope(StopFlag* flag) : before_(current_) { current_ = flag; }
  ~StopScope() { current_ = before_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  static StopFlag* current() { return current_; }

 private:
  inline static thread_local StopFlag* current_ = nullptr;
  StopFlag* const before_;
};

/// Work that is all or nothing (a variable's value that is changed in place) runs to its end: no
/// loop is cut meanwhile.
class UncutScope {
 public:
  UncutScope() : flag_(StopScope::current()) {
    if (flag_ != nullptr) ++flag_->uncut_;
  }
  ~UncutScope() {
    if (flag_ != nullptr) --flag_->uncut_;
  }
  UncutScope(const UncutScope&) = delete;
  UncutScope& operator=(const UncutScope&) = delete;

 private:
  StopFlag* const flag_;
};

/// StopFlag::CutsWork of the thread's flag; false where it has none.
inline bool WorkIsCut() {
  StopFlag* const flag = StopScope::current();
  return flag != nullptr && flag->CutsWork();
}

/// StopFlag::StopsWithin of the thread's flag; false where it has none.
inline bool WorkStopsWithin(absl::Duration duration) {
  const StopFlag* const flag = StopScope::current();
  return flag != nullptr && flag->StopsWithin(duration);
}

/// How many items may pass between two looks at the flag: those of some nanoseconds each, and those
/// that may take longer, as strings and small tensors do.
inline constexpr int64_t kCheapItems = int64_t{1} << 14;
inline constexpr int64_t kDearItems = 64;

/// WorkIsCut, for loops that leave early: looks after every so many items.
inline bool WorkIsCutAt(int64_t item, int64_t every = kCheapItems) {
  return (item + 1) % every == 0 && WorkIsCut();
}

/// StopFlag::status of the thread's flag if its work has been cut already, else OK. Does not look
/// at the clock.
inline absl::Status WorkStatus() {
  StopFlag* const flag = StopScope::current();
  return flag == nullptr || !flag->cut() ? absl::OkStatus() : flag->status();
}

}  // namespace formwork
