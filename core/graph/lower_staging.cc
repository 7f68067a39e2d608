#include "core/graph/lower_staging.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// Between two looks at the StopFlag: nodes, which take a few microseconds each.
constexpr int64_t kNodesBetweenLooks = 64;

// Those of a map that is ordered do what the others do: these are ordered, too.
absl::string_view Unordered(absl::string_view op) { return absl::StripPrefix(op, "Ordered"); }

bool IsOnStagingArea(absl::string_view op) {
  constexpr absl::string_view kOps[] = {
      "MapClear",   "MapIncompleteSize", "MapPeek",         "MapSize",
      "MapStage",   "MapUnstage",        "MapUnstageNoKey", "Stage",
      "StageClear", "StagePeek",         "StageSize",       "Unstage"};
  return std::binary_search(std::begin(kOps), std::end(kOps), Unordered(op));
}

}  // namespace

LoweredStaging::LoweredStaging(const NodeDefs& defs, const HashSet<std::string>& fed)
    : given_(defs) {
  const auto is_lowered = [&fed](const tf::NodeDef& def) {
    return IsOnStagingArea(def.op()) && !fed.contains(def.name());
  };
  if (std::none_of(defs.begin(), defs.end(), is_lowered)) return;
  for (int i = 0; i < defs.size() && !WorkIsCutAt(i, kNodesBetweenLooks); ++i) {
    const tf::NodeDef& def = defs.Get(i);
    tf::NodeDef& made = *lowered_.Add();
    made = def;
    if (!is_lowered(def)) continue;
    const absl::string_view op = Unordered(def.op());
    made.set_op(absl::StrCat("_", op));
    made.clear_input();
    made.add_input(absl::StrCat(def.name(), "#area"));
    for (const std::string& input : def.input()) made.add_input(input);
    tf::NodeDef& area = *lowered_.Add();
    area.set_name(absl::StrCat(def.name(), "#area"));
    area.set_op(absl::StartsWith(op, "Map") ? "_StagingMap" : "_StagingArea");
    auto& attrs = *area.mutable_attr();
    for (const char* name : {"container", "shared_name"}) {
      const auto given = made.attr().find(name);
      if (given == made.attr().end()) continue;
      attrs[name] = given->second;
      made.mutable_attr()->erase(name);
    }
    if (attrs["shared_name"].s().empty()) attrs["shared_name"].set_s(def.name());
  }
}

}  // namespace formwork
