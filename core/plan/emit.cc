// Flattens a graph into a program: kernels, fused groups, branches, loops and calls.

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/plan/accesses.h"
#include "core/plan/fusion.h"
#include "core/plan/liveness.h"
#include "core/plan/planner_scope.h"
#include "core/plan/scalars.h"

namespace formwork {
namespace {

// TensorFlow gives this shared_name to resources that nobody else is to find.
constexpr absl::string_view kAnonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

// Numbers of hidden state of one function: calls of calls of calls could have any number.
constexpr uint64_t kMostState = uint64_t{1} << 20;

// One node's view for its kernel factory.
class NodeInit final : public KernelInit {
 public:
  NodeInit(const Graph& graph, const Node& node, Plan& plan) : node_(node), plan_(plan) {
    for (const Edge& edge : node.inputs) input_dtypes_.push_back(graph.dtype(edge));
  }

  absl::string_view node_name() const override { return node_.name; }
  const OpDef& op() const override { return *node_.op; }
  const AttrMap& attrs() const override { return *node_.attrs; }
  absl::Span<const DType> input_dtypes() const override { return input_dtypes_; }
  absl::Span<const DType> output_dtypes() const override { return node_.output_dtypes; }
  int NewState(int count) override {
    plan_.states.push_back({node_.name, {plan_.num_state, static_cast<uint32_t>(count)}, {}});
    plan_.num_state += static_cast<uint32_t>(count);
    return static_cast<int>(plan_.states.back().numbers.first);
  }

 private:
  const Node& node_;
  Plan& plan_;
  std::vector<DType> input_dtypes_;
};

class Emitter {
 public:
  Emitter(PlannerScope& scope, bool root)
      : scope_(scope), root_(root), plan_(std::make_shared<Plan>()) {}

  absl::StatusOr<std::shared_ptr<Plan>> Run(const Graph& graph) {
    plan_->name = graph.name;
    plan_->arg_dtypes = graph.arg_dtypes;
    plan_->arg_access.assign(graph.args.size(), Access::kNone);
    std::vector<Plan::Ref> args;
    for (size_t i = 0; i < graph.args.size(); ++i) {
      const uint32_t slot = NewSlots(1);
      args.push_back({.index = slot});
      if (graph.arg_dtypes[i] == DType::kResource) {
        accesses_.NoteHandle(static_cast<int32_t>(i), slot, true);
      }
    }
    Region whole;
    FORMWORK_ASSIGN_OR_RETURN(plan_->results, EmitBody(graph, args, whole, true));
    NewInstruction(Plan::Code::kReturn, "", nullptr);
    whole.end = Here();
    for (const Edge& result : graph.results) {
      plan_->result_dtypes.push_back(graph.dtype(result));
      const auto& shapes = graph.nodes[result.node].output_shapes;
      plan_->result_shapes.push_back(shapes.empty() ? PartialShape() : shapes[result.index]);
    }
    FindLastUses(*plan_, whole, accesses_.handles());
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (root_) accesses_.AddReleases();
    for (const Tensor& constant : plan_->constants) scope_.bytes += constant.bytes();
    scope_.bytes += sizeof(Plan) + plan_->num_slots * (sizeof(Tensor) + sizeof(InputRef)) +
                    plan_->num_registers * sizeof(ScalarProgram::Register) +
                    plan_->code.size() * (sizeof(Plan::Instruction) + sizeof(Plan::Label) + 64) +
                    plan_->kernels.size() * sizeof(KernelFn) +
                    plan_->calls.size() * sizeof(Plan::Call) +
                    plan_->states.size() * (sizeof(Plan::State) + 64);
    return plan_;
  }

 private:
  // A graph on its way into the program.
  struct Body {
    const Graph& graph;
    Region& region;
    bool top;                                  // The plan's own, not that of a branch or loop.
    std::vector<std::vector<Plan::Ref>> refs;  // By node, by output.

    Plan::Ref ref(Edge edge) const { return refs[edge.node][edge.index]; }
  };

  uint32_t Here() const { return static_cast<uint32_t>(plan_->code.size()); }

  uint32_t NewSlots(size_t count) {
    const uint32_t first = plan_->num_slots;
    plan_->num_slots += static_cast<uint32_t>(count);
    return first;
  }

