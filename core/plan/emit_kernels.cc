// The steps of nodes that have a kernel: alone, fused, of scalars, on a device.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/enqueued_step.h"
#include "core/kernels/kernel_function.h"
#include "core/ops/reshape.h"
#include "core/plan/emitter.h"
#include "core/plan/scalars.h"

namespace formwork {
namespace {

// One node's view for its kernel factory.
class NodeInit final : public KernelInit {
 public:
  using Functions =
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<const KernelFunction>>(const FuncAttr&)>;

  // `functions` compiles one that the attrs name; it outlives this. `first_state`: of the plan's
  // states; those from there on are the node's, which its other kernel has made.
  NodeInit(const Graph& graph, const Node& node, Plan& plan, size_t first_state,
           Functions functions)
      : node_(node), plan_(plan), next_state_(first_state), functions_(functions) {
    for (const Edge& edge : node.inputs) input_dtypes_.push_back(graph.dtype(edge));
  }

  absl::string_view node_name() const override { return node_.name; }
  const OpDef& op() const override { return *node_.op; }
  const AttrMap& attrs() const override { return *node_.attrs; }
  absl::Span<const DType> input_dtypes() const override { return input_dtypes_; }
  absl::Span<const DType> output_dtypes() const override { return node_.output_dtypes; }
  int NewState(int count) override {
    if (next_state_ == plan_.states.size()) {
      plan_.states.push_back({node_.name, {plan_.num_state, static_cast<uint32_t>(count)}, {}});
      plan_.num_state += static_cast<uint32_t>(count);
    }
    return static_cast<int>(plan_.states[next_state_++].numbers.first);
  }
  absl::StatusOr<std::shared_ptr<const KernelFunction>> Function(size_t index) override {
    const std::vector<const FuncAttr*> named = FunctionsOf(*node_.op, *node_.attrs);
    if (index >= named.size()) return InvalidArgument("it names too few functions");
    return functions_(*named[index]);
  }

 private:
  const Node& node_;
  Plan& plan_;
  size_t next_state_;
  const Functions functions_;
  std::vector<DType> input_dtypes_;
};

}  // namespace

absl::Status Emitter::AddKernel(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  if (node.op->handle_of != nullptr) return AddHandle(body, i);
  std::optional<NodePlacement> placement;
  KernelFn of_device;
  const size_t first_state = plan_->states.size();
  // A step of the device does these without a kernel.
  const bool moves_variable = node.op->loads_variable || node.op->stores_variable;
  if (on_device()) placement = PlacementOf(body, node);
  if (placement && !placement->on_host && !moves_variable) {
    FORMWORK_ASSIGN_OR_RETURN(of_device, MakeDeviceKernel(body, node));
    if (of_device == nullptr) {
      placement = PlaceOnHost(body.graph.nodes, node);
      scope_.fallbacks.push_back({node.op, node.name});
      scope_.bytes += sizeof(Plan::Fallback) + node.name.size();
    }
  }
  functions_access_ = Access::kNone;
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel, MakeKernel(body, node, context_.kernels, first_state));
  if (kernel == nullptr && of_device == nullptr) {
    scope_.missing.push_back(absl::StrCat(node.op->name, " (node '", node.name, "')"));
    body.refs[i].resize(node.output_dtypes.size());
    return absl::OkStatus();
  }
  std::vector<Plan::Ref> inputs = InputsOf(body, node);
  if (placement) {
    stream_ = StreamOf(body, i, *placement, of_device != nullptr || moves_variable);
    FORMWORK_ASSIGN_OR_RETURN(kernel, PutOnDevice(body, node, *placement, std::move(of_device),
                                                  std::move(kernel), inputs));
    if (!placement->on_host) PrepareWaits(stream_, inputs);
  }
  const uint32_t index = NewKernel(std::move(kernel));
  Plan::Instruction& instruction = NewStep(body, i, Plan::Code::kKernel, index, inputs);
  if (node.group != nullptr) NoteParts(*node.group);
  if (placement) {
    std::copy(placement->outputs.begin(), placement->outputs.end(),
              plan_->memory.end() - placement->outputs.size());
    if (!placement->on_host) {
      NoteStep(stream_, inputs);
    } else if (node.op->forwards_inputs) {
      for (size_t k = 0; k < inputs.size(); ++k) clocks_.NoteSame(body.refs[i][k].index, inputs[k]);
    } else if (KeepsElements(node.op->name)) {
      clocks_.NoteSame(body.refs[i][0].index, inputs[0]);
    }
    stream_ = 0;
  }
  scope_.open_ended = scope_.open_ended || node.op->waits;
  instruction.effect = HasEffect(node);
  if (instruction.effect) plan_->last_effect = Here() - 1;
  scope_.sized_by_value =
      scope_.sized_by_value || (node.op->sized_by_value && !IntegersAreConstant(body, node));
  Access access = functions_access_;
  if (node.op->effect == Effect::kRead) {
    access = std::max(access, Access::kRead);
  } else if (node.op->effect != Effect::kNone && node.op->control_flow != ControlFlow::kKernel) {
    access = Access::kWrite;
  }
  NoteAccess(body, i, [access](size_t) { return access; });
  return absl::OkStatus();
}

