#pragma once

// From the bytes of a GraphDef to a checked Graph and the functions it reaches.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "formwork/tf/graph.pb.h"

namespace formwork {

/// What is asked of a graph. All names are graph tensors ("node:0"; "node" is output 0) but the
/// targets, which are nodes.
struct Cut {
  /// Parameters, in order: what is fed and the dtype of it.
  std::vector<std::pair<std::string, DType>> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  /// By feed, of handles: what Node::distinct says. Shorter: it does not hold of the rest.
  std::vector<bool> distinct = {};
  /// Of the device that it is for, as TensorFlow's device names have it: "CPU", "GPU".
  std::string device_type = "CPU";
};

struct ImportedGraph {
  std::shared_ptr<const Graph> graph;
  GraphLibrary library;            ///< Every function that the graph reaches, transitively.
  std::vector<std::string> order;  ///< Their names, those that are called before their callers.
  /// What the reached nodes' device fields name, each once, sorted; of very many some.
  std::vector<std::string> devices;
  /// The library as a serialized FunctionDefLibrary, where kernels run functions of it; else null.
  std::shared_ptr<const std::string> definitions;
};

/// Imports what the fetches and targets reach; the rest of the GraphDef is not looked at, except
/// that node names must be unique. `culprits` (may be null) receives every problem; the status text
/// names the first 20.
/// Errors: kInvalidArgument if a node, edge, attr, type or function is wrong, if there is a cycle
/// or a recursive function; kUnimplemented if ops are reached that the registry lacks; kCancelled
/// and kDeadlineExceeded of the thread's StopFlag.
absl::StatusOr<ImportedGraph> ImportGraph(const tf::GraphDef& graph_def, const Cut& cut,
                                          const OpRegistry& ops, Allocator& allocator,
                                          std::vector<std::string>* culprits);

/// Errors: kInvalidArgument if the bytes are no GraphDef.
absl::Status ParseGraphDef(absl::string_view bytes, tf::GraphDef& graph_def);

}  // namespace formwork
