#include "core/base/fair_places.h"

#include <algorithm>

namespace formwork {

bool FairPlaces::Take(absl::string_view key) {
  absl::MutexLock lock(&mutex_);
  auto held = by_key_.find(key);
  const int64_t own = held == by_key_.end() ? 0 : held->second;
  const int64_t share = std::max<int64_t>(1, 3 * (places_ - taken_));
  if (own >= share || taken_ >= 2 * places_) return false;
  Add(key);
  return true;
}

void FairPlaces::TakeAnyway(absl::string_view key) {
  absl::MutexLock lock(&mutex_);
  Add(key);
}

void FairPlaces::Add(absl::string_view key) {
  auto held = by_key_.find(key);
  if (held == by_key_.end()) {
    by_key_.emplace(std::string(key), 1);
  } else {
    ++held->second;
  }
  ++taken_;  // Last: where there is no memory for a key, nothing is taken.
}

void FairPlaces::Release(absl::string_view key) {
  absl::MutexLock lock(&mutex_);
  auto held = by_key_.find(key);
  --taken_;
  if (--held->second == 0) by_key_.erase(held);
}

int64_t FairPlaces::taken() const {
  absl::MutexLock lock(&mutex_);
  return taken_;
}

int64_t FairPlaces::taken(absl::string_view key) const {
  absl::MutexLock lock(&mutex_);
  auto held = by_key_.find(key);
  return held == by_key_.end() ? 0 : held->second;
}

}  // namespace formwork