absl::Status Emitter::AddHandle(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  FORMWORK_ASSIGN_OR_RETURN(ResourceType type, node.op->handle_of(*node.attrs));
  std::string name = node.attrs->GetOr<std::string>("shared_name", "");
  if (!NamesResource(node)) {
    scope_.hides_resources = true;
    const uint32_t kernel =
        NewKernel([name = node.name, type = std::move(type)](KernelContext& ctx) {
          ctx.SetOutput(0, Tensor::Scalar(ctx.resources().CreateForCall(name, type)));
          // Of an old op, what lets go of the resource: the call's end does.
          if (ctx.num_outputs() > 1) ctx.SetOutput(1, Tensor::VariantScalar(nullptr));
          return absl::OkStatus();
        });
    NewStep(body, i, Plan::Code::kKernel, kernel, {});
    return AddBeginning(body, i);
  }
  if (name.empty()) name = node.name;
  const std::string container = node.attrs->GetOr<std::string>("container", "");
  if (!container.empty()) name = absl::StrCat(container, "/", name);
  absl::StatusOr<int> named = NamedResourceIndex(name, type);
  if (!named.ok()) return Annotate(named.status(), absl::StrCat("node '", node.name, "'"));
  const int index = *named;
  const uint32_t kernel = NewKernel([index](KernelContext& ctx) {
    ctx.SetOutput(0, Tensor::Scalar(ctx.call().named_resource(index)));
    return absl::OkStatus();
  });
  NewStep(body, i, Plan::Code::kKernel, kernel, {});
  accesses_.NoteHandle(-1 - index, body.refs[i][0].index, body.top);
  return AddBeginning(body, i);
}

absl::Status Emitter::AddBeginning(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel,
                            MakeKernel(body, node, context_.kernels, plan_->states.size()));
  if (kernel == nullptr) return absl::OkStatus();
  // It is given the handle, and what the op is.
  Node begun = node;
  begun.inputs.insert(begun.inputs.begin(), {i, 0});
  begun.output_dtypes.clear();
  std::vector<Plan::Ref> inputs = InputsOf(body, begun);
  if (on_device() && !node.inputs.empty()) {
    NodePlacement placement;
    placement.on_host = true;
    placement.inputs.assign(inputs.size(), Plan::Memory::kHost);
    FORMWORK_ASSIGN_OR_RETURN(
        kernel, PutOnDevice(body, begun, placement, KernelFn(), std::move(kernel), inputs));
  }
  Plan::Instruction& instruction = NewInstruction(Plan::Code::kKernel, node.name, node.op);
  instruction.target = NewKernel([begin = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const ResourceHandle handle = ctx.input(0).scalar<ResourceHandle>();
    const bool is_new = !ctx.resources().IsInitialized(handle);
    FORMWORK_RETURN_IF_ERROR(begin(ctx));
    if (is_new) ctx.call().stop().NoteEffect();
    return absl::OkStatus();
  });
  plan_->last_effect = Here() - 1;
  for (const Plan::Ref& input : inputs) AddInput(input);
  accesses_.NoteStep({body.graph, begun, body.top, std::move(inputs), {}},
                     [](size_t) { return Access::kWrite; });
  return absl::OkStatus();
}