  // Its inputs are to be added before the next one is made.
  Plan::Instruction& NewInstruction(Plan::Code code, std::string node, const OpDef* op) {
    plan_->labels.push_back({std::move(node), op});
    Plan::Instruction& instruction = plan_->code.emplace_back();
    instruction.code = code;
    instruction.inputs.first = static_cast<uint32_t>(plan_->refs.size());
    return instruction;
  }
  void AddInput(Plan::Ref ref) {
    plan_->refs.push_back(ref);
    ++plan_->code.back().inputs.count;
  }
  Plan::Ref NewConstant(const Tensor& value) {
    plan_->constants.push_back(value);
    return {.constant = true, .index = static_cast<uint32_t>(plan_->constants.size()) - 1};
  }
  uint32_t NewTargets(size_t count) {
    const size_t first = plan_->targets.size();
    plan_->targets.resize(first + count);
    return static_cast<uint32_t>(first);
  }
  // Instruction `from` goes on here by its k-th target.
  void LandHere(uint32_t from, size_t k = 0) {
    plan_->targets[plan_->code[from].target + k].instruction = Here();
  }
  uint32_t Jump() {
    NewInstruction(Plan::Code::kJump, "", nullptr).target = NewTargets(1);
    return Here() - 1;
  }
  void Move(const std::vector<Plan::Ref>& from, uint32_t to) {
    if (from.empty()) return;
    NewInstruction(Plan::Code::kMove, "", nullptr).outputs = {to,
                                                              static_cast<uint32_t>(from.size())};
    for (const Plan::Ref& ref : from) AddInput(ref);
  }

