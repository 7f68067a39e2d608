#pragma once

// What the lowering of loops and of branches shares (lower_control_flow.h): the nodes of a body
// with their inputs resolved, the functions that are made of some of them, and what changes.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"
#include "core/graph/import_body.h"
#include "formwork/tf/function.pb.h"
#include "formwork/tf/node_def.pb.h"

namespace formwork {

using NodeList = std::vector<const tf::NodeDef*>;
/// Tensors that have their values from elsewhere, by node and output.
using FlowParameters = HashMap<std::pair<std::string, int>, DType>;

/// Loops and branches that lie in each other.
inline constexpr int kMostNested = 64;

enum class FlowKind : uint8_t { kOther, kSwitch, kMerge, kEnter, kExit, kNextIteration, kLoopCond };
/// A kSwitch is a Switch or a _SwitchN, by an index.
FlowKind FlowKindOf(absl::string_view op);
/// How many outputs a node of control flow has that give its first input on.
int FlowOutputs(const tf::NodeDef& def);

struct FlowInput {
  int node = -1;   ///< Its place in the list; -1: a parameter, or nothing that is there.
  int output = 0;  ///< Of a Switch: the branch. Of a Merge, 1: which input it has its value from.
  bool control = false;
};

/// Refers to its nodes and parameters. Where the thread's work is cut it is of no use.
class FlowBody {
 public:
  FlowBody(NodeList nodes, const FlowParameters& parameters);

  int size() const { return static_cast<int>(nodes_.size()); }
  const tf::NodeDef& def(int node) const { return *nodes_[node]; }
  FlowKind kind(int node) const { return kinds_[node]; }
  /// In the order of the def's.
  const std::vector<FlowInput>& inputs(int node) const { return inputs_[node]; }
  /// The places of a node's inputs that are no control edges.
  std::vector<int> DataInputs(int node) const;
  FlowInput Resolve(absl::string_view text) const;
  /// The dtype of a tensor. Errors: kInvalidArgument.
  absl::StatusOr<DType> DTypeOf(absl::string_view text, const ImportScope& scope) const;
  /// Nodes behind what they have inputs from, whatever NextIterations give back aside; without
  /// those of other cycles.
  std::vector<int> Order() const;

 private:
  NodeList nodes_;
  const FlowParameters& parameters_;
  HashMap<absl::string_view, int> index_;
  std::vector<FlowKind> kinds_;
  std::vector<std::vector<FlowInput>> inputs_;
};

/// What lowering makes of a body.
struct FlowChanges {
  std::vector<bool> gone;                               ///< By node: it is not in the list.
  HashMap<int, const tf::NodeDef*> instead;             ///< By node: what stands in its place.
  HashMap<int, std::vector<const tf::NodeDef*>> ahead;  ///< By node: what stands before its place.
  /// By node that is gone and runs in another one's functions: that one.
  HashMap<std::string, std::string> runs_in;

  NodeList Apply(const FlowBody& body) const;
};

/// The attr `T` of a node. Errors: kInvalidArgument.
absl::StatusOr<DType> FlowType(const tf::NodeDef& def);
/// Of what the node does besides its outputs, as far as its op says.
Effect FlowEffect(const tf::NodeDef& def, const ImportScope& scope);
/// An error that names the node.
absl::Status FlowProblem(absl::StatusCode code, const tf::NodeDef& def, absl::string_view text);

/// The functions of one node of control flow that is to be made: their nodes, and what they take
/// from around it. Of each, parameter i is named ParameterName(i).
class FlowFunctions {
 public:
  /// What becomes of a node's input in a function.
  struct Taken {
    bool inside = false;  ///< The node that it is from is in the function too.
    std::string text;     ///< Else: the input there; empty: it has none.
  };
  using Boundary = std::function<absl::StatusOr<Taken>(const FlowInput&, const std::string& text)>;

  /// The parameters of all begin with those of `own`, which the functions' results replace.
  FlowFunctions(const FlowBody& body, ImportScope& scope, std::vector<DType> own);

  static std::string ParameterName(size_t i);
  /// What the functions see of a tensor around them.
  Taken Capture(const std::string& text, DType dtype);
  absl::StatusOr<Taken> Capture(const std::string& text);
  /// The node waits for another one.
  void WaitFor(const std::string& node);

  /// Gives `function` the nodes `roots` and all that they need up to the boundary. Returns them, in
  /// the body's order.
  absl::StatusOr<std::vector<int>> Fill(std::vector<int> roots, const Boundary& boundary,
                                        tf::FunctionDef& function) const;
  /// Adds the result that `text` is there, `text` being a node's input.
  absl::Status AddResult(const FlowInput& input, const std::string& text, DType dtype,
                         const Boundary& boundary, tf::FunctionDef& function) const;
  static void AddResult(std::string text, DType dtype, tf::FunctionDef& function);

  /// Declares all parameters of `function`, names it after `name` and adds it to the library.
  const std::string& Finish(tf::FunctionDef function, absl::string_view name);

  const std::vector<DType>& dtypes() const { return dtypes_; }
  /// What the node takes after `own`'s values.
  const std::vector<std::string>& captured() const { return captured_; }
  const std::vector<std::string>& waited_for() const { return waits_; }

 private:
  const FlowBody& body_;
  ImportScope& scope_;
  std::vector<DType> dtypes_;
  std::vector<std::string> captured_;
  HashMap<std::string, size_t> parameter_of_;
  std::vector<std::string> waits_;
  HashSet<std::string> waited_;
};

void SetTypes(const std::vector<DType>& dtypes, const char* attr, tf::NodeDef& def);
void SetType(DType dtype, const char* attr, tf::NodeDef& def);

}  // namespace formwork
