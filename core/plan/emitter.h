#pragma once

// Flattens a graph into a program: kernels, fused groups, branches, loops and calls. Private to
// this folder; planner_scope.h declares Emit.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/plan/accesses.h"
#include "core/plan/fusion.h"
#include "core/plan/kept_values.h"
#include "core/plan/liveness.h"
#include "core/plan/memory.h"
#include "core/plan/planner_scope.h"
#include "core/plan/program_builder.h"

namespace formwork {

/// One plan. Errors name the node.
class Emitter : private ProgramBuilder {
 public:
  Emitter(PlannerScope& scope, bool root)
      : ProgramBuilder(scope.context, StreamsOf(scope.context, root)), scope_(scope), root_(root) {}

  /// Once.
  absl::StatusOr<std::shared_ptr<Plan>> Run(const Graph& graph);

 private:
  // A graph on its way into the program.
  struct Body {
    const Graph& graph;
    Region& region;
    bool top;                                  // The plan's own, not that of a branch or loop.
    std::vector<std::vector<Plan::Ref>> refs;  // By node, by output.
    Copies copies = {};
    // Of its nodes, where there are several: on which they run, and one on which they are used, if
    // that is another than 0.
    std::vector<uint8_t> streams = {}, used_on = {};

    Plan::Ref ref(Edge edge) const { return refs[edge.node][edge.index]; }
  };

  // What functions that are called do stays on stream 0.
  static int StreamsOf(const PlannerContext& context, bool root) {
    return root && context.device ? std::min(context.device->streams, StreamGroup::kMost) : 1;
  }
  // The refs of the body's results. Fills `region`.
  absl::StatusOr<std::vector<Plan::Ref>> EmitBody(const Graph& graph,
                                                  absl::Span<const Plan::Ref> args, Region& region,
                                                  bool top);
  void PlaceOnStreams(Body& body) const;
  // Node i's outputs are there once stream 0 is here, and no step makes them: where others need
  // them, it has a point here and not further on.
  void PreparePoint(const Body& body, int32_t i);
  // The part that is kept while variables are; adds variables and values to `args`.
  absl::Status EmitFixed(const FixedParts& parts, std::vector<Plan::Ref>& args, Region& whole);
  void AddKeptKernel(absl::string_view name, KernelFn kernel, const std::vector<Plan::Ref>& inputs,
                     Plan::Range outputs);
  std::vector<FusionUnit> Units(const Graph& graph) const;
  absl::Status AddUnit(Body& body, const FusionUnit& unit);
  absl::Status AddNode(Body& body, int32_t i);

  // --- emit_kernels.cc --------------------------------------------------------------------------

  absl::Status AddKernel(Body& body, int32_t i);
  absl::Status AddHandle(Body& body, int32_t i);
  // Behind a handle, what begins its resource, if anything does (KernelRegistry::Add).
  absl::Status AddBeginning(Body& body, int32_t i);
  // Its place among the scope's, where it is put if it is new.
  absl::StatusOr<int> NamedResourceIndex(const std::string& name, const ResourceType& type);
  absl::StatusOr<std::shared_ptr<const KernelFunction>> KernelFunctionOf(const FuncAttr& attr);
  // False where the unit is to be single steps.
  absl::StatusOr<bool> AddFused(Body& body, const FusionUnit& unit);
  void AddScalars(Body& body, const FusionUnit& unit);
  // Empty: `kernels` have none. `first_state`: how many of the plan's states came before the
  // node's.
  absl::StatusOr<KernelFn> MakeKernel(const Body& body, const Node& node,
                                      const KernelRegistry& kernels, size_t first_state);
  // Of a plan for a device.
  NodePlacement PlacementOf(const Body& body, const Node& node) const;
  // Where its work goes. `enqueued`: it is the device's.
  int StreamOf(const Body& body, int32_t i, const NodePlacement& placement, bool enqueued) const;
  // The kernel of a node's step, whose inputs are copied to where it wants them. `kernel`: the
  // device's, `host_kernel`: the host's; one of them may be empty.
  absl::StatusOr<KernelFn> PutOnDevice(Body& body, const Node& node, const NodePlacement& placement,
                                       KernelFn kernel, KernelFn host_kernel,
                                       std::vector<Plan::Ref>& inputs);
  // The device's kernel of a node that is enqueued. Empty: it has none, and PlaceOnHost holds.
  absl::StatusOr<KernelFn> MakeDeviceKernel(const Body& body, const Node& node);
  // An instruction whose outputs are those of the node.
  Plan::Instruction& NewStep(Body& body, int32_t i, Plan::Code code, uint32_t target,
                             const std::vector<Plan::Ref>& inputs);
  // An instruction whose outputs are those of the unit. Its inputs are to be added.
  void NewUnitStep(Body& body, const FusionUnit& unit, Plan::Code code, size_t target);
  // That the step that has just been added is of several nodes.
  void NotePart(const std::string& node);
  void NoteParts(const ElementGroup& group);
  // What the step that has just been added does to resources.
  void NoteAccess(const Body& body, int32_t i, absl::FunctionRef<Access(size_t k)> access_by);
  static std::vector<Plan::Ref> InputsOf(const Body& body, const Node& node);
  // Whether what may say how large a result is, is known.
  static bool IntegersAreConstant(const Body& body, const Node& node);

  // --- emit_control_flow.cc ---------------------------------------------------------------------

  absl::Status AddCall(Body& body, int32_t i);
  absl::Status AddFork(Body& body, int32_t i);
  absl::Status AddBranches(Body& body, int32_t i);
  absl::Status AddLoop(Body& body, int32_t i);
  // The values of a loop's variables move one after the other: one that an earlier move would
  // overwrite is put aside first.
  void SaveOverwritten(std::vector<Plan::Ref>& results, uint32_t first);
  // The refs of the inputs that are a node's functions'.
  static std::vector<Plan::Ref> ArgumentsOf(const Body& body, const Node& node);

  PlannerScope& scope_;
  const bool root_;
  Accesses accesses_{*plan_, scope_, root_};
  // Of the functions that the kernel runs that is being made: the strongest to a parameter.
  Access functions_access_ = Access::kNone;
};

}  // namespace formwork
