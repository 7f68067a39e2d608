#include "tests/support/timeline_text.h"

#include "absl/strings/str_cat.h"

namespace formwork::testing {
namespace {

absl::string_view KindText(Timeline::Kind kind) {
  constexpr absl::string_view kTexts[] = {"phase", "step", "call", "lanes",
                                          "work",  "copy", "wait", "suspended"};
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace

std::string TimelineText(const Timeline& timeline) {
  std::string text;
  for (size_t track = 0; track < timeline.tracks.size(); ++track) {
    absl::StrAppend(&text, timeline.tracks[track], "\n");
    std::vector<int64_t> ends;  // Of the spans that the next one may be in.
    for (const Timeline::Span& span : timeline.spans) {
      if (span.track != track) continue;
      while (!ends.empty() && ends.back() <= span.begin) ends.pop_back();
      const bool overlaps = !ends.empty() && ends.back() < span.end;
      ends.push_back(span.end);
      const std::string& op = timeline.texts.at(span.op);
      const std::string& detail = timeline.texts.at(span.detail);
      absl::StrAppend(&text, std::string(2 * ends.size(), ' '), KindText(span.kind), " ");
      if (span.kind == Timeline::Kind::kPhase) {
        absl::StrAppend(&text, timeline.texts.at(span.name));
      } else {
        absl::StrAppend(&text, "'", timeline.texts.at(span.name), "'");
      }
      absl::StrAppend(&text, op.empty() ? "" : " ", op, detail.empty() ? "" : ": ", detail,
                      overlaps ? " OVERLAPS" : "", span.end < span.begin ? " BACKWARDS" : "", "\n");
    }
  }
  return text;
}

}  // namespace formwork::testing
