// Flattens a graph into a program: kernels, fused groups, branches, loops and calls.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/enqueued_step.h"
#include "core/plan/accesses.h"
#include "core/plan/fusion.h"
#include "core/plan/kept_values.h"
#include "core/plan/liveness.h"
#include "core/plan/memory.h"
#include "core/plan/planner_scope.h"
#include "core/plan/program_builder.h"
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

class Emitter : private ProgramBuilder {
 public:
  Emitter(PlannerScope& scope, bool root)
      : ProgramBuilder(scope.context), scope_(scope), root_(root) {}

  absl::StatusOr<std::shared_ptr<Plan>> Run(const Graph& graph) {
    plan_->name = graph.name;
    plan_->arg_dtypes = graph.arg_dtypes;
    plan_->arg_access.assign(graph.args.size(), Access::kNone);
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
    if (root_ && !on_device()) parts = SplitFixed(graph);
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
    NewInstruction(Plan::Code::kReturn, "", nullptr);
    whole.end = Here();
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

 private:
  // A graph on its way into the program.
  struct Body {
    const Graph& graph;
    Region& region;
    bool top;                                  // The plan's own, not that of a branch or loop.
    std::vector<std::vector<Plan::Ref>> refs;  // By node, by output.
    Copies copies = {};

    Plan::Ref ref(Edge edge) const { return refs[edge.node][edge.index]; }
  };

  // --- Memory, of a plan for a device -----------------------------------------------------------

  NodePlacement PlacementOf(const Body& body, const Node& node) const {
    std::vector<Plan::Memory> memory;
    for (const Edge& edge : node.inputs) memory.push_back(MemoryOf(body.ref(edge)));
    return Place(body.graph, node, memory);
  }
  // The kernel of a node's step, whose inputs are copied to where it wants them. `factory`: of its
  // kernel where it runs; `kernel`: made by that.
  absl::StatusOr<KernelFn> PutOnDevice(Body& body, const Node& node, KernelFactory factory,
                                       KernelFn kernel, const NodePlacement& placement,
                                       std::vector<Plan::Ref>& inputs) {
    DeviceNode step;
    step.name = node.name;
    step.op = node.op;
    step.attrs = node.attrs;
    step.output_dtypes = node.output_dtypes;
    step.effect = HasEffect(node);
    for (size_t k = 0; k < inputs.size(); ++k) {
      step.input_dtypes.push_back(body.graph.dtype(node.inputs[k]));
      if (placement.inputs[k]) inputs[k] = CopyTo(*placement.inputs[k], inputs[k], body.copies);
    }
    for (Plan::Memory output : placement.outputs) {
      step.host_outputs.push_back(output == Plan::Memory::kHost);
    }
    step.kernel = std::make_shared<const KernelFn>(std::move(kernel));
    if (placement.on_host) return MakeHostStep(std::move(step), placement.after_work);
    const KernelFactory host = context_.kernels.Find(node.op->name);
    if (host == factory) {
      step.host_kernel = step.kernel;
    } else if (host != nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(KernelFn made, MakeKernel(body, node, host));
      step.host_kernel = std::make_shared<const KernelFn>(std::move(made));
    }
    return MakeEnqueuedStep(std::move(step));
  }
  // Where a loop keeps a variable that starts as `initial`.
  Plan::Memory MemoryOfVariable(DType dtype, Plan::Ref initial) const {
    const bool stays = IsInteger(dtype) && MemoryOf(initial) == Plan::Memory::kHost;
    return stays ? Plan::Memory::kHost : MemoryByDType(dtype);
  }

  // The refs of the body's results. Fills `region`.
  absl::StatusOr<std::vector<Plan::Ref>> EmitBody(const Graph& graph,
                                                  absl::Span<const Plan::Ref> args, Region& region,
                                                  bool top) {
    region.begin = Here();
    Body body{graph, region, top, std::vector<std::vector<Plan::Ref>>(graph.nodes.size())};
    for (size_t i = 0; i < args.size(); ++i) body.refs[graph.args[i]] = {args[i]};
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

  //      variables = loads; hit, kept = recall(variables); branch hit -> recalled, anew
  //   recalled: values = kept; jump end
  //   anew:     values = body; keep(variables, values)
  //   end:
  // Adds variables and values to `args`.
  absl::Status EmitFixed(const FixedParts& parts, std::vector<Plan::Ref>& args, Region& whole) {
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> variables,
                              EmitBody(parts.loads, args, whole, true));
    const size_t count = parts.fixed.results.size();
    KeptValuesKernels kernels = MakeKeptValues(variables.size());
    const uint32_t hit = AddKeptKernel(std::move(kernels.recall), variables, 1 + count);
    Construct construct;
    construct.begin = Here();
    Plan::Instruction& choice = NewInstruction(Plan::Code::kBranch, "", nullptr);
    choice.target = NewTargets(2);
    choice.num_targets = 2;
    AddInput({.index = hit});
    const uint32_t first = NewSlots(count);
    construct.outputs = {first, static_cast<uint32_t>(count)};
    construct.regions.resize(2);
    LandHere(construct.begin, 0);
    construct.regions[0].begin = Here();
    std::vector<Plan::Ref> kept;
    for (uint32_t k = 0; k < count; ++k) kept.push_back({.index = hit + 1 + k});
    Move(kept, first);
    const uint32_t jump = Jump();
    construct.regions[0].end = Here();
    LandHere(construct.begin, 1);
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Plan::Ref> values,
                              EmitBody(parts.fixed, variables, construct.regions[1], false));
    std::vector<Plan::Ref> both = variables;
    both.insert(both.end(), values.begin(), values.end());
    AddKeptKernel(std::move(kernels.keep), both, 0);
    Move(values, first);
    construct.regions[1].end = Here();
    LandHere(jump);
    construct.end = Here();
    whole.constructs.push_back(std::move(construct));
    args.insert(args.end(), variables.begin(), variables.end());
    for (uint32_t k = 0; k < count; ++k) args.push_back({.index = first + k});
    return absl::OkStatus();
  }
  // Its first output.
  uint32_t AddKeptKernel(KernelFn kernel, const std::vector<Plan::Ref>& inputs, size_t outputs) {
    const uint32_t index = NewKernel(std::move(kernel));
    const uint32_t first = NewSlots(outputs);
    Plan::Instruction& instruction =
        NewInstruction(Plan::Code::kKernel, outputs > 0 ? "recall" : "keep", nullptr);
    instruction.outputs = {first, static_cast<uint32_t>(outputs)};
    instruction.target = index;
    for (const Plan::Ref& input : inputs) AddInput(input);
    return first;
  }

