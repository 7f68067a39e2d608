#pragma once

// Imports one body: the main graph's cut, or a function of the library.

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/hash_map.h"
#include "core/graph/graph.h"
#include "core/graph/import.h"
#include "core/graph/import_problems.h"
#include "formwork/tf/function.pb.h"
#include "formwork/tf/graph.pb.h"

namespace formwork {

/// What the bodies of one import share.
struct ImportScope {
  const OpRegistry& ops;
  Allocator& allocator;
  HashMap<std::string, const tf::FunctionDef*> functions;
  HashMap<std::string, std::string> gradients;  ///< What the library says is whose gradient.
  ImportProblems problems;
  /// Names of functions that reached nodes call; filled while bodies are imported.
  std::vector<std::string> called;
  std::set<std::string> devices;  ///< Of reached nodes.
  int64_t num_outputs = 0;        ///< Of all nodes so far.
  int64_t expanded_bytes = 0;     ///< Of constants so far, beyond what was sent for them.
  /// Functions that the import makes of loops and branches; `functions` has them too.
  std::deque<tf::FunctionDef> made;
};

std::shared_ptr<const Graph> ImportCut(const tf::GraphDef& graph_def, const Cut& cut,
                                       ImportScope& scope);
std::shared_ptr<const Graph> ImportFunction(const tf::FunctionDef& function, ImportScope& scope);

}  // namespace formwork
