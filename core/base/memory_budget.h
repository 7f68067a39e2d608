#pragma once

// How much memory may be taken, and how those who would take more learn of it: as a Status or, from
// operator new, as a std::bad_alloc that CatchOutOfMemory turns into one.
//
//   MemoryBudget          bytes in use and the limit, of one engine
//   MemoryReservation     bytes of it that are held for something (a message, a file)
//   MemoryShare           how much of it one call may hold
//   HoldToBudget          runs a body whose objects on the heap are held to a budget, too

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/heap_count.h"

namespace formwork {

/// Counts what is in use: reservations, which are made before memory is touched (tensors,
/// messages), and the growth of the process's heap (strings, list items, graphs, plans) since the
/// budget was made. The heap is counted in programs that link core/heap and is the process's: two
/// engines see each other's. Exact within 16 KiB for each thread. Thread-safe.
class MemoryBudget {
 public:
  /// `limit_bytes`: the most that may be in use; 0: no limit. `largest_bytes`: the most that may be
  /// taken at once; 0: as much as there is.
  explicit MemoryBudget(size_t limit_bytes = 0, size_t largest_bytes = 0);
  /// Of a device's own memory, in which there is no heap.
  struct OfDevice {};
  MemoryBudget(OfDevice /*tag*/, size_t limit_bytes)
      : limit_(limit_bytes), largest_(0), heap_at_start_(0), of_device_(true) {}

  /// Errors: kResourceExhausted naming the bytes wanted, used and the limit; then nothing is taken.
  absl::Status Reserve(size_t bytes) {
    if (TryReserve(bytes)) return absl::OkStatus();
    return Refusal(bytes);
  }
  bool TryReserve(size_t bytes);
  /// Gives back what was reserved.
  void Release(size_t bytes) { reserved_.fetch_sub(bytes, std::memory_order_relaxed); }

  size_t used() const;
  size_t limit() const { return limit_; }
  /// Requests that were refused.
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }
  /// False where `bytes` more would be too much. Takes nothing.
  bool Fits(size_t bytes) const;
  /// Refuses as Reserve does, after reclaiming, and takes nothing: for what will count as heap.
  absl::Status CheckRoom(size_t bytes);
  /// Counts a refusal and says what it was.
  absl::Status Refusal(size_t bytes);
  void CountRefusal() { refusals_.fetch_add(1, std::memory_order_relaxed); }

  /// What gives caches back when a request would be refused, before it is; called on any thread
  /// that takes memory, with whatever it has locked. To be set before the budget is used.
  void set_reclaim(absl::AnyInvocable<void() const> reclaim) { reclaim_ = std::move(reclaim); }
  void Reclaim() const {
    if (reclaim_) reclaim_();
  }

 private:
  const size_t limit_;
  const size_t largest_;
  const int64_t heap_at_start_;
  const bool of_device_ = false;

  // How much the heap has grown.
  size_t heap() const;

  std::atomic<size_t> reserved_{0};
  std::atomic<uint64_t> refusals_{0};
  absl::AnyInvocable<void() const> reclaim_;
};

