#include "core/base/memory_budget.h"

#include <algorithm>

#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::Status LimitReached(absl::string_view whose, size_t wanted, size_t used, size_t limit) {
  return WithReason(
      ResourceExhausted("out of memory: the ", whose, " limit is reached: bytes wanted=", wanted,
                        " used=", used, " limit=", limit),
      Reason::kMemoryLimit, {{"wantedBytes", wanted}, {"usedBytes", used}, {"limitBytes", limit}});
}

absl::Status ShareUsedUp(size_t wanted, size_t used, size_t limit) {
  return WithReason(
      ResourceExhausted("out of memory: more than one call may hold (--max-call-bytes): bytes "
                        "wanted=",
                        wanted, " used=", used, " limit=", limit),
      Reason::kMemoryLimit, {{"wantedBytes", wanted}, {"usedBytes", used}, {"limitBytes", limit}});
}

// A copy takes no memory.
const absl::Status& PlainRefusal() {
  static const auto& plain = *new absl::Status(
      WithReason(absl::ResourceExhaustedError("out of memory"), Reason::kMemoryLimit));
  return plain;
}

// What `make` says, or, where there is no memory to say it, that alone.
template <typename Make>
absl::Status OrPlain(Make make) noexcept {
  HeapScope unlimited(nullptr);
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return PlainRefusal();
  }
}

}  // namespace

constinit thread_local ThreadHeap thread_heap;
constinit std::atomic<int64_t> heap_bytes{0};

void SettleThreadHeap() {
  // Its destructor adds the rest when the thread ends.
  struct AtExit {
    ~AtExit() { CountHeap(std::exchange(thread_heap.unsettled, 0)); }
  };
  thread_local AtExit at_exit;
  (void)at_exit;
  const int64_t bytes = std::exchange(thread_heap.unsettled, 0);
  CountHeap(bytes);
  if (thread_heap.share != nullptr) thread_heap.share->Count(bytes);
}

MemoryBudget::MemoryBudget(size_t limit_bytes, size_t largest_bytes)
    : limit_(limit_bytes),
      largest_(largest_bytes),
      heap_at_start_(heap_bytes.load(std::memory_order_relaxed)) {
  PlainRefusal();  // Made while there is memory.
}

size_t MemoryBudget::heap() const {
  if (of_device_) return 0;
  const int64_t grown = heap_bytes.load(std::memory_order_relaxed) - heap_at_start_;
  return static_cast<size_t>(std::max<int64_t>(grown, 0));
}

size_t MemoryBudget::used() const { return reserved_.load(std::memory_order_relaxed) + heap(); }

bool MemoryBudget::Fits(size_t bytes) const {
  if (largest_ != 0 && bytes > largest_) return false;
  if (limit_ == 0) return true;
  const size_t used_now = used();
  return used_now <= limit_ && bytes <= limit_ - used_now;
}

bool MemoryBudget::TryReserve(size_t bytes) {
  if (largest_ != 0 && bytes > largest_) return false;
  size_t reserved = reserved_.load(std::memory_order_relaxed);
  bool reclaimed = false;
  do {
    while (limit_ != 0) {
      const size_t others = std::min(limit_, heap());
      if (reserved <= limit_ - others && bytes <= limit_ - others - reserved) break;
      if (std::exchange(reclaimed, true)) return false;
      Reclaim();
      reserved = reserved_.load(std::memory_order_relaxed);
    }
  } while (!reserved_.compare_exchange_weak(reserved, reserved + bytes, std::memory_order_relaxed));
  return true;
}

absl::Status MemoryBudget::CheckRoom(size_t bytes) {
  if (Fits(bytes)) return absl::OkStatus();
  Reclaim();
  return Fits(bytes) ? absl::OkStatus() : Refusal(bytes);
}

absl::Status MemoryBudget::Refusal(size_t bytes) {
  CountRefusal();
  HeapScope unlimited(nullptr);  // The text takes memory, too.
  if (largest_ != 0 && bytes > largest_) {
    return WithReason(
        ResourceExhausted("out of memory: more than may be taken at once: bytes wanted=", bytes,
                          " most at once=", largest_, " used=", used(), " limit=", limit_),
        Reason::kMemoryLimit,
        {{"wantedBytes", bytes}, {"usedBytes", used()}, {"limitBytes", largest_}});
  }
  return LimitReached(of_device_ ? "device's" : "server's", bytes, used(), limit_);
}

absl::Status MemoryShare::Refusal(size_t bytes) const {
  HeapScope unlimited(nullptr);
  return ShareUsedUp(bytes, used(), most_);
}

absl::Status StatusOf(const std::bad_alloc& error) noexcept {
  return OrPlain([&] {
    const auto* refused = dynamic_cast<const MemoryRefused*>(&error);
    if (refused == nullptr) return ResourceExhausted("out of memory: the system gives no more");
    return refused->of_share
               ? ShareUsedUp(refused->wanted, refused->used, refused->limit)
               : LimitReached("server's", refused->wanted, refused->used, refused->limit);
  });
}

absl::Status StatusOf(const std::length_error& error) noexcept {
  return OrPlain([&] {
    return ResourceExhausted("out of memory: longer than any container may be: in ", error.what());
  });
}

absl::Status StatusOf(const std::system_error& error) noexcept {
  return OrPlain([&] {
    return ResourceExhausted("the system has no more threads or memory: ", error.what());
  });
}

}  // namespace formwork