  // The refs of the body's results. Fills `region`.
  absl::StatusOr<std::vector<Plan::Ref>> EmitBody(const Graph& graph,
                                                  absl::Span<const Plan::Ref> args, Region& region,
                                                  bool top) {
    region.begin = Here();
    Body body{graph, region, top, std::vector<std::vector<Plan::Ref>>(graph.nodes.size())};
    for (size_t i = 0; i < args.size(); ++i) body.refs[graph.args[i]] = {args[i]};
    for (const FusionUnit& unit : PlanFusion(graph, scope_.context.kernels)) {
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

  absl::Status AddUnit(Body& body, const FusionUnit& unit) {
    if (unit.scalars) {
      AddScalars(body, unit);
      return absl::OkStatus();
    }
    if (unit.nodes.size() > 1) {
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
    return absl::OkStatus();
  }

  absl::Status AddNode(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    if (node.op->control_flow == ControlFlow::kNone) return AddKernel(body, i);
    if (body.top && root_) scope_.releases.NoteFunction(Here());
    if (node.bodies.empty()) return AddCall(body, i);
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
    return absl::OkStatus();
  }

  // --- Kernels ----------------------------------------------------------------------------------

  absl::StatusOr<KernelFn> MakeKernel(const Body& body, const Node& node, KernelFactory factory) {
    NodeInit init(body.graph, node, *plan_);
    absl::StatusOr<KernelFn> kernel = factory(init);
    if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("node '", node.name, "'"));
    return kernel;
  }

  // An instruction whose outputs are those of the node.
  Plan::Instruction& NewStep(Body& body, int32_t i, Plan::Code code, uint32_t target) {
    const Node& node = body.graph.nodes[i];
    const size_t outputs = node.output_dtypes.size();
    const uint32_t first = NewSlots(outputs);
    for (size_t k = 0; k < outputs; ++k) {
      body.refs[i].push_back({.index = first + static_cast<uint32_t>(k)});
    }
    Plan::Instruction& instruction = NewInstruction(code, node.name, node.op);
    instruction.outputs = {first, static_cast<uint32_t>(outputs)};
    instruction.target = target;
    for (const Edge& edge : node.inputs) AddInput(body.ref(edge));
    return instruction;
  }

  absl::Status AddKernel(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    const uint32_t index = static_cast<uint32_t>(plan_->kernels.size());
    if (node.op->handle_of != nullptr) return AddHandle(body, i, index);
    const KernelFactory factory = scope_.context.kernels.Find(node.op->name);
    if (factory == nullptr) {
      scope_.missing.push_back(absl::StrCat(node.op->name, " (node '", node.name, "')"));
      body.refs[i].resize(node.output_dtypes.size());
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeKernel(body, node, factory));
    plan_->kernels.push_back(std::move(kernel));
    Plan::Instruction& instruction = NewStep(body, i, Plan::Code::kKernel, index);
    instruction.effect = HasEffect(node);
    if (instruction.effect) plan_->last_effect = Here() - 1;
    scope_.sized_by_value =
        scope_.sized_by_value || (node.op->sized_by_value && !IntegersAreConstant(body, node));
    Access access = Access::kNone;
    if (node.op->effect == Effect::kRead) {
      access = Access::kRead;
    } else if (node.op->effect != Effect::kNone) {
      access = Access::kWrite;
    }
    NoteAccess(body, i, [access](size_t) { return access; });
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AddFused(Body& body, const FusionUnit& unit) {
    std::vector<KernelFn> kernels;
    for (int32_t i : unit.nodes) {
      const Node& node = body.graph.nodes[i];
      const KernelFactory factory = scope_.context.kernels.Find(node.op->name);
      if (factory == nullptr) return false;
      FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeKernel(body, node, factory));
      kernels.push_back(std::move(kernel));
    }
    FORMWORK_ASSIGN_OR_RETURN(std::optional<FusedStep> fused,
                              MakeFusedStep(body.graph, unit, std::move(kernels)));
    if (!fused.has_value()) return false;
    NewUnitStep(body, unit, Plan::Code::kKernel, plan_->kernels.size());
    for (const Edge& edge : fused->inputs) AddInput(body.ref(edge));
    plan_->kernels.push_back(std::move(fused->kernel));
    return true;
  }

  void AddScalars(Body& body, const FusionUnit& unit) {
    ScalarStep step = MakeScalarStep(body.graph, unit);
    NewUnitStep(body, unit, Plan::Code::kScalar, plan_->scalars.size());
    for (const ScalarStep::Source& source : step.inputs) {
      AddInput(source.constant == nullptr ? body.ref(source.edge) : NewConstant(*source.constant));
    }
    const auto loops = [](const auto& instruction) {
      return instruction.code == ScalarProgram::Code::kLoop;
    };
    scope_.has_loop =
        scope_.has_loop || std::any_of(step.program.code.begin(), step.program.code.end(), loops);
    plan_->num_registers = std::max<uint32_t>(plan_->num_registers, step.program.num_registers);
    scope_.bytes += step.program.bytes();
    plan_->scalars.push_back(std::move(step.program));
  }

  // An instruction whose outputs are those of the unit. Its inputs are to be added.
  void NewUnitStep(Body& body, const FusionUnit& unit, Plan::Code code, size_t target) {
    const uint32_t first = NewSlots(unit.outputs.size());
    for (int32_t i : unit.nodes) body.refs[i].resize(body.graph.nodes[i].output_dtypes.size());
    for (size_t k = 0; k < unit.outputs.size(); ++k) {
      const Edge edge = unit.outputs[k];
      body.refs[edge.node][edge.index] = {.index = first + static_cast<uint32_t>(k)};
    }
    Plan::Instruction& instruction =
        NewInstruction(code, body.graph.nodes[unit.nodes.back()].name, nullptr);
    instruction.outputs = {first, static_cast<uint32_t>(unit.outputs.size())};
    instruction.target = static_cast<uint32_t>(target);
  }

  // Whether what may say how large a result is, is known.
  static bool IntegersAreConstant(const Body& body, const Node& node) {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&body](const Edge& edge) {
      const DType dtype = body.graph.dtype(edge);
      return (dtype != DType::kInt32 && dtype != DType::kInt64) || body.ref(edge).constant;
    });
  }

  absl::Status AddHandle(Body& body, int32_t i, uint32_t kernel) {
    const Node& node = body.graph.nodes[i];
    FORMWORK_ASSIGN_OR_RETURN(ResourceType type, node.op->handle_of(*node.attrs));
    std::string name = node.attrs->GetOr<std::string>("shared_name", "");
    if (name == kAnonymousName || node.op->FindAttr("shared_name") == nullptr) {
      plan_->kernels.push_back(
          KernelFn([name = node.name, type = std::move(type)](KernelContext& ctx) {
            ctx.SetOutput(0, Tensor::Scalar(ctx.resources().CreateForCall(name, type)));
            return absl::OkStatus();
          }));
      NewStep(body, i, Plan::Code::kKernel, kernel);
      return absl::OkStatus();
    }
    if (name.empty()) name = node.name;
    const std::string container = node.attrs->GetOr<std::string>("container", "");
    if (!container.empty()) name = absl::StrCat(container, "/", name);
    const auto [found, inserted] =
        scope_.named_index.try_emplace(name, scope_.named_resources.size());
    const int index = static_cast<int>(found->second);
    if (inserted) {
      scope_.named_resources.push_back({name, std::move(type), Access::kNone});
    } else if (!scope_.named_resources[index].type.IsCompatibleWith(type)) {
      return InvalidArgument("node '", node.name, "': resource '", name,
                             "' is of two types: ", scope_.named_resources[index].type.ToString(),
                             " and ", type.ToString());
    }
    plan_->kernels.push_back(KernelFn([index](KernelContext& ctx) {
      ctx.SetOutput(0, Tensor::Scalar(ctx.call().named_resource(index)));
      return absl::OkStatus();
    }));
    NewStep(body, i, Plan::Code::kKernel, kernel);
    accesses_.NoteHandle(-1 - index, body.refs[i][0].index, body.top);
    return absl::OkStatus();
  }