absl::StatusOr<int> Emitter::NamedResourceIndex(const std::string& name, const ResourceType& type) {
  const auto [found, inserted] =
      scope_.named_index.try_emplace(name, scope_.named_resources.size());
  const int index = static_cast<int>(found->second);
  if (inserted) {
    scope_.named_resources.push_back({name, type, Access::kNone});
  } else if (!scope_.named_resources[index].type.IsCompatibleWith(type)) {
    return InvalidArgument("resource '", name,
                           "' is of two types: ", scope_.named_resources[index].type.ToString(),
                           " and ", type.ToString());
  }
  return index;
}

namespace {

// Whether no step of it has an effect or waits.
bool HasQuietSteps(const Plan& plan) {
  for (size_t i = 0; i < plan.code.size(); ++i) {
    if (plan.code[i].effect || plan.code[i].releases.count > 0) return false;
    const OpDef* const op = plan.labels[i].op;
    if (op == nullptr) continue;  // Of several, without effects.
    const bool pure =
        op->effect == Effect::kNone || op->effect == Effect::kRandom || op->effect == Effect::kRead;
    if (!pure || op->waits || op->handle_of != nullptr) return false;
  }
  return true;
}

// Whether it is as KernelFunction::side_by_side says.
bool RunsSideBySide(const Plan& plan) {
  if (plan.num_state > 0 || !plan.functions.empty() || !plan.named_resources.empty()) return false;
  const auto runs_functions = [](const Plan::Label& label) {
    return label.op != nullptr && label.op->control_flow == ControlFlow::kKernel;
  };
  return HasQuietSteps(plan) &&
         std::none_of(plan.labels.begin(), plan.labels.end(), runs_functions);
}

// Whether it is as KernelFunction::quiet says.
bool IsQuiet(const Plan& plan) {
  if (!plan.quiet_kernels || plan.late_handles || !plan.named_resources.empty()) return false;
  for (Access access : plan.arg_access) {
    if (access != Access::kNone) return false;
  }
  return HasQuietSteps(plan) &&
         std::all_of(plan.functions.begin(), plan.functions.end(),
                     [](const auto& called) { return HasQuietSteps(*called); });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const KernelFunction>> Emitter::KernelFunctionOf(
    const FuncAttr& attr) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                            PlanKernelFunction(attr.name, scope_));
  auto function = std::make_shared<KernelFunction>();
  if (plan->late_handles) scope_.late_handles = true;
  for (Access access : plan->arg_access) function->access = std::max(function->access, access);
  functions_access_ = std::max(functions_access_, function->access);
  for (const NamedResource& own : plan->named_resources) {
    FORMWORK_ASSIGN_OR_RETURN(const int index, NamedResourceIndex(own.name, own.type));
    // It may run as long as the call does.
    Access& access = scope_.named_resources[index].access;
    access = std::max(access, own.access);
    function->access = std::max(function->access, own.access);
    scope_.releases.Keep(-1 - index);
    scope_.hides_resources = true;
    function->named.push_back(index);
  }
  if (on_device() && (functions_access_ != Access::kNone || !function->named.empty())) {
    return Unimplemented("function '", attr.name,
                         "' uses resources, which a function of a dataset cannot on a device");
  }
  scope_.open_ended = true;  // As often as there are elements.
  function->arg_dtypes = plan->arg_dtypes;
  function->result_dtypes = plan->result_dtypes;
  function->side_by_side = !on_device() && RunsSideBySide(*plan);
  function->quiet = !on_device() && IsQuiet(*plan);
  scope_.quiet_kernels = scope_.quiet_kernels && function->quiet;
  function->definitions = scope_.definitions;
  function->plan = std::move(plan);
  return function;
}

