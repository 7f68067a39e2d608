// What a call's timeline holds, and that it is bounded.

#include "core/base/timeline.h"

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/timeline_text.h"

namespace formwork::testing {
namespace {

using Kind = Timeline::Kind;

Timeline::Span StepOf(TimelineRecorder& recorder, absl::string_view name, uint16_t track = 0) {
  return {.name = recorder.TextOf(name), .track = track, .kind = Kind::kStep};
}

TEST(TimelineTest, SpansAreNestedAndPhasesEndWhatIsInThem) {
  TimelineRecorder recorder;
  recorder.BeginPhase("bind");
  recorder.BeginPhase("run");
  const auto outer = recorder.Open({.name = recorder.TextOf("f"), .kind = Kind::kCall});
  const auto inner = recorder.Open(StepOf(recorder, "y"));
  recorder.Close(inner, recorder.TextOf("float32[2]"), 8);
  recorder.Open(StepOf(recorder, "left open"));
  recorder.BeginPhase("answer");
  recorder.Close(outer);  // Has been.
  const auto timeline = recorder.Finish();
  EXPECT_EQ(TimelineText(*timeline), R"(call
  phase bind
  phase run
    call 'f'
      step 'y': float32[2]
      step 'left open'
  phase answer
)");
  EXPECT_EQ(timeline->spans[3].bytes, 8);
  EXPECT_EQ(timeline->left_out, 0);
}

TEST(TimelineTest, TextsAndTracksAreHeldOnce) {
  TimelineRecorder recorder;
  EXPECT_EQ(recorder.TextOf(""), 0);
  EXPECT_EQ(recorder.TextOf("a"), recorder.TextOf("a"));
  EXPECT_NE(recorder.TextOf("a"), recorder.TextOf("b"));
  const uint16_t lane = recorder.TrackOf("lane 1");
  EXPECT_NE(lane, recorder.TrackOf("lane 2"));
  EXPECT_EQ(lane, recorder.TrackOf("lane 1"));
  EXPECT_EQ(recorder.TrackOf("call"), TimelineRecorder::kCallTrack);
  EXPECT_THAT(recorder.Finish()->tracks, ::testing::ElementsAre("call", "lane 1", "lane 2"));
}

TEST(TimelineTest, StepsBeyondTheBoundAreCountedAndPhasesAreNot) {
  TimelineRecorder recorder;
  recorder.BeginPhase("run");
  constexpr size_t kBeyond = 1000;
  for (size_t i = 0; i < Timeline::kMostSteps + kBeyond; ++i) {
    EXPECT_EQ(recorder.full(), i >= Timeline::kMostSteps);
    const auto step = recorder.Open(StepOf(recorder, "n"));
    EXPECT_EQ(step == TimelineRecorder::kNoSpan, i >= Timeline::kMostSteps);
    recorder.Close(step);
  }
  recorder.CountLeftOut();  // By those who have looked whether it is full.
  recorder.BeginPhase("answer");
  const auto timeline = recorder.Finish();
  EXPECT_EQ(timeline->spans.size(), Timeline::kMostSteps + 2);
  EXPECT_EQ(timeline->texts[timeline->spans.back().name], "answer");
  EXPECT_EQ(timeline->left_out, kBeyond + 1);
}

TEST(TimelineTest, WaitsAreBoundedApartFromSteps) {
  TimelineRecorder recorder;
  for (int i = 0; i < 100'000; ++i) {
    recorder.Close(recorder.Open({.name = recorder.TextOf("wait"), .kind = Kind::kWait}));
  }
  EXPECT_FALSE(recorder.full());
  EXPECT_NE(recorder.Open(StepOf(recorder, "y")), TimelineRecorder::kNoSpan);
  const auto timeline = recorder.Finish();
  EXPECT_LE(timeline->spans.size(), 10'000);
  EXPECT_EQ(timeline->spans.size() + timeline->left_out, 100'001);
}

TEST(TimelineTest, TextsBeyondTheBoundAreOneThatSaysSo) {
  TimelineRecorder recorder;
  const std::string large(TimelineRecorder::kMostTextBytes / 2, 'x');
  for (int i = 0; i < 10; ++i) recorder.TextOf(absl::StrCat(i, large));
  const auto beyond = recorder.TextOf(absl::StrCat("more", large));
  EXPECT_NE(recorder.TextOf("small"), beyond);  // There is room for that.
  for (int i = 0; i < 100'000; ++i) recorder.TextOf(absl::StrCat(i));
  EXPECT_EQ(recorder.TextOf("another"), beyond);
  recorder.Close(recorder.Open({.name = beyond}));
  const auto timeline = recorder.Finish();
  size_t bytes = 0;
  for (const std::string& text : timeline->texts) bytes += text.size();
  EXPECT_LE(bytes, TimelineRecorder::kMostTextBytes + 100);
  EXPECT_EQ(timeline->texts[timeline->spans[0].name], "(the timeline holds no more names)");
}

TEST(TimelineTest, TracksBeyondTheBoundAreTheLastOne) {
  TimelineRecorder recorder;
  uint16_t last = 0;
  for (int i = 0; i < 1000; ++i) last = recorder.TrackOf(absl::StrCat("lane ", i));
  recorder.Close(recorder.Open(StepOf(recorder, "y", last)));
  const auto timeline = recorder.Finish();
  EXPECT_LE(timeline->tracks.size(), 100);
  EXPECT_EQ(last + 1, timeline->tracks.size());
}

TEST(TimelineTest, StepsAreAskedForTheirNamesOnce) {
  TimelineRecorder recorder;
  const int labels[2] = {};
  int asked = 0;
  for (int i = 0; i < 10; ++i) {
    const auto texts = recorder.TextsOf(&labels[i % 2], [&]() -> TimelineRecorder::StepTexts {
      ++asked;
      return {recorder.TextOf(absl::StrCat("node ", i)), recorder.TextOf("Add")};
    });
    EXPECT_EQ(texts.name, recorder.TextOf(absl::StrCat("node ", i % 2)));
  }
  EXPECT_EQ(asked, 2);
}

TEST(TimelineTest, NothingIsRecordedAfterItsEnd) {
  TimelineRecorder recorder;
  const auto open = recorder.Open(StepOf(recorder, "y"));
  const auto timeline = recorder.Finish();
  recorder.Close(open, recorder.TextOf("late"), 1);
  recorder.SetWait(open, recorder.TextOf("late"));
  EXPECT_EQ(recorder.Open(StepOf(recorder, "z")), TimelineRecorder::kNoSpan);
  EXPECT_EQ(recorder.BeginPhase("answer"), TimelineRecorder::kNoSpan);
  EXPECT_EQ(recorder.TrackOf("lane 1"), TimelineRecorder::kCallTrack);
  EXPECT_EQ(TimelineText(*timeline), "call\n  step 'y'\n");
}

TEST(TimelineTest, ThreadsWriteSideBySide) {
  TimelineRecorder recorder;
  constexpr int kThreads = 4, kSteps = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&recorder, t] {
      const uint16_t track = recorder.TrackOf(absl::StrCat("lane ", t));
      for (int i = 0; i < kSteps; ++i) {
        const auto step = recorder.Open(StepOf(recorder, absl::StrCat(i), track));
        recorder.Close(step, recorder.TextOf("float32[]"), 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto timeline = recorder.Finish();
  ASSERT_EQ(timeline->spans.size(), kThreads * kSteps);
  std::vector<int> next(timeline->tracks.size());  // Of each track, in order.
  for (const Timeline::Span& span : timeline->spans) {
    EXPECT_EQ(timeline->texts[span.name], absl::StrCat(next[span.track]++));
    EXPECT_EQ(timeline->texts[span.detail], "float32[]");
    EXPECT_LE(span.begin, span.end);
  }
  for (size_t track = 1; track < next.size(); ++track) EXPECT_EQ(next[track], kSteps);
}

}  // namespace
}  // namespace formwork::testing
