#include "core/device/stream_group.h"

#include <algorithm>

namespace formwork {

StreamGroup::StreamGroup(absl::Span<Stream* const> streams)
    : streams_(streams.begin(), streams.end()) {
  for (int k = 0; k < kMost; ++k) behind_[k][k] = 1;
  Go(0);
}

StreamGroup::Point StreamGroup::Record(int k) {
  Point point{stream(k).Record(), k, behind_[k]};
  ++behind_[k][k];
  return point;
}

StreamGroup::Points StreamGroup::RecordAll() {
  Points points;
  points.push_back(Record(0));
  for (int k = 1; k < size(); ++k) {
    if (last_used_[k] != 0 && !IsBehind(0, k, last_used_[k])) points.push_back(Record(k));
  }
  return points;
}

void StreamGroup::NoteWait(int k, const Point& point) {
  for (int other = 0; other < kMost; ++other) {
    if (other == k) continue;
    behind_[k][other] = std::max(behind_[k][other], point.behind[other]);
  }
}

void StreamGroup::NoteAwaited(const Point& point) {
  for (int k = 0; k < size(); ++k) NoteWait(k, point);
}

}  // namespace formwork