/// Bytes of a budget, which outlives this, until this goes or is moved from. Not thread-safe.
class MemoryReservation {
 public:
  MemoryReservation() = default;  ///< Of nothing.
  /// Errors: MemoryBudget::Reserve's.
  static absl::StatusOr<MemoryReservation> Take(MemoryBudget& budget, size_t bytes) {
    if (!budget.TryReserve(bytes)) return budget.Refusal(bytes);
    MemoryReservation taken;
    taken.budget_ = &budget;
    taken.bytes_ = bytes;
    return taken;
  }
  MemoryReservation(MemoryReservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryReservation& operator=(MemoryReservation&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryReservation() { Release(); }

  size_t bytes() const { return bytes_; }
  void Release() {
    if (budget_ != nullptr) std::exchange(budget_, nullptr)->Release(std::exchange(bytes_, 0));
  }

 private:
  MemoryBudget* budget_ = nullptr;
  size_t bytes_ = 0;
};

/// How much one call may hold at once: what its threads take while they have a HeapScope of it
/// (operator new's, and HostAllocator's blocks), less what they give back meanwhile. Since they may
/// give back what the call was handed, it may hold so much more. Exact within 16 KiB for each
/// thread. Thread-safe.
class MemoryShare {
 public:
  /// `most_bytes`: 0: no bound but the budget's.
  explicit MemoryShare(size_t most_bytes) : most_(most_bytes) {}

  bool Fits(size_t bytes) const {
    return most_ == 0 || (bytes <= most_ && used() <= most_ - bytes);
  }
  bool TryTake(size_t bytes) {
    if (most_ != 0 && bytes > most_) return false;
    const int64_t before = used_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    if (most_ == 0 || before <= static_cast<int64_t>(most_ - bytes)) return true;
    Give(bytes);
    return false;
  }
  void Give(size_t bytes) { Count(-static_cast<int64_t>(bytes)); }
  void Count(int64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }

  size_t used() const {
    return static_cast<size_t>(std::max<int64_t>(used_.load(std::memory_order_relaxed), 0));
  }
  size_t most() const { return most_; }
  /// What a request for `bytes` that does not fit is told.
  absl::Status Refusal(size_t bytes) const;

 private:
  const size_t most_;
  std::atomic<int64_t> used_{0};
};

/// While one lives, what its thread takes by operator new throws MemoryRefused where the budget, or
/// the share of it, has no room for it. Null: nothing is refused, as for what must not fail
/// half-way. They nest.
class HeapScope {
 public:
  explicit HeapScope(MemoryBudget* budget, MemoryShare* share = nullptr)
      : outer_budget_(std::exchange(thread_heap.budget, budget)),
        outer_share_(std::exchange(thread_heap.share, share)) {}
  ~HeapScope() {
    thread_heap.budget = outer_budget_;
    thread_heap.share = outer_share_;
  }
  HeapScope(const HeapScope&) = delete;
  HeapScope& operator=(const HeapScope&) = delete;

  static MemoryBudget* current() { return thread_heap.budget; }
  static MemoryShare* share() { return thread_heap.share; }

 private:
  MemoryBudget* const outer_budget_;
  MemoryShare* const outer_share_;
};

/// What operator new throws where a budget has no room. Already counted as a refusal.
class MemoryRefused final : public std::bad_alloc {
 public:
  MemoryRefused(size_t wanted, size_t used, size_t limit, bool of_share)
      : wanted(wanted), used(used), limit(limit), of_share(of_share) {}
  const char* what() const noexcept override { return "out of memory: the limit is reached"; }
  size_t wanted, used, limit;
  bool of_share;  ///< A MemoryShare's numbers.
};

/// What an exception of the standard library means: kResourceExhausted. For CatchOutOfMemory. Where
/// there is no memory for a text with the numbers, it is one without. Never throws.
absl::Status StatusOf(const std::bad_alloc& error) noexcept;
absl::Status StatusOf(const std::length_error& error) noexcept;
absl::Status StatusOf(const std::system_error& error) noexcept;

/// Runs `body`, which returns a Status or a StatusOr, where work enters: memory or a thread that
/// cannot be had, or a length beyond a container's, becomes kResourceExhausted. Costs nothing where
/// nothing is thrown.
template <typename Body>
std::invoke_result_t<Body> CatchOutOfMemory(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc& error) {
    return StatusOf(error);
  } catch (const std::length_error& error) {
    return StatusOf(error);
  } catch (const std::system_error& error) {
    return StatusOf(error);
  }
}

/// The same with a HeapScope of `budget`, and of a share of it, around `body`.
template <typename Body>
std::invoke_result_t<Body> HoldToBudget(MemoryBudget& budget, MemoryShare* share, Body&& body) {
  return CatchOutOfMemory([&]() -> std::invoke_result_t<Body> {
    HeapScope scope(&budget, share);
    return body();
  });
}
template <typename Body>
std::invoke_result_t<Body> HoldToBudget(MemoryBudget& budget, Body&& body) {
  return HoldToBudget(budget, nullptr, std::forward<Body>(body));
}

}  // namespace formwork