absl::StatusOr<bool> Emitter::AddFused(Body& body, const FusionUnit& unit) {
  std::vector<KernelFn> kernels;
  for (int32_t i : unit.nodes) {
    const Node& node = body.graph.nodes[i];
    FORMWORK_ASSIGN_OR_RETURN(KernelFn kernel,
                              MakeKernel(body, node, context_.kernels, plan_->states.size()));
    if (kernel == nullptr) return false;
    kernels.push_back(std::move(kernel));
  }
  FORMWORK_ASSIGN_OR_RETURN(std::optional<FusedStep> fused,
                            MakeFusedStep(body.graph, unit, std::move(kernels)));
  if (!fused.has_value()) return false;
  NewUnitStep(body, unit, Plan::Code::kKernel, NewKernel(std::move(fused->kernel)));
  for (const Edge& edge : fused->inputs) AddInput(body.ref(edge));
  for (int32_t i : unit.stores) AddInput(body.ref(body.graph.nodes[i].inputs[0]));
  for (int32_t i : unit.stores) {
    plan_->code.back().effect = true;
    plan_->last_effect = Here() - 1;
    const Node& store = body.graph.nodes[i];
    // The value stays inside of the step.
    accesses_.NoteStep(
        {body.graph, store, body.top, {body.ref(store.inputs[0]), {.constant = true}}, {}},
        [](size_t) { return Access::kWrite; });
  }
  return true;
}

void Emitter::AddScalars(Body& body, const FusionUnit& unit) {
  ScalarStep step = MakeScalarStep(body.graph, unit);
  NewUnitStep(body, unit, Plan::Code::kScalar, plan_->scalars.size());
  for (const ScalarStep::Source& source : step.inputs) {
    AddInput(source.constant == nullptr ? body.ref(source.edge) : NewConstant(*source.constant));
  }
  const auto loops = [](const auto& instruction) {
    return instruction.code == ScalarProgram::Code::kLoop;
  };
  scope_.open_ended =
      scope_.open_ended || std::any_of(step.program.code.begin(), step.program.code.end(), loops);
  plan_->num_registers = std::max<uint32_t>(plan_->num_registers, step.program.num_registers);
  scope_.bytes += step.program.bytes();
  plan_->scalars.push_back(std::move(step.program));
}

absl::StatusOr<KernelFn> Emitter::MakeKernel(const Body& body, const Node& node,
                                             const KernelRegistry& kernels, size_t first_state) {
  const auto compile = [this](const FuncAttr& function) { return KernelFunctionOf(function); };
  absl::StatusOr<KernelFn> kernel = KernelFn();
  if (node.group != nullptr) {
    kernel = kernels.groups()->make(*node.group);
  } else if (const KernelFactory factory = kernels.Find(node.op->name)) {
    NodeInit init(body.graph, node, *plan_, first_state, compile);
    kernel = factory(init);
  }
  if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("node '", node.name, "'"));
  return kernel;
}

NodePlacement Emitter::PlacementOf(const Body& body, const Node& node) const {
  std::vector<Plan::Memory> memory;
  for (const Edge& edge : node.inputs) memory.push_back(MemoryOf(body.ref(edge)));
  return Place(body.graph.nodes, node, memory);
}

