// What device.h says, on every device of devices.cc.

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/device/cpu_device.h"
#include "core/device/device.h"
#include "core/device/host_allocator.h"
#include "core/device/recorded_stream.h"
#include "tests/device/devices.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kBytes = 16 << 10;

absl::Time Soon() { return absl::Now() + absl::Seconds(15); }

class DeviceConformance : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (made.status().code() == absl::StatusCode::kUnavailable) {
      GTEST_SKIP() << made.status();
    }
    ASSERT_OK(made);
    under_test_ = *std::move(made);
    // A GPU loads its code at the first use, which may wait for every stream: so before any gate.
    auto warm = NewStream();
    Buffer a = NewBuffer(*warm), b = NewBuffer(*warm);
    Fill(*warm, a, 1);
    warm->Copy(a, b);
    ASSERT_OK(warm->Record()->Await(Soon()));
  }

  void TearDown() override {
    if (under_test_ != nullptr) {
      EXPECT_THAT(under_test_->Reports(), IsEmpty());
    }
  }

  Device& device() { return under_test_->device(); }
  std::unique_ptr<Stream> NewStream() { return device().NewStream().value(); }
  Buffer NewBuffer(Stream& stream, size_t bytes = kBytes) {
    return Buffer(device().allocator().Allocate(bytes, &stream).value());
  }
  void Fill(Stream& stream, Buffer& buffer, uint8_t value) {
    under_test_->Fill(stream, buffer, value);
  }
  std::unique_ptr<Gate> Close(Stream& stream) { return under_test_->Close(stream); }

  Buffer HostBuffer(uint8_t value, size_t bytes = kBytes) {
    Buffer buffer(ProcessAllocator().Allocate(bytes, nullptr).value());
    under_test_->HostWrites(buffer);
    std::memset(buffer.data(), value, bytes);
    return buffer;
  }
  // What is in `buffer` once all that is enqueued on `stream` has run.
  std::vector<int> Read(Stream& stream, const Buffer& buffer) {
    Buffer host = HostBuffer(0xEE, buffer.bytes());
    stream.Copy(buffer, host);
    EXPECT_OK(stream.Record()->Await(Soon()));
    return Bytes(host);
  }
  std::vector<int> Bytes(const Buffer& host) {
    under_test_->HostReads(host);
    const auto* bytes = static_cast<const uint8_t*>(host.data());
    return std::vector<int>(bytes, bytes + host.bytes());
  }

  std::unique_ptr<DeviceUnderTest> under_test_;
};

TEST_P(DeviceConformance, TellsHowBusyItIsOrThatItDoesNot) {
  const absl::StatusOr<DeviceLoad> load = device().Load();
  if (!load.ok()) {
    EXPECT_THAT(load.status(), ::testing::AnyOf(StatusIs(absl::StatusCode::kUnimplemented),
                                                StatusIs(absl::StatusCode::kUnavailable)));
    return;
  }
  for (const std::optional<double>& part : {load->utilization, load->memory_utilization}) {
    EXPECT_TRUE(!part || (*part >= 0 && *part <= 1)) << *part;
  }
  EXPECT_GT(load->memory_occupied_bytes.value_or(1), 0);
}

TEST_P(DeviceConformance, SaysWhatItIsAndIsHealthy) {
  EXPECT_FALSE(device().name().empty());
  EXPECT_OK(device().Health());
}

TEST_P(DeviceConformance, RunsAStreamInOrder) {
  auto stream = NewStream();
  Buffer value = NewBuffer(*stream);
  std::vector<Buffer> seen;
  for (int i = 0; i < 20; ++i) {
    Fill(*stream, value, i);
    seen.push_back(NewBuffer(*stream));
    stream->Copy(value, seen.back());
  }
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Read(*stream, seen[i]), Each(i));
}

TEST_P(DeviceConformance, AnEventHappensAfterWhatIsBeforeIt) {
  auto stream = NewStream();
  Buffer value = NewBuffer(*stream);
  EventRef first, last;
  {
    auto gate = Close(*stream);
    Fill(*stream, value, 1);
    first = stream->Record();
    Fill(*stream, value, 2);
    last = stream->Record();
    EXPECT_FALSE(first->Done());
    EXPECT_FALSE(last->Done());
  }
  EXPECT_OK(last->Await(Soon()));
  EXPECT_TRUE(last->Done());
  EXPECT_TRUE(first->Done());
  EXPECT_OK(first->Await(absl::InfinitePast()));
  EXPECT_OK(first->Await(absl::InfiniteFuture()));
}