  std::vector<FusionUnit> Units(const Graph& graph) const {
    if (!on_device()) return PlanFusion(graph, context_.kernels);
    std::vector<FusionUnit> units(graph.nodes.size());
    for (size_t i = 0; i < units.size(); ++i) units[i].nodes = {static_cast<int32_t>(i)};
    return units;
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
    const bool fork = node.kind == NodeKind::kFork;
    if (!fork && node.op->control_flow == ControlFlow::kNone) return AddKernel(body, i);
    if (body.top && root_) scope_.releases.NoteFunction(Here());
    if (fork) return AddFork(body, i);
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

  static std::vector<Plan::Ref> InputsOf(const Body& body, const Node& node) {
    std::vector<Plan::Ref> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(body.ref(edge));
    return inputs;
  }

  // An instruction whose outputs are those of the node.
  Plan::Instruction& NewStep(Body& body, int32_t i, Plan::Code code, uint32_t target,
                             const std::vector<Plan::Ref>& inputs) {
    const Node& node = body.graph.nodes[i];
    const size_t outputs = node.output_dtypes.size();
    const uint32_t first = NewSlots(outputs);
    for (size_t k = 0; k < outputs; ++k) {
      body.refs[i].push_back({.index = first + static_cast<uint32_t>(k)});
    }
    Plan::Instruction& instruction = NewInstruction(code, node.name, node.op);
    instruction.outputs = {first, static_cast<uint32_t>(outputs)};
    instruction.target = target;
    for (const Plan::Ref& input : inputs) AddInput(input);
    return instruction;
  }

  absl::Status AddKernel(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    if (node.op->handle_of != nullptr) return AddHandle(body, i);
    std::optional<NodePlacement> placement;
    if (on_device()) placement = PlacementOf(body, node);
    const bool enqueued = placement && !placement->on_host;
    const KernelFactory factory =
        (enqueued ? device().kernels : context_.kernels).Find(node.op->name);
    if (factory == nullptr) {
      scope_.missing.push_back(absl::StrCat(node.op->name, " (node '", node.name, "')"));
      body.refs[i].resize(node.output_dtypes.size());
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeKernel(body, node, factory));
    std::vector<Plan::Ref> inputs = InputsOf(body, node);
    if (placement) {
      FORMWORK_ASSIGN_OR_RETURN(
          kernel, PutOnDevice(body, node, factory, std::move(kernel), *placement, inputs));
    }
    const uint32_t index = NewKernel(std::move(kernel));
    Plan::Instruction& instruction = NewStep(body, i, Plan::Code::kKernel, index, inputs);
    if (placement) {
      std::copy(placement->outputs.begin(), placement->outputs.end(),
                plan_->memory.end() - placement->outputs.size());
    }
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
      const KernelFactory factory = context_.kernels.Find(node.op->name);
      if (factory == nullptr) return false;
      FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeKernel(body, node, factory));
      kernels.push_back(std::move(kernel));
    }
    FORMWORK_ASSIGN_OR_RETURN(std::optional<FusedStep> fused,
                              MakeFusedStep(body.graph, unit, std::move(kernels)));
    if (!fused.has_value()) return false;
    NewUnitStep(body, unit, Plan::Code::kKernel, NewKernel(std::move(fused->kernel)));
    for (const Edge& edge : fused->inputs) AddInput(body.ref(edge));
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

