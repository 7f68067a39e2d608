#pragma once

// The loops of older graphs (Enter, Exit), and what lies in them.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/flow_body.h"

namespace formwork {

/// In which frame each node of a body runs: a loop that Enters lead into, by TensorFlow's name for
/// it. Frame 0 is the body itself.
class LoopFrames {
 public:
  explicit LoopFrames(const FlowBody& body) : body_(body), frame_of_(body.size()) {}

  struct Frame {
    int parent;
    int depth;
    int top;  ///< The one around it that lies in frame 0.
  };

  /// Errors: kInvalidArgument and kUnimplemented naming a node; those of the thread's StopFlag.
  absl::Status Find();
  const std::vector<Frame>& all() const { return frames_; }
  int of(int node) const { return frame_of_[node]; }
  int top_of(int node) const { return frames_[frame_of_[node]].top; }
  /// The one that a node's outputs are in.
  int out_of(int node) const;

 private:
  absl::StatusOr<int> EnteredBy(int node);

  const FlowBody& body_;
  std::vector<Frame> frames_{{-1, 0, 0}};
  std::vector<int> frame_of_;
  HashMap<int, int> entered_;  // By Enter.
  HashMap<std::pair<int, std::string>, int> by_name_;
};

}  // namespace formwork
