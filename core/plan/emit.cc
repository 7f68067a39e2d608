#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/plan/emitter.h"

namespace formwork {

absl::StatusOr<std::shared_ptr<Plan>> Emitter::Run(const Graph& graph) {
  plan_->name = graph.name;
  plan_->arg_dtypes = graph.arg_dtypes;
  plan_->arg_access.assign(graph.args.size(), Access::kNone);
  if (root_) {
    for (const RelaxedRegion& region : scope_.regions.regions) {
      plan_->regions.push_back({region.kind, region.name, {}});
    }
  }
  std::vector<Plan::Ref> args;
  for (size_t i = 0; i < graph.args.size(); ++i) {
    const Plan::Memory memory = root_ ? Plan::Memory::kHost : MemoryByDType(graph.arg_dtypes[i]);
    const uint32_t slot = NewSlots(1, memory);
    args.push_back({.index = slot});
    if (graph.arg_dtypes[i] == DType::kResource) {
      accesses_.NoteHandle(static_cast<int32_t>(i), slot, true);
    }
  }
  Region whole;
  std::optional<FixedParts> parts;
  if (root_) parts = SplitFixed(graph, on_device());
  if (parts.has_value()) {
    FORMWORK_RETURN_IF_ERROR(EmitFixed(*parts, args, whole));
  }
  FORMWORK_ASSIGN_OR_RETURN(plan_->results,
                            EmitBody(parts.has_value() ? parts->rest : graph, args, whole, true));
  whole.begin = 0;
  if (!root_) {
    for (size_t k = 0; k < plan_->results.size(); ++k) {
      plan_->results[k] = CopyTo(MemoryByDType(graph.dtype(graph.results[k])), plan_->results[k]);
    }
  }
  JoinStreams(plan_->results);
  NewInstruction(Plan::Code::kReturn, "", nullptr);
  whole.end = Here();
  clocks_.Finish(*plan_);
  for (const Edge& result : graph.results) {
    plan_->result_dtypes.push_back(graph.dtype(result));
    plan_->result_shapes.push_back(graph.shape(result));
  }
  if (on_device()) {
    FORMWORK_RETURN_IF_ERROR(PlaceConstants(*plan_, constant_memory(), device().memory,
                                            device().stream, context_.allocator));
  }
  FindLastUses(*plan_, whole, accesses_.handles());
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (root_) accesses_.AddReleases();
  for (const Tensor& constant : plan_->constants) {
    if (constant.has_value()) scope_.bytes += constant.bytes();
  }
  scope_.bytes += sizeof(Plan) + plan_->num_slots * (sizeof(Tensor) + sizeof(InputRef)) +
                  plan_->num_registers * sizeof(ScalarProgram::Register) +
                  plan_->code.size() * (sizeof(Plan::Instruction) + sizeof(Plan::Label) + 64) +
                  plan_->kernels.size() * sizeof(KernelFn) +
                  plan_->calls.size() * sizeof(Plan::Call) +
                  plan_->states.size() * (sizeof(Plan::State) + 64);
  return plan_;
}

absl::StatusOr<std::vector<Plan::Ref>> Emitter::EmitBody(const Graph& graph,
                                                         absl::Span<const Plan::Ref> args,
                                                         Region& region, bool top) {
  region.begin = Here();
  Body body{graph, region, top, std::vector<std::vector<Plan::Ref>>(graph.nodes.size())};
  for (size_t i = 0; i < args.size(); ++i) body.refs[graph.args[i]] = {args[i]};
  if (clocks_.several()) PlaceOnStreams(body);
  for (int32_t arg : graph.args) PreparePoint(body, arg);
  for (const FusionUnit& unit : Units(graph)) {
    if (WorkIsCut()) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(AddUnit(body, unit));
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  region.end = Here();
  std::vector<Plan::Ref> results;
  results.reserve(graph.results.size());
  for (const Edge& result : graph.results) results.push_back(body.ref(result));
  return results;
}

void Emitter::PlaceOnStreams(Body& body) const {
  const std::vector<Node>& nodes = body.graph.nodes;
  body.streams = AssignStreams(body.graph, clocks_.streams(), device().least_stream_work);
  body.used_on.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (body.streams[i] == 0) continue;
    for (const Edge& edge : nodes[i].inputs) body.used_on[edge.node] = body.streams[i];
  }
}

void Emitter::PreparePoint(const Body& body, int32_t i) {
  if (!body.used_on.empty() && body.used_on[i] != 0) PrepareWaits(body.used_on[i], body.refs[i]);
}

//      variables = loads; hit, kept = recall(variables); branch hit -> recalled, anew
//   recalled: values = kept; jump end
//   anew:     values = body; keep(variables, values)
//   end:
absl::Status Emitter::EmitFixed(const FixedParts& parts, std::vector<Plan::Ref>& args,
                                Region& whole) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> variables,
                            EmitBody(parts.loads, args, whole, true));
  std::vector<Plan::Memory> memory;
  for (const Edge& result : parts.fixed.results) {
    memory.push_back(MemoryByDType(parts.fixed.dtype(result)));
  }
  const auto count = static_cast<uint32_t>(memory.size());
  KeptValuesKernels kernels = MakeKeptValues(variables.size());
  const uint32_t hit = NewSlots(1), recalled = plan_->num_slots;
  for (const Plan::Memory kind : memory) NewSlots(1, kind);
  AddKeptKernel("recall", std::move(kernels.recall), variables, {hit, 1 + count});
  Construct construct;
  construct.begin = Here();
  Plan::Instruction& choice = NewInstruction(Plan::Code::kBranch, "", nullptr);
  choice.target = NewTargets(2);
  choice.num_targets = 2;
  AddInput({.index = hit});
  const uint32_t first = plan_->num_slots;
  for (const Plan::Memory kind : memory) NewSlots(1, kind);
  construct.outputs = {first, count};
  construct.regions.resize(2);
  LandHere(construct.begin, 0);
  const StreamClocks::State before = clocks_.state();
  construct.regions[0].begin = Here();
  std::vector<Plan::Ref> kept;
  for (uint32_t k = 0; k < count; ++k) kept.push_back({.index = recalled + k});
  Move(kept, first);
  const uint32_t jump = Jump();
  construct.regions[0].end = Here();
  LandHere(construct.begin, 1);
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Plan::Ref> values,
                            EmitBody(parts.fixed, variables, construct.regions[1], false));
  for (uint32_t k = 0; k < count; ++k) values[k] = CopyTo(memory[k], values[k]);
  JoinStreams(values);
  std::vector<Plan::Ref> both = variables;
  both.insert(both.end(), values.begin(), values.end());
  AddKeptKernel("keep", std::move(kernels.keep), both, {plan_->num_slots, 0});
  Move(values, first);
  construct.regions[1].end = Here();
  LandHere(jump);
  clocks_.Restore(before);
  clocks_.NoteMade(construct.outputs);
  construct.end = Here();
  whole.constructs.push_back(std::move(construct));
  args.insert(args.end(), variables.begin(), variables.end());
  for (uint32_t k = 0; k < count; ++k) args.push_back({.index = first + k});
  return absl::OkStatus();
}

