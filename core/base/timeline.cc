#include "core/base/timeline.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace formwork {
namespace {

constexpr int64_t kOpen = -1;  // Of a span's end.

bool IsBounded(Timeline::Kind kind) {
  return kind == Timeline::Kind::kStep || kind == Timeline::Kind::kCall ||
         kind == Timeline::Kind::kLanes || kind == Timeline::Kind::kWork ||
         kind == Timeline::Kind::kCopy;
}

// False where there is no memory for it.
bool Add(absl::string_view text, uint32_t index, std::vector<std::string>& texts,
         HashMap<std::string, uint32_t>& known) {
  const HeapScope unlimited(nullptr);  // Bounded, and no reason for a step to fail.
  const absl::Status added = CatchOutOfMemory([&] {
    texts.emplace_back(text);
    known.try_emplace(std::string(text), index);
    return absl::OkStatus();
  });
  if (!added.ok()) texts.resize(index);
  return added.ok();
}

}  // namespace

TimelineRecorder::TimelineRecorder()
    : start_(absl::GetCurrentTimeNanos()), timeline_(std::make_unique<Timeline>()) {
  absl::MutexLock lock(&mutex_);
  timeline_->start = absl::FromUnixNanos(start_);
  timeline_->spans.reserve(Timeline::kMostSteps + kMostOthers);
  timeline_->tracks.reserve(kMostTracks);
  timeline_->tracks.emplace_back("call");
  timeline_->texts = {"", "(the timeline holds no more names)"};
}

int64_t TimelineRecorder::Now() const { return absl::GetCurrentTimeNanos() - start_; }

TimelineRecorder::Text TimelineRecorder::TextOf(absl::string_view text) {
  absl::MutexLock lock(&mutex_);
  return TextLocked(text);
}

TimelineRecorder::Text TimelineRecorder::TextLocked(absl::string_view text) {
  if (text.empty() || timeline_ == nullptr) return 0;
  const auto found = texts_.find(text);
  if (found != texts_.end()) return found->second;
  if (texts_.size() >= kMostTexts || text.size() > kMostTextBytes - text_bytes_) {
    return kNoMoreTexts;
  }
  const Text made = static_cast<Text>(timeline_->texts.size());
  if (!Add(text, made, timeline_->texts, texts_)) return kNoMoreTexts;
  text_bytes_ += text.size();
  return made;
}

uint16_t TimelineRecorder::TrackOf(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  if (timeline_ == nullptr) return kCallTrack;
  std::vector<std::string>& tracks = timeline_->tracks;
  const auto found = std::find(tracks.begin(), tracks.end(), name);
  if (found != tracks.end()) return static_cast<uint16_t>(found - tracks.begin());
  const HeapScope unlimited(nullptr);
  (void)CatchOutOfMemory([&] {
    if (tracks.size() < kMostTracks) tracks.emplace_back(name);
    return absl::OkStatus();
  });
  return static_cast<uint16_t>(tracks.size() - 1);
}

void TimelineRecorder::Remember(const void* label, StepTexts texts) {
  const HeapScope unlimited(nullptr);
  absl::MutexLock lock(&mutex_);
  if (steps_.size() >= kMostTexts) return;
  HashMap<const void*, StepTexts>* const steps = &steps_;
  (void)CatchOutOfMemory([steps, label, texts] {
    steps->try_emplace(label, texts);
    return absl::OkStatus();
  });
}

TimelineRecorder::SpanId TimelineRecorder::Open(const Timeline::Span& span) {
  absl::MutexLock lock(&mutex_);
  return OpenLocked(span);
}

TimelineRecorder::SpanId TimelineRecorder::OpenLocked(const Timeline::Span& span) {
  if (timeline_ == nullptr) return kNoSpan;
  std::vector<Timeline::Span>& spans = timeline_->spans;
  if (IsBounded(span.kind)) {
    if (steps_recorded_ == Timeline::kMostSteps) {
      CountLeftOut();
      return kNoSpan;
    }
    if (++steps_recorded_ == Timeline::kMostSteps) full_.store(true, std::memory_order_relaxed);
  } else if (spans.size() - steps_recorded_ == kMostOthers) {
    CountLeftOut();
    return kNoSpan;
  }
  Timeline::Span& opened = spans.emplace_back(span);
  opened.begin = Now();
  opened.end = kOpen;
  return static_cast<SpanId>(spans.size() - 1);
}

void TimelineRecorder::Close(SpanId span) {
  absl::MutexLock lock(&mutex_);
  CloseLocked(span, Now());
}

void TimelineRecorder::Close(SpanId span, Text detail, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (span == kNoSpan || timeline_ == nullptr) return;
  CloseLocked(span, Now());
  timeline_->spans[span].detail = detail;
  timeline_->spans[span].bytes = bytes;
}

void TimelineRecorder::CloseLocked(SpanId span, int64_t now) {
  if (span == kNoSpan || timeline_ == nullptr) return;
  Timeline::Span& closed = timeline_->spans[span];
  if (closed.end == kOpen) closed.end = std::max(now, closed.begin);  // Clocks are set back.
}

void TimelineRecorder::SetWait(SpanId span, Text detail) {
  absl::MutexLock lock(&mutex_);
  if (span == kNoSpan || timeline_ == nullptr) return;
  timeline_->spans[span].kind = Timeline::Kind::kWait;
  timeline_->spans[span].detail = detail;
}

TimelineRecorder::SpanId TimelineRecorder::BeginPhase(absl::string_view name, Timeline::Kind kind,
                                                      absl::string_view detail) {
  absl::MutexLock lock(&mutex_);
  if (timeline_ == nullptr) return kNoSpan;
  const int64_t now = Now();  // Of all: they are nested still.
  for (SpanId span = phase_ == kNoSpan ? 0 : phase_; span < timeline_->spans.size(); ++span) {
    if (timeline_->spans[span].track == kCallTrack) CloseLocked(span, now);
  }
  phase_ = OpenLocked({.name = TextLocked(name), .detail = TextLocked(detail), .kind = kind});
  return phase_;
}

std::unique_ptr<Timeline> TimelineRecorder::Finish() {
  absl::MutexLock lock(&mutex_);
  const int64_t now = Now();
  for (SpanId span = 0; span < timeline_->spans.size(); ++span) CloseLocked(span, now);
  timeline_->left_out = left_out_.load(std::memory_order_relaxed);
  return std::move(timeline_);
}

}  // namespace formwork
