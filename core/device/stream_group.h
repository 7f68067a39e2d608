#pragma once

// The streams of one call, and what each of them is known to be behind: so that nothing waits for
// what earlier waits have settled.

#include <array>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/device/device.h"

namespace formwork {

/// Work is enqueued on one of them at a time, the current one: stream 0, unless Go has said
/// otherwise. A stream's time is a count that moves on whenever a point of it is recorded: what has
/// been enqueued at a time is before the points that are recorded later. Used by one thread at a
/// time; the streams outlive it.
class StreamGroup {
 public:
  static constexpr int kMost = 4;
  using Times = std::array<uint64_t, kMost>;  ///< Of each stream; 0: before anything.

  /// A point of a stream.
  struct Point {
    EventRef event;
    int stream = 0;
    Times behind{};  ///< Of each stream, up to when its work has run once `event` has happened.
  };
  using Points = absl::InlinedVector<Point, 1>;

  /// At most kMost.
  explicit StreamGroup(absl::Span<Stream* const> streams);

  int size() const { return static_cast<int>(streams_.size()); }
  Stream& stream(int k) { return *streams_[static_cast<size_t>(k)]; }
  int current() const { return current_; }
  Stream& stream() { return stream(current_); }
  /// Makes `k` the current one, before something is enqueued there: again behind a point of it.
  void Go(int k) {
    current_ = k;
    last_used_[k] = now(k);
  }
  bool used(int k) const { return last_used_[k] != 0; }
  uint64_t now(int k) const { return behind_[k][k]; }

  /// Whether what is enqueued on `k` from now on comes after what was on `other` at `time`.
  bool IsBehind(int k, int other, uint64_t time) const {
    return k == other || behind_[k][other] >= time;
  }
  bool IsBehind(int k, const Point& point) const {
    return IsBehind(k, point.stream, point.behind[point.stream]);
  }
  Point Record(int k);
  /// Points that together are behind everything: stream 0's, and those of the others that it is not
  /// behind.
  Points RecordAll();
  /// `k` has been told to wait for it.
  void NoteWait(int k, const Point& point);
  /// The host has awaited it: all that is enqueued from now on comes after.
  void NoteAwaited(const Point& point);

 private:
  const absl::InlinedVector<Stream*, kMost> streams_;
  int current_ = 0;
  std::array<Times, kMost> behind_{};  // Of each stream: its own time too.
  Times last_used_{};
};

}  // namespace formwork
