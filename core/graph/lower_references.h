#pragma once

// Reference variables of older graphs (VariableV2, Assign, ApplyAdam) as variables behind handles.

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"
#include "core/ops/op_def.h"
#include "formwork/tf/graph.pb.h"

namespace formwork {

/// The nodes of one body without reference variables. An op on references is its resource form on
/// the variables' handles, behind the ops that it has the references from. Where a reference is
/// used as a value a ReadVariableOp stands, which runs when the node that uses it could: behind
/// all that this node waits for. Into branches and loops (RefSwitch, RefEnter) handles are given;
/// what comes out of them (RefMerge, RefExit) are values. Nodes that are added have a '#' in their
/// names, which TensorFlow's have not. What passes references on in other ways (RefSelect) stays as
/// it is, and so do ops that it gives them to: the import tells of these.
class LoweredReferences {
 public:
  using NodeDefs = google::protobuf::RepeatedPtrField<tf::NodeDef>;

  /// `fed`: nodes whose output 0 has its value from elsewhere. `defs` and `ops` are to live as long
  /// as this. Where the thread's work is cut the nodes are of no use.
  LoweredReferences(const NodeDefs& defs, HashSet<std::string> fed, const OpRegistry& ops);

  /// The given ones, where none is a reference variable.
  const NodeDefs& defs() const { return lowered_.empty() ? given_ : lowered_; }
  /// What has the value of the tensor `text`: the same text, where it is no reference.
  std::string ValueOf(absl::string_view text) const;

 private:
  // What output 0 of a node refers to, and of a RefSwitch the other one too.
  struct Reference {
    const tf::NodeDef* variable;
    bool changed;        // The node has an effect on it: what uses the reference comes behind.
    std::string handle;  // Of a RefSwitch: without the side.
  };

  void FindReferences();
  const Reference* Find(absl::string_view text) const;
  // The handle of what the tensor `text` refers to.
  std::string HandleAt(absl::string_view text, const Reference& reference) const;
  void LowerVariable(const tf::NodeDef& def);
  void Lower(const tf::NodeDef& def);
  void LowerMerge(const tf::NodeDef& def);
  tf::NodeDef& Read(const std::string& name, const Reference& reference, std::string handle);

  const NodeDefs& given_;
  const HashSet<std::string> fed_;
  const OpRegistry& ops_;
  HashMap<std::string, Reference> references_;  // By node.
  HashSet<std::string> switches_;               // Nodes of two outputs.
  // Variables that an Assign may give another shape than was declared.
  HashSet<std::string> reshaped_;
  NodeDefs lowered_;
};

}  // namespace formwork
