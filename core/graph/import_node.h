#pragma once

// Imports one node: its op, attrs and the types that they give its inputs and outputs.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/graph/import_body.h"
#include "core/graph/input_name.h"
#include "formwork/tf/function.pb.h"
#include "formwork/tf/node_def.pb.h"

namespace formwork {

struct ImportedNode {
  Node node;                        ///< Without inputs, which need the other nodes.
  const OpDef* given_op = nullptr;  ///< As the graph has it: what its outputs are called.
  std::vector<int> output_starts;   ///< First output of each output arg.
  /// The names of a function's outputs, where it is used as an op; else the op's are meant.
  std::vector<std::string> output_names;
};

/// Fills `out`. False where that failed: then it is reported, `where` before the node's name.
bool ImportNode(const tf::NodeDef& def, absl::string_view where, ImportScope& scope,
                ImportedNode& out);

/// The dtypes of all inputs. Errors: kInvalidArgument naming the attr that is out of range.
absl::StatusOr<std::vector<DType>> InputDTypes(const Node& node);

/// The dtypes of a def's outputs, of which nothing else is looked at. Errors: kNotFound where its
/// op is unknown; else those of its attrs.
absl::StatusOr<std::vector<DType>> OutputDTypes(const tf::NodeDef& def, const ImportScope& scope);

/// The dtype of one of them, also of a call of a function by its name. Errors: also
/// kInvalidArgument where it has no such output.
absl::StatusOr<DType> OutputDType(const tf::NodeDef& def, const InputName& name,
                                  const ImportScope& scope);

/// Makes a RemoteCall or a BatchFunction, which has all of its inputs, of dtypes `inputs`, a call:
/// the device that a RemoteCall's input 0 names is one of the machine on which it was traced, and a
/// function that may be run on many callers' rows at once gives each the same as alone. Others stay
/// as they are.
void CallHere(const ImportScope& scope, Node& node, std::vector<DType>& inputs);

/// Whether the functions that `node` names take what it gives them, inputs of dtypes `inputs`, and
/// give what it gives on. Errors: kInvalidArgument naming the first function that does not.
absl::Status CheckCallees(const Node& node, absl::Span<const DType> inputs,
                          const ImportScope& scope);

}  // namespace formwork
