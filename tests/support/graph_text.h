#pragma once

// Graphs as text: GraphDefs to import, and what became of them.
//
//   x = Placeholder dtype=float
//   c = Const float[2] 1 2
//   y = AddV2(x, c) T=float
//   p = PrintV2(s, ^y)                       "^y": runs after y
//   z = PartitionedCall(y) f=@twice Tin=[float] Tout=[float]
//   function twice(a: float) -> (r: float = m:z:0) runs(q)
//     m = AddV2(a, a) T=float
//     q = NoOp
//   end
//
// An attr's value is a dtype (float), true, false, a number (2 is an int, 2.0 a float), "text",
// @function, shape:[2,?] (shape:? of unknown rank), a tensor as op cases write it (float[2] 1 2)
// in parentheses, or a list [a, b] of these; device="/CPU:0" is the node's device field. "#" begins
// a comment line.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "formwork/tf/graph.pb.h"

namespace formwork::testing {

/// Errors: kInvalidArgument naming the line.
absl::StatusOr<tf::GraphDef> ParseGraph(absl::string_view text);

/// The message of a value of plain data or strings.
tf::TensorProto ToProto(const Tensor& tensor);

/// A line for each node in the order of the list, then the results. Of attrs, what differs from
/// their defaults, types left out; ":0" is left out too.
///
///   x = Arg float
///   y = MatMul(x, w:1) transpose_a=true
///   -> y
std::string ToText(const Graph& graph);

}  // namespace formwork::testing
