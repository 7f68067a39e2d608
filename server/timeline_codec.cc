#include "server/timeline_codec.h"

#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/base/utf8.h"
#include "formwork/v1/timelines.pb.h"
#include "server/parsed_message.h"

namespace formwork::server {
namespace {

static_assert(static_cast<int>(Timeline::Kind::kSuspended) == v1::Timeline::KIND_SUSPENDED);
static_assert(v1::Timeline::Kind_ARRAYSIZE == v1::Timeline::KIND_SUSPENDED + 1);

std::string Encode(const Timeline& timeline) {
  ArenaMessage<v1::Timeline> message;
  message->set_start_ns(absl::ToUnixNanos(timeline.start));
  for (const std::string& text : timeline.texts) message->add_texts(ToValidUtf8(text));
  for (const std::string& track : timeline.tracks) message->add_tracks(ToValidUtf8(track));
  message->mutable_spans()->Reserve(static_cast<int>(timeline.spans.size()));
  for (const Timeline::Span& span : timeline.spans) {
    v1::Timeline::Span* to = message->add_spans();
    to->set_kind(static_cast<v1::Timeline::Kind>(span.kind));
    to->set_track(span.track);
    to->set_name(span.name);
    to->set_op(span.op);
    to->set_detail(span.detail);
    to->set_begin_ns(static_cast<uint64_t>(span.begin));
    to->set_duration_ns(static_cast<uint64_t>(span.end - span.begin));
    to->set_bytes(span.bytes);
  }
  message->set_left_out(timeline.left_out);
  return message->SerializeAsString();
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
