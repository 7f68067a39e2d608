#include "server/open_streams.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

// What gRPC and we take for a stream on which nothing moves.
constexpr size_t kStreamBytes = size_t{24} << 10;

}  // namespace

void OpenStream::Guard(absl::FunctionRef<void()> work) {
  const absl::Status ran = CatchOutOfMemory([&] {
    work();
    return absl::OkStatus();
  });
  if (!ran.ok()) Break(ran);
}

OpenStreams::OpenStreams(absl::Duration idle_timeout, MemoryBudget& memory)
    : idle_timeout_(idle_timeout),
      memory_(memory),
      most_(memory.limit() == 0 ? SIZE_MAX : memory.limit() / 4 / kStreamBytes) {
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
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&ended_), period)) return;
    }
    CatchOutOfMemory([this] {
      EndIdle();
      return absl::OkStatus();
    }).IgnoreError();  // The next time.
  }
}

void OpenStreams::EndIdle() {
  std::vector<std::shared_ptr<OpenStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    streams.reserve(streams_.size());
    for (const auto& [key, entry] : streams_) streams.push_back(entry.stream);
  }
  for (const auto& stream : streams) stream->EndIfIdle(absl::Now() - idle_timeout_);
}

absl::Status OpenStreams::Add(std::shared_ptr<OpenStream> stream) {
  absl::StatusOr<MemoryReservation> held = MemoryReservation::Take(memory_, kStreamBytes);
  absl::Status status = held.status();
  bool closing;
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = streams_[stream.get()];
    entry.stream = stream;
    if (held.ok()) entry.held = *std::move(held);
    closing = closing_;
    if (status.ok() && streams_.size() > most_) {
      status = WithReason(ResourceExhausted("too many streams are open: limit=", most_),
                          Reason::kQueueFull);
    }
  }
  if (closing) stream->CloseWhenIdle();
  return status;
}

void OpenStreams::Remove(OpenStream* stream) {
  Entry removed;  // Outlives the lock.
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
    for (const auto& [key, entry] : streams_) streams.push_back(entry.stream);
  }
  for (const auto& stream : streams) stream->CloseWhenIdle();
}

}  // namespace formwork::server