int Emitter::StreamOf(const Body& body, int32_t i, const NodePlacement& placement,
                      bool enqueued) const {
  const bool on_device =
      std::all_of(placement.outputs.begin(), placement.outputs.end(),
                  [](Plan::Memory memory) { return memory == Plan::Memory::kDevice; });
  return body.streams.empty() || !enqueued || !on_device ? 0 : body.streams[i];
}

absl::StatusOr<KernelFn> Emitter::MakeDeviceKernel(const Body& body, const Node& node) {
  absl::StatusOr<KernelFn> kernel = MakeKernel(body, node, device().kernels, plan_->states.size());
  // Of a dtype, say, that the host's takes.
  if (absl::IsUnimplemented(kernel.status())) return KernelFn();
  return kernel;
}

absl::StatusOr<KernelFn> Emitter::PutOnDevice(Body& body, const Node& node,
                                              const NodePlacement& placement, KernelFn kernel,
                                              KernelFn host_kernel,
                                              std::vector<Plan::Ref>& inputs) {
  DeviceNode step;
  step.name = node.name;
  step.op = node.op;
  step.attrs = node.attrs;
  step.output_dtypes = node.output_dtypes;
  step.group = node.group;
  step.effect = HasEffect(node);
  for (size_t k = 0; k < inputs.size(); ++k) {
    step.input_dtypes.push_back(body.graph.dtype(node.inputs[k]));
    if (placement.inputs[k]) inputs[k] = CopyTo(*placement.inputs[k], inputs[k], body.copies);
  }
  for (Plan::Memory output : placement.outputs) {
    step.host_outputs.push_back(output == Plan::Memory::kHost);
  }
  if (kernel != nullptr) step.kernel = std::make_shared<const KernelFn>(std::move(kernel));
  if (host_kernel != nullptr) {
    step.host_kernel = std::make_shared<const KernelFn>(std::move(host_kernel));
  }
  if (placement.on_host) return MakeHostStep(std::move(step), placement.after_work);
  return MakeEnqueuedStep(std::move(step));
}

Plan::Instruction& Emitter::NewStep(Body& body, int32_t i, Plan::Code code, uint32_t target,
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

void Emitter::NewUnitStep(Body& body, const FusionUnit& unit, Plan::Code code, size_t target) {
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
  const auto add_part = [&](int32_t i) {
    const Node& node = body.graph.nodes[i];
    if (node.kind == NodeKind::kOp) NotePart(node.name);
  };
  std::for_each(unit.nodes.begin(), unit.nodes.end(), add_part);
  std::for_each(unit.stores.begin(), unit.stores.end(), add_part);
}

void Emitter::NotePart(const std::string& node) {
  plan_->labels.back().parts.push_back(node);
  scope_.bytes += sizeof(std::string) + node.size();
}

void Emitter::NoteParts(const ElementGroup& group) {
  for (const ElementGroup::Instruction& instruction : group.instructions) {
    NotePart(instruction.node);
  }
  for (const ElementGroup::Store& store : group.stores) NotePart(store.node);
  if (group.reduction.has_value()) NotePart(group.reduction->node);
}

void Emitter::NoteAccess(const Body& body, int32_t i,
                         absl::FunctionRef<Access(size_t k)> access_by) {
  const Node& node = body.graph.nodes[i];
  Accesses::Step step{body.graph, node, body.top, {}, body.refs[i]};
  for (const Edge& edge : node.inputs) step.inputs.push_back(body.ref(edge));
  accesses_.NoteStep(step, access_by);
}

std::vector<Plan::Ref> Emitter::InputsOf(const Body& body, const Node& node) {
  std::vector<Plan::Ref> inputs;
  for (const Edge& edge : node.inputs) inputs.push_back(body.ref(edge));
  return inputs;
}

bool Emitter::IntegersAreConstant(const Body& body, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&body](const Edge& edge) {
    const DType dtype = body.graph.dtype(edge);
    return (dtype != DType::kInt32 && dtype != DType::kInt64) || body.ref(edge).constant;
  });
}

}  // namespace formwork