void Emitter::AddKeptKernel(absl::string_view name, KernelFn kernel,
                            const std::vector<Plan::Ref>& inputs, Plan::Range outputs) {
  const uint32_t index = NewKernel(std::move(kernel));
  Plan::Instruction& instruction = NewInstruction(Plan::Code::kKernel, std::string(name), nullptr);
  instruction.outputs = outputs;
  instruction.target = index;
  for (const Plan::Ref& input : inputs) AddInput(input);
}

std::vector<FusionUnit> Emitter::Units(const Graph& graph) const {
  if (!on_device()) return PlanFusion(graph, context_.kernels);
  std::vector<FusionUnit> units(graph.nodes.size());
  for (size_t i = 0; i < units.size(); ++i) units[i].nodes = {static_cast<int32_t>(i)};
  return units;
}

absl::Status Emitter::AddUnit(Body& body, const FusionUnit& unit) {
  if (unit.scalars) {
    AddScalars(body, unit);
    return absl::OkStatus();
  }
  if (unit.nodes.size() > 1 || !unit.stores.empty()) {
    FORMWORK_ASSIGN_OR_RETURN(const bool fused, AddFused(body, unit));
    if (fused) return absl::OkStatus();
  }
  for (int32_t i : unit.nodes) {
    const Node& node = body.graph.nodes[i];
    if (node.kind == NodeKind::kArg) continue;
    if (node.kind == NodeKind::kConstant) {
      body.refs[i] = {NewConstant(node.constant)};
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(AddNode(body, i));
  }
  for (int32_t i : unit.stores) FORMWORK_RETURN_IF_ERROR(AddNode(body, i));
  return absl::OkStatus();
}

absl::Status Emitter::AddNode(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  if (const std::optional<uint32_t> region = RegionBegunBy(node)) {
    NewInstruction(Plan::Code::kRegion, node.name, nullptr).target = *region;
    accesses_.BeginRegion(*region);
    return absl::OkStatus();
  }
  const bool fork = node.kind == NodeKind::kFork;
  if (!fork && !node.op->is_control_flow()) return AddKernel(body, i);
  if (body.top && root_) scope_.releases.NoteFunction(Here());
  if (fork) return AddFork(body, i);
  if (node.bodies.empty()) {
    FORMWORK_RETURN_IF_ERROR(AddCall(body, i));
    PreparePoint(body, i);
    return absl::OkStatus();
  }
  const uint32_t begin = Here();
  FORMWORK_RETURN_IF_ERROR(node.op->control_flow == ControlFlow::kWhile ? AddLoop(body, i)
                                                                        : AddBranches(body, i));
  if (body.top && root_ && accesses_.AnyTouched()) {
    const uint32_t end = Here();
    NewInstruction(Plan::Code::kRelease, "", nullptr);
    accesses_.EndTouched(end);
  }
  // An iteration may follow.
  if (node.op->control_flow == ControlFlow::kWhile && plan_->last_effect >= begin) {
    plan_->last_effect = Here() - 1;
  }
  PreparePoint(body, i);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Plan>> Emit(const Graph& graph, PlannerScope& scope, bool root) {
  return Emitter(scope, root).Run(graph);
}

}  // namespace formwork
