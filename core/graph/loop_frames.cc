#include "core/graph/loop_frames.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {}  // namespace

int LoopFrames::out_of(int node) const {
  if (body_.kind(node) == FlowKind::kExit) return std::max(0, frames_[frame_of_[node]].parent);
  const auto found = entered_.find(node);
  return found == entered_.end() ? frame_of_[node] : found->second;
}

absl::StatusOr<int> LoopFrames::EnteredBy(int node) {
  const tf::NodeDef& def = body_.def(node);
  const auto name = def.attr().find("frame_name");
  if (name == def.attr().end())
    return FlowProblem(absl::StatusCode::kInvalidArgument, def, "attr 'frame_name' is missing");
  const int parent = frame_of_[node];
  const int made = static_cast<int>(frames_.size());
  const auto [found, added] = by_name_.try_emplace({parent, name->second.s()}, made);
  if (!added) return found->second;
  const int depth = frames_[parent].depth + 1;
  if (depth > kMostNested) {
    return FlowProblem(absl::StatusCode::kUnimplemented, def,
                       absl::StrCat("loops that lie in more than ", kMostNested, " others"));
  }
  frames_.push_back({parent, depth, parent == 0 ? made : frames_[parent].top});
  return made;
}

absl::Status LoopFrames::Find() {
  const std::vector<int> order = body_.Order();
  for (size_t i = 0; i < order.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return WorkStatus();
    const int node = order[i];
    int deepest = 0;
    for (const bool check : {false, true}) {
      for (const FlowInput& input : body_.inputs(node)) {
        if (input.node < 0) continue;
        // What it gives back comes later, and is of its Merge's frame.
        if (body_.kind(input.node) == FlowKind::kNextIteration) continue;
        int around = out_of(input.node);
        if (!check) {
          if (frames_[around].depth > frames_[deepest].depth) deepest = around;
          continue;
        }
        int frame = deepest;
        while (frames_[frame].depth > frames_[around].depth) frame = frames_[frame].parent;
        if (frame != around) {
          return FlowProblem(absl::StatusCode::kInvalidArgument, body_.def(node),
                             "its inputs are of different loops");
        }
      }
    }
    frame_of_[node] = deepest;
    if (body_.kind(node) == FlowKind::kExit && deepest == 0) {
      return FlowProblem(absl::StatusCode::kInvalidArgument, body_.def(node),
                         "it stands in no loop");
    }
    if (body_.kind(node) == FlowKind::kEnter) {
      FORMWORK_ASSIGN_OR_RETURN(entered_[node], EnteredBy(node));
    }
  }
  return absl::OkStatus();
}

}  // namespace formwork
