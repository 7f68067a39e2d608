#include "core/storage/write_pace.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace formwork {
namespace {

// The pace of files is kept to the period: what calls notice is short.
constexpr int64_t kPeriodMicros = 10000;
// As fast as can be, in bytes a second: more than one thread writes. What a period has left stays
// for the next pace, so it is no more than that.
constexpr int64_t kNoPace = int64_t{2} << 30;
// How much faster than buffers are filled files are written.
constexpr double kOfFiles = 1.25;
// Of the time between two turns, for what is logged a second: shorter ones say little.
constexpr absl::Duration kLeastLook = absl::Milliseconds(1);

}  // namespace

WritePace::WritePace() : files_(rocksdb::NewGenericRateLimiter(kNoPace, kPeriodMicros)) {}

void WritePace::Set(uint64_t bytes_per_second) {
  absl::MutexLock lock(&mutex_);
  pace_ = bytes_per_second;
  if (pace_ == 0) files_->SetBytesPerSecond(kNoPace);
}

void WritePace::AwaitTurn(uint64_t bytes) {
  absl::Duration wait;
  {
    absl::MutexLock lock(&mutex_);
    if (pace_ == 0) return;
    const absl::Time now = absl::Now();
    const auto logged = static_cast<double>(logged_.exchange(0, std::memory_order_relaxed));
    const double seconds = absl::ToDoubleSeconds(std::max(now - looked_, kLeastLook));
    looked_ = now;
    const double pace = static_cast<double>(pace_);
    const double of_files = kOfFiles * (pace + logged / seconds);
    files_->SetBytesPerSecond(of_files < kNoPace ? static_cast<int64_t>(of_files) : kNoPace);
    next_ = std::max(next_, now);
    wait = next_ - now;
    next_ += absl::Seconds(static_cast<double>(bytes) / pace);
  }
  absl::SleepFor(wait);
}

}  // namespace formwork
