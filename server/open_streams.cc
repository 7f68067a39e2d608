#include "server/open_streams.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace formwork::server {

OpenStreams::OpenStreams(absl::Duration idle_timeout) : idle_timeout_(idle_timeout) {
  if (idle_timeout_ != absl::InfiniteDuration()) watch_ = std::thread([this] { WatchIdle(); });
}

OpenStreams::~OpenStreams() {
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }
  if (watch_.joinable()) watch_.join();
}

void OpenStreams::WatchIdle() {
  const absl::Duration period =
      std::clamp<absl::Duration>(idle_timeout_ / 4, absl::Milliseconds(100), absl::Seconds(60));
  while (true) {
    std::vector<std::shared_ptr<OpenStream>> streams;
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&ended_), period)) return;
      for (const auto& [key, stream] : streams_) streams.push_back(stream);
    }
    for (const auto& stream : streams) stream->EndIfIdle(absl::Now() - idle_timeout_);
  }
}

void OpenStreams::Add(std::shared_ptr<OpenStream> stream) {
  absl::MutexLock lock(&mutex_);
  if (closing_) stream->CloseWhenIdle();
  OpenStream* const key = stream.get();
  streams_[key] = std::move(stream);
}

void OpenStreams::Remove(OpenStream* stream) {
  std::shared_ptr<OpenStream> removed;  // Outlives the lock.
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  removed = std::move(found->second);
  streams_.erase(found);
}

void OpenStreams::CloseWhenIdle() {
  std::vector<std::shared_ptr<OpenStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    for (const auto& [key, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->CloseWhenIdle();
}

}  // namespace formwork::server
