#include "core/device/recorded_stream.h"

#include <utility>

#include "core/base/memory_budget.h"

namespace formwork {
namespace {

using Kind = Timeline::Kind;

class RecordedStream final : public Stream {
 public:
  RecordedStream(Stream& stream, std::shared_ptr<TimelineRecorder> recorder,
                 absl::string_view track)
      : stream_(stream),
        recorder_(std::move(recorder)),
        track_(recorder_->TrackOf(track)),
        to_host_(recorder_->TextOf("to the host")),
        to_device_(recorder_->TextOf("to the device")),
        event_(recorder_->TextOf("what another stream has to do before")) {}

  const Stream& inner() const override { return stream_.inner(); }
  bool enqueues() const override { return stream_.enqueues(); }

  void Launch(const BufferAccess& access, absl::AnyInvocable<absl::Status()> work) override {
    if (recorder_->full()) {
      recorder_->CountLeftOut();
      return stream_.Launch(access, std::move(work));
    }
    stream_.Launch(access, [recorder = recorder_, span = NewSpan(Kind::kWork),
                            work = std::move(work)]() mutable {
      const TimelineRecorder::SpanId opened = recorder->Open(span);
      absl::Status status = work();
      recorder->Close(opened);
      return status;
    });
  }

  EventRef Record() override { return stream_.Record(); }

  void Wait(const EventRef& event) override {
    if (event == nullptr) return;
    Around(NewSpan(Kind::kWait, event_), [&] { stream_.Wait(event); });
  }

  void Copy(const Buffer& src, Buffer& dst) override {
    if (recorder_->full()) {
      recorder_->CountLeftOut();
      return stream_.Copy(src, dst);
    }
    Timeline::Span span = NewSpan(Kind::kCopy, dst.on_device() ? to_device_ : to_host_);
    span.bytes = src.bytes();
    Around(span, [&] { stream_.Copy(src, dst); });
  }

  void Then(absl::AnyInvocable<void(absl::Status)> on_host) override {
    stream_.Then(std::move(on_host));
  }

  BufferBlock* TakePinned(size_t bytes) override { return stream_.TakePinned(bytes); }
  absl::StatusOr<std::shared_ptr<FailureWord>> NewFailureWord() override {
    return stream_.NewFailureWord();
  }

  void CopyUnlessFailed(FailureWord& word, const Buffer& src, Buffer& dst) override {
    stream_.CopyUnlessFailed(word, src, dst);
  }

 private:
  Timeline::Span NewSpan(Kind kind, TimelineRecorder::Text detail = 0) const {
    return {.name = recorder_->step_name(),
            .op = recorder_->step_op(),
            .detail = detail,
            .track = track_,
            .kind = kind};
  }

  template <typename Enqueue>
  void Around(const Timeline::Span& span, Enqueue enqueue) {
    // Written by the one and read by the other, which come one after the other.
    std::shared_ptr<TimelineRecorder::SpanId> opened;
    const absl::Status begun = CatchOutOfMemory([&] {
      opened = std::make_shared<TimelineRecorder::SpanId>(TimelineRecorder::kNoSpan);
      stream_.Then([recorder = recorder_, span, opened](const absl::Status&) {
        *opened = recorder->Open(span);
      });
      return absl::OkStatus();
    });
    enqueue();
    if (!begun.ok()) return;
    // Where this cannot be told, the span ends with the call.
    (void)CatchOutOfMemory([&] {
      stream_.Then(
          [recorder = recorder_, opened](const absl::Status&) { recorder->Close(*opened); });
      return absl::OkStatus();
    });
  }

  Stream& stream_;
  const std::shared_ptr<TimelineRecorder> recorder_;
  const uint16_t track_;
  const TimelineRecorder::Text to_host_, to_device_, event_;
};

}  // namespace

std::unique_ptr<Stream> RecordStream(Stream& stream, std::shared_ptr<TimelineRecorder> recorder,
                                     absl::string_view track) {
  return std::make_unique<RecordedStream>(stream, std::move(recorder), track);
}

}  // namespace formwork