TEST_P(DeviceConformance, AnEventOfAnIdleStreamHappens) {
  auto stream = NewStream();
  EXPECT_OK(stream->Record()->Await(Soon()));
}

TEST_P(DeviceConformance, AStreamWaitsForAnotherBeforeItHasRun) {
  auto writer = NewStream(), reader = NewStream();
  Buffer value = NewBuffer(*writer), seen = NewBuffer(*reader);
  Fill(*writer, value, 1);
  {
    auto gate = Close(*writer);
    Fill(*writer, value, 7);
    reader->Wait(writer->Record());
    reader->Copy(value, seen);
    EXPECT_FALSE(reader->Record()->Done());
  }
  EXPECT_THAT(Read(*reader, seen), Each(7));
}

TEST_P(DeviceConformance, AStreamWaitsForWhatHasHappenedAndForNoEvent) {
  auto writer = NewStream(), reader = NewStream();
  Buffer value = NewBuffer(*writer), seen = NewBuffer(*reader);
  Fill(*writer, value, 9);
  const EventRef written = writer->Record();
  EXPECT_OK(written->Await(Soon()));
  reader->Wait(nullptr);
  reader->Wait(written);
  reader->Wait(written);
  reader->Copy(value, seen);
  EXPECT_THAT(Read(*reader, seen), Each(9));
}

TEST_P(DeviceConformance, AnEventIsThePointOfItsRecordAndNoLater) {
  auto writer = NewStream(), reader = NewStream();
  Buffer value = NewBuffer(*writer), other = NewBuffer(*writer), seen = NewBuffer(*reader);
  Fill(*writer, value, 3);
  const EventRef written = writer->Record();
  EXPECT_OK(written->Await(Soon()));
  auto gate = Close(*writer);
  Fill(*writer, other, 4);
  // The writer is held up behind the event; the reader is not.
  reader->Wait(written);
  reader->Copy(value, seen);
  EXPECT_OK(reader->Record()->Await(Soon()));
  gate.reset();
  EXPECT_THAT(Read(*reader, seen), Each(3));
  EXPECT_THAT(Read(*writer, other), Each(4));
}

TEST_P(DeviceConformance, EventsOrderAChainOfManyStreams) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 30; ++i) streams.push_back(NewStream());
  std::vector<Buffer> values;
  values.push_back(NewBuffer(*streams[0]));
  {
    auto gate = Close(*streams[0]);
    Fill(*streams[0], values[0], 5);
    for (size_t i = 1; i < streams.size(); ++i) {
      streams[i]->Wait(streams[i - 1]->Record());
      values.push_back(NewBuffer(*streams[i]));
      streams[i]->Copy(values[i - 1], values[i]);
    }
  }
  EXPECT_THAT(Read(*streams.back(), values.back()), Each(5));
}

TEST_P(DeviceConformance, StreamsTakeTurnsAtOneBuffer) {
  auto a = NewStream(), b = NewStream();
  Buffer value = NewBuffer(*a);
  std::vector<Buffer> seen;
  for (int i = 0; i < 40; ++i) {
    Fill(*a, value, i);
    b->Wait(a->Record());
    seen.push_back(NewBuffer(*b));
    b->Copy(value, seen.back());
    a->Wait(b->Record());
  }
  for (int i = 0; i < 40; ++i) EXPECT_THAT(Read(*b, seen[i]), Each(i));
}