  // --- Control flow -----------------------------------------------------------------------------

  absl::Status AddCall(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    const uint32_t index = scope_.function_index.at(FunctionsOf(*node.op, *node.attrs)[0]->name);
    const Plan& callee = *scope_.functions[index];
    // Each call has its own, as where the function is part of its caller.
    if (uint64_t{plan_->num_state} + callee.num_state > kMostState) {
      return ResourceExhausted("node '", node.name,
                               "': the calls of functions with hidden state, "
                               "such as how far a random op has got, are too many: limit=",
                               kMostState);
    }
    const uint32_t call = static_cast<uint32_t>(plan_->calls.size());
    plan_->calls.push_back({index, plan_->num_state});
    if (callee.num_state > 0) {
      plan_->states.push_back({node.name, {plan_->num_state, callee.num_state}, index});
      plan_->num_state += callee.num_state;
    }
    NewStep(body, i, Plan::Code::kCall, call);
    if (callee.last_effect >= 0) plan_->last_effect = Here() - 1;
    NoteAccess(body, i, [&callee](size_t k) { return callee.arg_access[k]; });
    return absl::OkStatus();
  }

  // The refs of the inputs that are a node's functions'.
  static std::vector<Plan::Ref> ArgumentsOf(const Body& body, const Node& node) {
    std::vector<Plan::Ref> arguments;
    for (size_t k = node.op->inputs_before_functions(); k < node.inputs.size(); ++k) {
      arguments.push_back(body.ref(node.inputs[k]));
    }
    return arguments;
  }

  //      branch selector -> first, second, ...
  //   first:  body; outputs = results; jump end
  //   second: body; outputs = results
  //   end:
  absl::Status AddBranches(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    const size_t branches = node.bodies.size();
    const std::vector<Plan::Ref> arguments = ArgumentsOf(body, node);
    Construct construct;
    construct.begin = Here();
    Plan::Instruction& choice = NewInstruction(
        node.op->control_flow == ControlFlow::kIf ? Plan::Code::kBranch : Plan::Code::kSwitch,
        node.name, node.op);
    choice.target = NewTargets(branches);
    choice.num_targets = static_cast<uint32_t>(branches);
    AddInput(body.ref(node.inputs[0]));
    const size_t outputs = node.output_dtypes.size();
    const uint32_t first = NewSlots(outputs);
    construct.outputs = {first, static_cast<uint32_t>(outputs)};
    for (size_t k = 0; k < outputs; ++k) {
      body.refs[i].push_back({.index = first + static_cast<uint32_t>(k)});
    }
    std::vector<uint32_t> jumps;
    for (size_t b = 0; b < branches; ++b) {
      LandHere(construct.begin, b);
      Region region;
      FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> results,
                                EmitBody(node.bodies[b], arguments, region, false));
      Move(results, first);
      for (size_t k = 0; k < outputs; ++k) {
        if (Accesses::HoldsHandles(node.output_dtypes[k])) {
          accesses_.AddOrigins(first + static_cast<uint32_t>(k), accesses_.OriginsOf(results[k]));
        }
      }
      if (b + 1 < branches) jumps.push_back(Jump());
      region.end = Here();
      construct.regions.push_back(std::move(region));
    }
    for (uint32_t jump : jumps) LandHere(jump);
    construct.end = Here();
    body.region.constructs.push_back(std::move(construct));
    return absl::OkStatus();
  }

