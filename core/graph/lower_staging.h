#pragma once

// Staging areas (Stage, MapUnstage), which ops name by their attrs, as resources behind handles.

#include <string>

#include "core/base/hash_map.h"
#include "formwork/tf/node_def.pb.h"

namespace formwork {

/// The nodes of one body with a handle (_StagingArea) in front of each op on a staging area, which
/// is the op of that name with a '_' before it then. Nodes that are added have a '#' in their
/// names, which TensorFlow's have not.
class LoweredStaging {
 public:
  using NodeDefs = google::protobuf::RepeatedPtrField<tf::NodeDef>;

  /// `fed`: nodes that are not run. `defs` is to live as long as this. Where the thread's work is
  /// cut the nodes are of no use.
  LoweredStaging(const NodeDefs& defs, const HashSet<std::string>& fed);

  /// The given ones, where none is on a staging area.
  const NodeDefs& defs() const { return lowered_.empty() ? given_ : lowered_; }

 private:
  const NodeDefs& given_;
  NodeDefs lowered_;
};

}  // namespace formwork
