// The C++ client's codec against the server's: what one writes the other reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/device/host_allocator.h"
#include "formwork/client.h"
#include "formwork/message_codec.h"
#include "server/answer_parts.h"
#include "server/call_codec.h"
#include "tests/support/status_matchers.h"

namespace formwork::client {
namespace {

TEST(ClientCodec, TheServerReadsACallAsItWasAsked) {
  CallRequest request;
  request.name = "step";
  request.inputs = {Tensor::Of<float>({2}, {1.5f, -2.0f}), ResourceId{17}, KeptTensor{18}};
  request.keep_outputs = true;
  request.keep_from = 2;
  request.keep_for = absl::Milliseconds(1500);
  request.timeout = absl::Milliseconds(2500);
  request.call_id = 300;
  request.timeline = true;
  Origin origin;
  const NumberedRequest first(origin);
  const NumberedRequest second(origin);
  server::DecodedCall call;
  ASSERT_OK(server::DecodeCallRequest(EncodeCall(request, "training", second), ProcessAllocator(),
                                      &call));
  const CallSpec& spec = call.spec;
  EXPECT_EQ(spec.name_space, "training");
  EXPECT_EQ(spec.request.client, origin.client_id());
  EXPECT_EQ(spec.request.sequence, 2u);
  EXPECT_EQ(spec.request.acknowledged, 0u);
  EXPECT_EQ(spec.function.id, 0u);
  EXPECT_EQ(spec.function.name, "step");
  EXPECT_TRUE(spec.keep_outputs);
  EXPECT_TRUE(spec.timeline);
  EXPECT_EQ(spec.keep_from, 2u);
  EXPECT_EQ(spec.kept_ttl, absl::Milliseconds(1500));
  EXPECT_EQ(call.timeout, absl::Milliseconds(2500));
  EXPECT_EQ(call.call_id, 300u);
  ASSERT_EQ(spec.inputs.size(), 3u);
  EXPECT_EQ(spec.inputs[0].tensor.span<float>()[1], -2.0f);
  EXPECT_EQ(spec.inputs[1].kind, Argument::Kind::kResource);
  EXPECT_EQ(spec.inputs[1].id, 17u);
  EXPECT_EQ(spec.inputs[2].kind, Argument::Kind::kKeptTensor);
  EXPECT_EQ(spec.inputs[2].id, 18u);
}

TEST(ClientCodec, NothingIsKeptWhereNothingIsSaid) {
  CallRequest request;
  request.function_id = 7;
  Origin origin;
  origin.End(origin.Begin());
  const NumberedRequest number(origin);
  server::DecodedCall call;
  ASSERT_OK(
      server::DecodeCallRequest(EncodeCall(request, "ns", number), ProcessAllocator(), &call));
  EXPECT_EQ(call.spec.request.acknowledged, 1u);
  EXPECT_EQ(call.spec.function.id, 7u);
  EXPECT_FALSE(call.spec.keep_outputs);
  EXPECT_FALSE(call.spec.timeline);
  EXPECT_EQ(call.spec.keep_from, 0u);
  EXPECT_EQ(call.spec.kept_ttl, absl::ZeroDuration());
  EXPECT_EQ(call.timeout, std::nullopt);
}

CallResult ResultWithTimeline(int steps = 2) {
  TimelineRecorder recorder;
  recorder.BeginPhase("run");
  for (int i = 0; i < steps; ++i) {
    const auto step = recorder.Open({.name = recorder.TextOf("dense/MatMul"),
                                     .op = recorder.TextOf("MatMul"),
                                     .track = recorder.TrackOf("lane 1"),
                                     .kind = Timeline::Kind::kStep});
    recorder.Close(step, recorder.TextOf("float32[2]"), 1 << 20);
  }
  recorder.CountLeftOut();
  CallResult result;
  result.timeline = recorder.Finish();
  result.outputs.resize(1);
  result.outputs[0].tensor = formwork::Tensor::Scalar(1.0f);
  return result;
}

void ExpectSame(const Timeline& sent, const v1::Timeline& received) {
  EXPECT_EQ(received.start_ns(), absl::ToUnixNanos(sent.start));
  EXPECT_THAT(received.texts(), ::testing::ElementsAreArray(sent.texts));
  EXPECT_THAT(received.tracks(), ::testing::ElementsAre("call", "lane 1"));
  EXPECT_EQ(received.left_out(), 1u);
  ASSERT_EQ(static_cast<size_t>(received.spans_size()), sent.spans.size());
  for (int i = 0; i < received.spans_size(); ++i) {
    const Timeline::Span& from = sent.spans[static_cast<size_t>(i)];
    const v1::Timeline::Span& span = received.spans(i);
    EXPECT_EQ(span.kind(), static_cast<v1::Timeline::Kind>(from.kind));
    EXPECT_EQ(span.track(), from.track);
    EXPECT_EQ(span.name(), from.name);
    EXPECT_EQ(span.op(), from.op);
    EXPECT_EQ(span.detail(), from.detail);
    EXPECT_EQ(span.begin_ns(), static_cast<uint64_t>(from.begin));
    EXPECT_EQ(span.duration_ns(), static_cast<uint64_t>(from.end - from.begin));
    EXPECT_EQ(span.bytes(), from.bytes);
  }
  EXPECT_EQ(received.spans(1).kind(), v1::Timeline::KIND_STEP);
  EXPECT_EQ(received.spans(1).bytes(), 1u << 20);
}

TEST(ClientCodec, ATimelineComesAsItWasRecorded) {
  CallResult result = ResultWithTimeline();
  result.status = absl::CancelledError("ended");  // Also beside an error.
  grpc::ByteBuffer message;
  ASSERT_OK(server::EncodeCallResponse(result, 1, 2, 1 << 20, &message));
  ASSERT_OK_AND_ASSIGN(const CallResponse response, DecodeCall(message));
  EXPECT_EQ(response.status.code(), absl::StatusCode::kCancelled);
  ASSERT_TRUE(response.timeline.has_value());
  ExpectSame(*result.timeline, *response.timeline);
}

TEST(ClientCodec, AnAnswerInPartsHasItsTimelineInTheLastOne) {
  CallResult result = ResultWithTimeline();
  const Timeline sent = *result.timeline;
  server::AnswerParts parts(1, 2, 64 << 20);
  parts.AddPrinted("text");
  ASSERT_OK_AND_ASSIGN(const CallResponse first, DecodeCall(parts.Next()));
  EXPECT_FALSE(first.timeline.has_value());
  parts.SetResult(std::move(result));
  ASSERT_OK_AND_ASSIGN(const CallResponse last, DecodeCall(parts.Next()));
  ASSERT_TRUE(last.timeline.has_value());
  ExpectSame(sent, *last.timeline);
  EXPECT_TRUE(parts.done());
}

TEST(ClientCodec, ATimelineThatThereIsNoRoomForIsLeftOut) {
  constexpr size_t kLimit = 4000;
  const CallResult result = ResultWithTimeline(1000);
  grpc::ByteBuffer message;
  ASSERT_OK(server::EncodeCallResponse(result, 1, 2, kLimit, &message));
  EXPECT_LE(message.Length(), kLimit);
  ASSERT_OK_AND_ASSIGN(const CallResponse response, DecodeCall(message));
  EXPECT_FALSE(response.timeline.has_value());
  EXPECT_EQ(response.outputs.size(), 1u);
  server::AnswerParts parts(1, 2, kLimit);
  parts.SetResult(ResultWithTimeline(1000));
  const grpc::ByteBuffer last = parts.Next();
  EXPECT_LE(last.Length(), kLimit);
  EXPECT_TRUE(parts.done());
}

TEST(ClientCodec, TheLargestTimelineIsBelowTwoMebibytes) {
  TimelineRecorder recorder;
  for (int i = 0; i < 100'000; ++i) {
    const auto step =
        recorder.Open({.name = recorder.TextOf(std::to_string(i)),
                       .op = 16'000,
                       .track = recorder.TrackOf(std::to_string(i)),
                       .kind = i % 2 == 0 ? Timeline::Kind::kStep : Timeline::Kind::kWait});
    recorder.Close(step, 16'000, uint64_t{1} << 40);
  }
  CallResult result;
  result.timeline = recorder.Finish();
  for (Timeline::Span& span : result.timeline->spans) span.end += int64_t{1} << 50;
  grpc::ByteBuffer message;
  ASSERT_OK(server::EncodeCallResponse(result, 1, 2, 1 << 30, &message));
  EXPECT_GT(message.Length(), size_t{1} << 19);
  EXPECT_LT(message.Length(), size_t{2} << 20);
}

}  // namespace
}  // namespace formwork::client