  //      variables = inputs; jump decide
  //   again:  body; variables = results
  //   decide: condition; loop -> again, end
  //   end:
  // What the body passes on unchanged is no variable of the loop: it is read where it is.
  absl::Status AddLoop(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    const Graph& condition = node.bodies[0];
    const Graph& loop_body = node.bodies[1];
    scope_.has_loop = true;
    std::vector<Plan::Ref> variables = ArgumentsOf(body, node);
    std::vector<Plan::Ref> initial;
    std::vector<size_t> carried;
    Construct construct;
    construct.loop = true;
    for (size_t k = 0; k < variables.size(); ++k) {
      if (loop_body.results[k] == Edge{loop_body.args[k], 0}) {
        if (!variables[k].constant) construct.kept.push_back(variables[k].index);
      } else {
        carried.push_back(k);
        initial.push_back(variables[k]);
      }
    }
    const uint32_t first = NewSlots(carried.size());
    construct.outputs = {first, static_cast<uint32_t>(carried.size())};
    const Accesses::OriginsPtr origins = accesses_.Carried(node, carried, variables);
    for (size_t c = 0; c < carried.size(); ++c) {
      variables[carried[c]] = {.index = first + static_cast<uint32_t>(c)};
      if (Accesses::HoldsHandles(node.output_dtypes[carried[c]])) {
        accesses_.AddOrigins(variables[carried[c]].index, origins);
      }
    }
    body.refs[i] = variables;
    Move(initial, first);
    const uint32_t jump = Jump();
    construct.begin = jump;
    construct.regions.resize(2);
    const uint32_t again = Here();
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> all,
                              EmitBody(loop_body, variables, construct.regions[0], false));
    std::vector<Plan::Ref> results;
    for (size_t k : carried) results.push_back(all[k]);
    SaveOverwritten(results, first);
    Move(results, first);
    construct.regions[0].end = Here();
    for (size_t c = 0; c < carried.size(); ++c) {
      if (!Accesses::HoldsHandles(node.output_dtypes[carried[c]])) continue;
      const Accesses::OriginsPtr made = accesses_.OriginsOf(results[c]);
      accesses_.NoteEscaped(made, origins);
      for (uint32_t slot = first; slot < first + carried.size(); ++slot) {
        accesses_.AddOrigins(slot, made);
      }
    }
    LandHere(jump);
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> decision,
                              EmitBody(condition, variables, construct.regions[1], false));
    const uint32_t decide = Here();
    Plan::Instruction& loop = NewInstruction(Plan::Code::kLoop, node.name, node.op);
    loop.target = NewTargets(2);
    loop.num_targets = 2;
    AddInput(decision[0]);
    plan_->targets[plan_->code[decide].target].instruction = again;
    LandHere(decide, 1);
    construct.regions[1].end = construct.end = Here();
    body.region.constructs.push_back(std::move(construct));
    return absl::OkStatus();
  }

  // The values of a loop's variables move one after the other: one that an earlier move would
  // overwrite is put aside first.
  void SaveOverwritten(std::vector<Plan::Ref>& results, uint32_t first) {
    std::vector<Plan::Ref> saved;
    std::vector<size_t> places;
    for (size_t c = 0; c < results.size(); ++c) {
      if (!results[c].constant && results[c].index >= first && results[c].index <= first + c) {
        saved.push_back(results[c]);
        places.push_back(c);
      }
    }
    const uint32_t aside = NewSlots(saved.size());
    Move(saved, aside);
    for (size_t s = 0; s < places.size(); ++s) {
      const uint32_t slot = aside + static_cast<uint32_t>(s);
      if (Accesses::OriginsPtr origins = accesses_.OriginsOf(saved[s])) {
        accesses_.AddOrigins(slot, origins);
      }
      results[places[s]] = {.index = slot};
    }
  }

  // What the step that has just been added does to resources.
  void NoteAccess(const Body& body, int32_t i, absl::FunctionRef<Access(size_t k)> access_by) {
    const Node& node = body.graph.nodes[i];
    Accesses::Step step{body.graph, node, body.top, {}, body.refs[i]};
    for (const Edge& edge : node.inputs) step.inputs.push_back(body.ref(edge));
    accesses_.NoteStep(step, access_by);
  }

  PlannerScope& scope_;
  const bool root_;
  std::shared_ptr<Plan> plan_;
  Accesses accesses_{*plan_, scope_, root_};
};

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> Emit(const Graph& graph, PlannerScope& scope, bool root) {
  return Emitter(scope, root).Run(graph);
}

}  // namespace formwork