TEST_P(DeviceConformance, AwaitEndsAtItsDeadline) {
  auto stream = NewStream();
  auto gate = Close(*stream);
  const EventRef event = stream->Record();
  const absl::Status status = event->Await(absl::Now() + absl::Milliseconds(5));
  // The simulated device gets on only while the host waits, and has nothing to hold it up.
  if (device().kind() == DeviceKind::kSimulated) {
    EXPECT_OK(status);
  } else {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  gate.reset();
  EXPECT_OK(event->Await(Soon()));
}

TEST_P(DeviceConformance, FailedWorkFailsItsEventAndWhatIsBehindIt) {
  auto stream = NewStream();
  const EventRef before = stream->Record();
  stream->Launch({}, [] { return absl::AbortedError("first"); });
  const EventRef failed = stream->Record();
  std::atomic<bool> ran{false};
  stream->Launch({}, [&ran] {
    ran = true;
    return absl::InternalError("second");
  });
  const EventRef later = stream->Record();
  EXPECT_OK(before->Await(Soon()));
  EXPECT_THAT(failed->Await(Soon()), StatusIs(absl::StatusCode::kAborted, HasSubstr("first")));
  EXPECT_THAT(later->Await(Soon()), StatusIs(absl::StatusCode::kAborted, HasSubstr("first")));
  EXPECT_TRUE(failed->Done());
  EXPECT_FALSE(ran);
}

TEST_P(DeviceConformance, AFailureReachesThoseWhoWaitForItAndNobodyElse) {
  auto failing = NewStream(), waiting = NewStream(), last = NewStream(), other = NewStream();
  Buffer value = NewBuffer(*waiting);
  Fill(*waiting, value, 1);
  const EventRef filled = waiting->Record();
  {
    auto gate = Close(*failing);
    failing->Launch({}, [] { return absl::AbortedError("no"); });
    waiting->Wait(failing->Record());
    Fill(*waiting, value, 2);
    last->Wait(waiting->Record());
  }
  EXPECT_THAT(last->Record()->Await(Soon()), StatusIs(absl::StatusCode::kAborted));
  // What was to come after the failure was skipped.
  EXPECT_THAT(waiting->Record()->Await(Soon()), StatusIs(absl::StatusCode::kAborted));
  other->Wait(filled);
  EXPECT_THAT(Read(*other, value), Each(1));
  EXPECT_OK(device().Health());
  EXPECT_OK(NewStream()->Record()->Await(Soon()));
}

TEST_P(DeviceConformance, CopiesBetweenHostAndDevice) {
  auto stream = NewStream();
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{4096}, size_t{300'001}}) {
    Buffer host = HostBuffer(0, bytes);
    for (size_t i = 0; i < bytes; ++i) static_cast<uint8_t*>(host.data())[i] = i * 7 % 251;
    Buffer there = NewBuffer(*stream, bytes), beside = NewBuffer(*stream, bytes);
    stream->Copy(host, there);
    stream->Copy(there, beside);
    EXPECT_EQ(Read(*stream, beside), Bytes(host)) << bytes;
  }
}

TEST_P(DeviceConformance, KeepsTheHostsBufferUntilItIsCopied) {
  auto stream = NewStream();
  Buffer there = NewBuffer(*stream);
  {
    Buffer host = HostBuffer(6);
    stream->Copy(host, there);
  }
  EXPECT_THAT(Read(*stream, there), Each(6));
}

TEST_P(DeviceConformance, WhatIsCapturedRunsAgain) {
  auto stream = NewStream(), other = NewStream();
  Buffer from = NewBuffer(*stream), to = NewBuffer(*stream);
  Fill(*stream, from, 1);
  if (!stream->BeginCapture()) {
    EXPECT_FALSE(stream->EndCapture().ok());
    GTEST_SKIP() << "the device captures nothing";
  }
  Fill(*stream, from, 2);
  stream->Copy(from, to);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CapturedWork> work, stream->EndCapture());
  EXPECT_THAT(Read(*stream, to), Each(2));  // It has run, too.
  Fill(*stream, from, 3);
  Fill(*stream, to, 4);
  EXPECT_THAT(Read(*stream, to), Each(4));
  stream->Replay(*work);
  EXPECT_THAT(Read(*stream, to), Each(2));
  EXPECT_THAT(Read(*stream, from), Each(2));

  Fill(*stream, to, 5);
  other->Wait(stream->Record());
  other->Replay(*work);
  EXPECT_THAT(Read(*other, to), Each(2));
  stream->Wait(other->Record());  // Where the memory goes back.
}

TEST_P(DeviceConformance, ACopyToPinnedMemoryWaitsForNothing) {
  auto stream = NewStream();
  Buffer there = NewBuffer(*stream, 4096);
  Fill(*stream, there, 7);
  Buffer host(stream->TakePinned(4096));  // Before the gate: to pin memory may wait.
  if (!host) GTEST_SKIP() << "the device has none";
  {
    auto gate = Close(*stream);
    EXPECT_FALSE(host.on_device());
    EXPECT_EQ(host.bytes(), 4096u);
    stream->Copy(there, host);
    EXPECT_FALSE(stream->Record()->Done());
  }
  EXPECT_OK(stream->Record()->Await(Soon()));
  EXPECT_THAT(Bytes(host), Each(7));
}

