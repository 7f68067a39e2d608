#pragma once

// TensorArrays of older graphs (TensorArrayV3, TensorArrayWriteV3) as TensorLists.

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/graph/flow_body.h"

namespace formwork {

/// The nodes of one body with lists in the place of tensor arrays. A tensor array is a resource,
/// and what orders its ops is a number without meaning that each takes and gives on, its flow: here
/// the flow is the list. Reading twice what is cleared when it is read, and writing twice, which
/// TensorFlow refuses, are not refused. Nodes that are made have a '#' in their names, which
/// TensorFlow's have not. Ops whose flow comes from elsewhere, and gradients of tensor arrays, stay
/// as they are: the import tells of these.
class LoweredTensorArrays {
 public:
  /// `nodes`, which are to live as long as this. Where the thread's work is cut the result is of no
  /// use.
  explicit LoweredTensorArrays(NodeList nodes);

  const NodeList& nodes() const { return nodes_; }
  /// What has the value of the tensor `text`.
  std::string ValueOf(const std::string& text) const;

 private:
  // What is the flow of a tensor array, or its handle: which node made that. By node and output; of
  // a node that takes a flow and gives none, output kTaken.
  using Flows = HashMap<std::pair<int, int>, int>;
  static constexpr int kTaken = -1;

  Flows FindFlows() const;
  // The array whose flow an op on tensor arrays takes, or which it makes; null where it stays.
  const tf::NodeDef* ArrayOf(int node, const Flows& flows) const;
  void Lower(int node, const Flows& flows);
  void LowerArray(const tf::NodeDef& def, tf::NodeDef& made);
  void LowerOp(const tf::NodeDef& def, const tf::NodeDef& array, tf::NodeDef& made);
  // Adds an input of the shape, `rows` with any number of rows.
  void AddShape(const tf::TensorShapeProto* shape, bool rows, tf::NodeDef& made);

  const NodeList given_;
  NodeList nodes_;
  HashMap<absl::string_view, int> index_;
  HashMap<std::string, bool> lowered_;  // By node: whether it has a second output.
  std::deque<tf::NodeDef> made_;
};

}  // namespace formwork
