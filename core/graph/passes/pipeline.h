#pragma once

// The passes over a Graph, in their explicit order. A pass takes a list of nodes that may run in
// that order and gives another; effects never change places.

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/device/buffer.h"
#include "core/graph/graph.h"
#include "core/graph/passes/relaxed_regions.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// What the passes may still spend on one registration: shared by all bodies of its plan. What
/// would go beyond is left to the calls.
struct PassBudget {
  /// In nodes and edges: calls of calls of calls can grow without bound.
  int64_t inlined = 1'000'000;
  absl::Duration folding = absl::Seconds(1);
  size_t folded_bytes = size_t{64} << 20;
};

struct PassContext {
  const GraphLibrary& library;
  const OpRegistry& ops;
  const KernelRegistry& kernels;  ///< The CPU's: plans without a device, and folding.
  Allocator& allocator;
  PassBudget& budget;
  /// Of a plan for a device, the device's: several nodes become one only where it has a kernel for
  /// that. Null: the CPU runs all.
  const KernelRegistry* device_kernels = nullptr;
  /// Of the graph of a relaxed call: it is divided, and these are filled in. Null: it is not.
  RelaxedRegions* regions = nullptr;
  /// Of the request's own graph, by parameter: the dtype of the variable behind it, which has a
  /// value and keeps one; kInvalid, or shorter: that is not known. Null: of a function that it
  /// calls.
  const std::vector<DType>* variables = nullptr;

  /// Whether there is a kernel for what several nodes would become.
  bool Runs(absl::string_view fused) const {
    return device_kernels == nullptr || device_kernels->Find(fused) != nullptr;
  }
  /// The kernels of what the plan is for.
  const KernelRegistry& plan_kernels() const {
    return device_kernels == nullptr ? kernels : *device_kernels;
  }
};

/// Runs all passes in order: inline calls, divide into regions where that is asked for, simplify
/// (shapes, variables as values, constant folding, common subexpressions, forwarding ops), prune,
/// on a device make selects of branches and simplify what they become, fuse layer normalisations,
/// attention, epilogues, gates and gradients of ReLUs, join elementwise nodes. `arg_shapes`: what
/// is known of the parameters; of a resource, the shape of its variable. A node whose shapes cannot
/// work is left as it is: it fails the call that runs it, so that a branch never taken may be
/// wrong, as in TensorFlow. Errors: kCancelled, kDeadlineExceeded of the thread's StopFlag; the
/// graph is of no use then.
absl::Status RunPasses(Graph& graph, const std::vector<PartialShape>& arg_shapes,
                       const PassContext& context);

// The passes. Each is in its own file.
void InlineCalls(Graph& graph, const PassContext& context);
absl::Status Simplify(Graph& graph, const std::vector<PartialShape>& arg_shapes,
                      const PassContext& context);
void Prune(Graph& graph);
/// Of a plan for a device: where a value on it chooses the branch of an If, and both branches only
/// compute what cannot fail, read variables and store to them, they become one: both are computed,
/// and a SelectV2 by the predicate makes each result, and the one new value of each variable that
/// either stores to. So nobody has to wait for the predicate. What has the same value and shape
/// afterwards as an If would have left, bit for bit; a variable that the branch not taken stores to
/// is stored to as well, its own value. Everywhere else, in bodies too, an If stays. Whether any
/// has become so; then Simplify finds more to do.
bool PredicateBranches(Graph& graph, const PassContext& context);
/// Moves bias, batch normalisation at inference, residual and activation into the convolution or
/// matrix product before them (core/ops/epilogue.h), in bodies too, where shapes are known so far
/// that it cannot fail. The nodes that they were are left for Prune.
void FuseEpilogues(Graph& graph, const PassContext& context);
/// Makes one node (_GateMatMul) of two products by weights that are added with a bias, of their
/// Split along the last dimension, or of both, where the weights' shapes are known and rows are not
/// known to be few: what LSTM and GRU cells do in each step; in bodies too. To follow
/// FuseEpilogues, which finds the weights, and the bias where rows are known, and a Prune, for
/// nodes that nobody needs count as readers. The nodes that they were are left for Prune.
void FuseGates(Graph& graph, const PassContext& context);
/// Makes one node (_MklLayerNorm) of what normalises the last dimension of floats and has no other
/// readers, in bodies too. The nodes that they were are left for Prune.
void FuseLayerNorms(Graph& graph, const PassContext& context);
/// Makes one node (_Attention) of two products of stacks of matrices with a softmax between them,
/// of what scales and masks the scores, and of Transposes around them, where no one else reads the
/// parts and the device has a kernel for that, in bodies too. The nodes that they were are left for
/// Prune.
void FuseAttention(Graph& graph, const PassContext& context);
/// Makes a MaxPoolGrad compute the ReluGrad that alone reads it, where both are of one ReLU's
/// output (attr _relu), in bodies too. The nodes that they were are left for Prune.
void FuseReluGradients(Graph& graph);
/// Takes away what parts elementwise nodes that may be one step, where shapes are known, in bodies
/// too: an AddN of few is AddV2s; what a Tile, BroadcastTo or Fill copies to an operand's shape is
/// read as it is before, where the other operands give the result its shape, and else is copied
/// behind the node. Results have the same bits. What nobody reads any more is left for Prune. A
/// graph is of no use once the thread's work has been cut.
void JoinElements(Graph& graph, const PassContext& context);

/// Runs a pure node's kernel on constants. Errors: whatever its kernel says; kDeadlineExceeded or
/// kResourceExhausted where it takes more time or memory than a fold may.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node,
                                                 const std::vector<const Tensor*>& inputs,
                                                 const PassContext& context);
/// The outputs of a pure node, which is to follow `nodes`, where they are known now and small, and
/// there is budget left for them.
std::optional<std::vector<Tensor>> FoldedValues(const std::vector<Node>& nodes, const Node& node,
                                                const PassContext& context);

}  // namespace formwork