// A block that is dropped before it has been written is the next one's.
TEST_P(DeviceConformance, PinnedMemoryIsFreedInTheOrderOfItsStream) {
  auto stream = NewStream();
  Buffer first = NewBuffer(*stream, 1 << 20), second = NewBuffer(*stream, 1 << 20);
  Fill(*stream, first, 1);
  Fill(*stream, second, 2);
  for (int i = 0; i < 20; ++i) {
    if (BufferBlock* const block = stream->TakePinned(1 << 20)) {
      Buffer dropped(block);
      stream->Copy(first, dropped);
    }
    BufferBlock* const block = stream->TakePinned(1 << 20);
    if (block == nullptr) GTEST_SKIP() << "the device has none";
    Buffer host(block);
    stream->Copy(second, host);
    EXPECT_OK(stream->Record()->Await(Soon()));
    EXPECT_THAT(Bytes(host), Each(2));
  }
}

TEST_P(DeviceConformance, CopiesNothing) {
  auto stream = NewStream();
  Buffer there = NewBuffer(*stream, 0);
  Buffer host = HostBuffer(0, 0);
  stream->Copy(host, there);
  EXPECT_OK(stream->Record()->Await(Soon()));
  EXPECT_EQ(there.bytes(), 0u);
}

TEST_P(DeviceConformance, ACopyBetweenSizesFailsTheStream) {
  auto stream = NewStream();
  Buffer small = NewBuffer(*stream, 8), large = NewBuffer(*stream, 16);
  Fill(*stream, small, 1);
  stream->Copy(small, large);
  EXPECT_THAT(stream->Record()->Await(Soon()), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        HasSubstr("sizes differ: src=8 dst=16")));
}

TEST_P(DeviceConformance, MemoryIsFreedInTheOrderOfItsStream) {
  auto stream = NewStream();
  std::vector<Buffer> seen;
  {
    auto gate = Close(*stream);
    for (int i = 0; i < 30; ++i) {
      Buffer passing = NewBuffer(*stream);
      Fill(*stream, passing, i);
      seen.push_back(NewBuffer(*stream));
      stream->Copy(passing, seen.back());
    }  // Dropped while the fill and the copy are pending; the next may get the same memory.
  }
  for (int i = 0; i < 30; ++i) EXPECT_THAT(Read(*stream, seen[i]), Each(i));
}

TEST_P(DeviceConformance, MemoryUsedElsewhereIsFreedAfterThat) {
  auto home = NewStream(), other = NewStream();
  std::vector<Buffer> seen;
  for (int i = 0; i < 20; ++i) {
    Buffer passing = NewBuffer(*home);
    Fill(*home, passing, i);
    other->Wait(home->Record());
    seen.push_back(NewBuffer(*other));
    other->Copy(passing, seen.back());
    home->Wait(other->Record());
  }
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Read(*other, seen[i]), Each(i));
}

TEST_P(DeviceConformance, MemoryOutlivesItsStream) {
  auto stream = NewStream(), other = NewStream();
  Buffer value = NewBuffer(*stream);
  Fill(*stream, value, 8);
  other->Wait(stream->Record());
  stream.reset();
  EXPECT_THAT(Read(*other, value), Each(8));
}

TEST_P(DeviceConformance, AllocationBeyondMemoryIsAnError) {
  auto stream = NewStream();
  EXPECT_THAT(device().allocator().Allocate(size_t{1} << 60, stream.get()),
              StatusIs(absl::StatusCode::kResourceExhausted));
  Buffer value = NewBuffer(*stream);
  Fill(*stream, value, 2);
  EXPECT_THAT(Read(*stream, value), Each(2));
}