  absl::Status AddHandle(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    FORMWORK_ASSIGN_OR_RETURN(ResourceType type, node.op->handle_of(*node.attrs));
    std::string name = node.attrs->GetOr<std::string>("shared_name", "");
    if (name == kAnonymousName || node.op->FindAttr("shared_name") == nullptr) {
      const uint32_t kernel =
          NewKernel([name = node.name, type = std::move(type)](KernelContext& ctx) {
            ctx.SetOutput(0, Tensor::Scalar(ctx.resources().CreateForCall(name, type)));
            return absl::OkStatus();
          });
      NewStep(body, i, Plan::Code::kKernel, kernel, {});
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
    const uint32_t kernel = NewKernel([index](KernelContext& ctx) {
      ctx.SetOutput(0, Tensor::Scalar(ctx.call().named_resource(index)));
      return absl::OkStatus();
    });
    NewStep(body, i, Plan::Code::kKernel, kernel, {});
    accesses_.NoteHandle(-1 - index, body.refs[i][0].index, body.top);
    return absl::OkStatus();
  }

  // --- Control flow -----------------------------------------------------------------------------

  absl::Status AddCall(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    const uint32_t index = *scope_.FindFunction(FunctionCall::Of(body.graph, node));
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
    std::vector<Plan::Ref> inputs = InputsOf(body, node);
    for (size_t k = 0; k < inputs.size(); ++k) {
      inputs[k] = CopyTo(MemoryByDType(body.graph.dtype(node.inputs[k])), inputs[k], body.copies);
    }
    NewStep(body, i, Plan::Code::kCall, call, inputs);
    for (size_t k = 0; on_device() && k < node.output_dtypes.size(); ++k) {
      plan_->memory[body.refs[i][k].index] = MemoryByDType(node.output_dtypes[k]);
    }
    if (callee.last_effect >= 0) plan_->last_effect = Here() - 1;
    NoteAccess(body, i, [&callee](size_t k) { return callee.arg_access[k]; });
    return absl::OkStatus();
  }

  absl::Status AddFork(Body& body, int32_t i) {
    const Node& node = body.graph.nodes[i];
    const uint32_t first = static_cast<uint32_t>(plan_->calls.size());
    std::vector<Access> access;
    for (const Graph& lane : node.bodies) {
      FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, Emit(lane, scope_, /*root=*/false));
      access.insert(access.end(), plan->arg_access.begin(), plan->arg_access.end());
      plan_->calls.push_back({static_cast<uint32_t>(scope_.functions.size())});
      scope_.functions.push_back(std::move(plan));
    }
    NewStep(body, i, Plan::Code::kFork, first, InputsOf(body, node)).num_targets =
        static_cast<uint32_t>(node.bodies.size());
    NoteAccess(body, i, [&access](size_t k) { return access[k]; });
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
    const Plan::Ref selector = CopyTo(Plan::Memory::kHost, body.ref(node.inputs[0]), body.copies);
    construct.begin = Here();
    Plan::Instruction& choice = NewInstruction(
        node.op->control_flow == ControlFlow::kIf ? Plan::Code::kBranch : Plan::Code::kSwitch,
        node.name, node.op);
    choice.target = NewTargets(branches);
    choice.num_targets = static_cast<uint32_t>(branches);
    AddInput(selector);
    const size_t outputs = node.output_dtypes.size();
    const uint32_t first = plan_->num_slots;
    for (DType dtype : node.output_dtypes) NewSlots(1, MemoryByDType(dtype));
    construct.outputs = {first, static_cast<uint32_t>(outputs)};
    for (size_t k = 0; k < outputs; ++k) {
      body.refs[i].push_back({.index = first + static_cast<uint32_t>(k)});
    }
    std::vector<uint32_t> jumps;
    for (size_t b = 0; b < branches; ++b) {
      LandHere(construct.begin, b);
      Region region;
      FORMWORK_ASSIGN_OR_RETURN(std::vector<Plan::Ref> results,
                                EmitBody(node.bodies[b], arguments, region, false));
      for (size_t k = 0; k < outputs; ++k) {
        results[k] = CopyTo(MemoryByDType(node.output_dtypes[k]), results[k]);
      }
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
    std::vector<Plan::Memory> memory;
    for (size_t k = 0; k < variables.size(); ++k) {
      const bool kept = loop_body.results[k] == Edge{loop_body.args[k], 0};
      if (on_device()) {  // Before the loop: not once for each iteration.
        const Plan::Memory wanted = MemoryOfVariable(node.output_dtypes[k], variables[k]);
        variables[k] = CopyTo(wanted, variables[k], body.copies);
        if (!kept) memory.push_back(wanted);
      }
      if (kept) {
        if (!variables[k].constant) construct.kept.push_back(variables[k].index);
      } else {
        carried.push_back(k);
        initial.push_back(variables[k]);
      }
    }
    const uint32_t first = NewSlots(carried.size());
    std::copy(memory.begin(), memory.end(), plan_->memory.end() - memory.size());
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
    for (size_t c = 0; c < memory.size(); ++c) results[c] = CopyTo(memory[c], results[c]);
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
    const Plan::Ref decided = CopyTo(Plan::Memory::kHost, decision[0]);
    const uint32_t decide = Here();
    Plan::Instruction& loop = NewInstruction(Plan::Code::kLoop, node.name, node.op);
    loop.target = NewTargets(2);
    loop.num_targets = 2;
    AddInput(decided);
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
    const uint32_t aside = plan_->num_slots;
    for (const Plan::Ref& ref : saved) {
      NewSlots(1, on_device() ? MemoryOf(ref) : Plan::Memory::kHost);
    }
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
  Accesses accesses_{*plan_, scope_, root_};
};

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> Emit(const Graph& graph, PlannerScope& scope, bool root) {
  return Emitter(scope, root).Run(graph);
}

}  // namespace formwork
