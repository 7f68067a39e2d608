#pragma once

// State that ops name by their attrs (Stage, AddSparseToTensorsMap), or by a reference (HashTable),
// as resources behind handles.

#include <string>

#include "core/base/hash_map.h"
#include "formwork/tf/node_def.pb.h"

namespace formwork {

/// The nodes of one body with a handle in front of each op on such state. An op on a staging area
/// is the op of that name with a '_' before it then. Of the maps of sparse tensors only what is in
/// them is left to ops on handles: tensors go in as SerializeSparse makes them, and
/// DeserializeSparse makes tensors of what comes out. An op on a table by reference is its V2.
/// Nodes that are added have a '#' in their names, which TensorFlow's have not.
class LoweredNamedState {
 public:
  using NodeDefs = google::protobuf::RepeatedPtrField<tf::NodeDef>;

  /// `fed`: nodes that are not run. `defs` is to live as long as this. Where the thread's work is
  /// cut the nodes are of no use.
  LoweredNamedState(const NodeDefs& defs, const HashSet<std::string>& fed);

  /// The given ones, where none names state.
  const NodeDefs& defs() const { return lowered_.empty() ? given_ : lowered_; }

 private:
  void Lower(const tf::NodeDef& def);
  // Adds a node `part` of `def`'s. The reference holds until the next one is added.
  tf::NodeDef& Add(const tf::NodeDef& def, const char* part, const char* op);

  const NodeDefs& given_;
  NodeDefs lowered_;
};

}  // namespace formwork