TEST_P(DeviceConformance, MemoryIsOfAStreamOfItsDevice) {
  auto other = NewCpuDevice(ProcessAllocator());
  const auto others = other->NewStream().value();
  for (Stream* stream : {static_cast<Stream*>(nullptr), others.get()}) {
    auto block = device().allocator().Allocate(kBytes, stream);
    if (device().kind() == DeviceKind::kCpu) {  // The host's is there whatever the stream.
      const Buffer buffer(block.value());
      EXPECT_FALSE(buffer.on_device());
    } else {
      EXPECT_THAT(block, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stream")));
    }
  }
  auto stream = NewStream();
  EXPECT_EQ(NewBuffer(*stream).on_device(), device().kind() != DeviceKind::kCpu);
}

TEST_P(DeviceConformance, ARecordedStreamDoesWhatTheOneBehindItDoes) {
  auto stream = NewStream(), other = NewStream();
  auto recorder = std::make_shared<TimelineRecorder>();
  auto recorded = RecordStream(*stream, recorder, "stream");
  Buffer value = NewBuffer(*other), copy = NewBuffer(*recorded);
  {
    auto gate = Close(*other);
    Fill(*other, value, 5);
    recorder->SetStep(recorder->TextOf("waits"), 0);
    recorded->Wait(other->Record());
    recorder->SetStep(recorder->TextOf("copies"), 0);
    recorded->Copy(value, copy);
  }
  recorder->SetStep(recorder->TextOf("reads"), 0);
  EXPECT_THAT(Read(*recorded, copy), Each(5));
  std::atomic<bool> told{false};
  recorded->Then([&](const absl::Status&) { told = true; });
  ASSERT_OK(recorded->Record()->Await(Soon()));
  while (!told) absl::SleepFor(absl::Milliseconds(1));
  other->Wait(recorded->Record());  // Which has read its memory.
  const auto timeline = recorder->Finish();
  std::vector<std::string> spans;
  for (const Timeline::Span& span : timeline->spans) {
    spans.push_back(absl::StrCat(timeline->texts[span.name], ": ", timeline->texts[span.detail]));
    EXPECT_EQ(timeline->tracks[span.track], "stream");
    EXPECT_LE(span.begin, span.end);
  }
  const bool on_device = device().kind() != DeviceKind::kCpu;  // Else all memory is the host's.
  EXPECT_THAT(spans,
              ::testing::ElementsAre("waits: what another stream has to do before",
                                     on_device ? "copies: to the device" : "copies: to the host",
                                     "reads: to the host"));
}

TEST_P(DeviceConformance, CallsTheHostInOrderAndAfterTheWork) {
  auto stream = NewStream();
  Buffer value = NewBuffer(*stream), host = HostBuffer(0);
  std::vector<int> order;
  std::atomic<int> called{0};
  {
    auto gate = Close(*stream);
    Fill(*stream, value, 3);
    for (int i = 0; i < 10; ++i) {
      stream->Then([&order, &called, i](const absl::Status& status) {
        EXPECT_OK(status);
        order.push_back(i);
        ++called;
      });
    }
    EXPECT_EQ(called, 0);
  }
  EXPECT_OK(stream->Record()->Await(Soon()));
  while (called < 10) absl::SleepFor(absl::Microseconds(100));
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_P(DeviceConformance, TellsTheHostOfAFailureAndMayDropMemoryThere) {
  auto stream = NewStream();
  auto value = std::make_unique<Buffer>(NewBuffer(*stream));
  stream->Launch({}, [] { return absl::AbortedError("no"); });
  std::atomic<bool> called{false};
  stream->Then([&called, value = std::move(value)](const absl::Status& status) mutable {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
    value.reset();
    called = true;
  });
  EXPECT_THAT(stream->Record()->Await(Soon()), StatusIs(absl::StatusCode::kAborted));
  while (!called) absl::SleepFor(absl::Microseconds(100));
}

TEST_P(DeviceConformance, RunsWhatADestroyedStreamHad) {
  auto home = NewStream();
  Buffer value = NewBuffer(*home);
  auto stream = NewStream();
  stream->Wait(home->Record());
  EventRef event;
  {
    auto gate = Close(*home);
    stream->Wait(home->Record());
    Fill(*stream, value, 4);
    event = stream->Record();
    stream.reset();
  }
  home->Wait(event);
  EXPECT_THAT(Read(*home, value), Each(4));
}

TEST_P(DeviceConformance, ManyThreadsUseOneDevice) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      auto stream = NewStream();
      for (int i = 0; i < 20; ++i) {
        Buffer value = NewBuffer(*stream, 256);
        Fill(*stream, value, t * 20 + i);
        EXPECT_THAT(Read(*stream, value), Each(t * 20 + i));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, ::testing::ValuesIn(DeviceCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace formwork::testing
