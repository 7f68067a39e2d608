#include "server/timeline_codec.h"

#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "server/utf8.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

// formwork.v1.Timeline's fields.
constexpr uint32_t kStart = 1;
constexpr uint32_t kTexts = 2;
constexpr uint32_t kTracks = 3;
constexpr uint32_t kSpans = 4;
constexpr uint32_t kLeftOut = 5;

// About what a span takes.
constexpr size_t kSpanBytes = 24;

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

void AppendNumber(uint32_t field, uint64_t value, std::string& to) {
  if (value == 0) return;
  AppendVarint(MakeTag(field, WireType::kVarint), to);
  AppendVarint(value, to);
}

void AppendBytes(uint32_t field, absl::string_view bytes, std::string& to) {
  AppendVarint(MakeTag(field, WireType::kBytes), to);
  AppendVarint(bytes.size(), to);
  to.append(bytes.data(), bytes.size());
}

std::string Encode(const Timeline& timeline) {
  std::string encoded;
  encoded.reserve(timeline.spans.size() * kSpanBytes);
  AppendNumber(kStart, static_cast<uint64_t>(absl::ToUnixNanos(timeline.start)), encoded);
  for (const std::string& text : timeline.texts) AppendBytes(kTexts, ToValidUtf8(text), encoded);
  for (const std::string& track : timeline.tracks) {
    AppendBytes(kTracks, ToValidUtf8(track), encoded);
  }
  std::string one;
  for (const Timeline::Span& span : timeline.spans) {
    one.clear();
    // Timeline.Span's fields, in their order.
    AppendNumber(1, static_cast<uint64_t>(span.kind), one);
    AppendNumber(2, span.track, one);
    AppendNumber(3, span.name, one);
    AppendNumber(4, span.op, one);
    AppendNumber(5, span.detail, one);
    AppendNumber(6, static_cast<uint64_t>(span.begin), one);
    AppendNumber(7, static_cast<uint64_t>(span.end - span.begin), one);
    AppendNumber(8, span.bytes, one);
    AppendBytes(kSpans, one, encoded);
  }
  AppendNumber(kLeftOut, timeline.left_out, encoded);
  return encoded;
}

}  // namespace

std::string EncodeTimeline(const Timeline& timeline) {
  std::string encoded;
  (void)CatchOutOfMemory([&] {
    encoded = Encode(timeline);
    return absl::OkStatus();
  });
  return encoded;
}

}  // namespace formwork::server
