#include "core/plan/planner.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "absl/strings/str_join.h"
#include "core/base/hash_map.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/plan/fusion.h"
#include "core/plan/releases.h"

namespace formwork {
namespace {

// TensorFlow gives this shared_name to variables that nobody else is to find.
constexpr absl::string_view kAnonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

Access Stronger(Access a, Access b) { return std::max(a, b); }

// Which parameters (>= 0) and named variables (-1 - index) a handle may be. Ascending.
using Origins = absl::InlinedVector<int32_t, 2>;

void Merge(Origins& into, const Origins& from) {
  Origins both;
  both.reserve(into.size() + from.size());
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(both));
  into = std::move(both);
}

// What the plans of one request share.
struct PlannerScope {
  PlannerScope(const GraphLibrary& library, const PlannerContext& context)
      : library(library), context(context) {}

  const GraphLibrary& library;
  const PlannerContext& context;
  std::vector<NamedVariable> named_variables;
  HashMap<std::string, size_t> named_index;  // Their places, by name.
  Releases releases;
  int num_counters = 0;
  bool has_loop = false;
  bool sized_by_value = false;
  size_t bytes = 0;
  PassBudget budget;
  std::vector<std::string> missing;  // "Op (node 'x')"
  // Nested functions by name.
  std::map<std::string, std::shared_ptr<const Plan>> plans;
};

// `root`: not a nested function's.
absl::StatusOr<std::shared_ptr<Plan>> BuildPlan(Graph graph,
                                                const std::vector<PartialShape>& arg_shapes,
                                                PlannerScope& scope, bool root);

// One node's view for its kernel factory.
class NodeInit final : public KernelInit {
 public:
  NodeInit(const Node& node, std::vector<DType> input_dtypes, PlannerScope& scope)
      : node_(node), input_dtypes_(std::move(input_dtypes)), scope_(scope) {}

  absl::string_view node_name() const override { return node_.name; }
  const OpDef& op() const override { return *node_.op; }
  const AttrMap& attrs() const override { return *node_.attrs; }
  absl::Span<const DType> input_dtypes() const override { return input_dtypes_; }
  absl::Span<const DType> output_dtypes() const override { return node_.output_dtypes; }
  int NewCounter() override { return scope_.num_counters++; }

  absl::StatusOr<std::shared_ptr<const Callee>> MakeCallee(const FuncAttr& function) override {
    std::shared_ptr<const Plan>& plan = scope_.plans[function.name];
    if (plan == nullptr) {
      auto graph = scope_.library.find(function.name);
      if (graph == scope_.library.end()) {
        return InvalidArgument("function '", function.name, "' is not in the library");
      }
      const std::vector<PartialShape> unknown(graph->second->args.size());
      FORMWORK_ASSIGN_OR_RETURN(plan, BuildPlan(*graph->second, unknown, scope_, false));
    }
    callees_.push_back(plan);
    return scope_.context.make_callee(plan);
  }
  const std::vector<std::shared_ptr<const Plan>>& callees() const { return callees_; }

 private:
  const Node& node_;
  std::vector<DType> input_dtypes_;
  PlannerScope& scope_;
  std::vector<std::shared_ptr<const Plan>> callees_;
};

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, PlannerScope& scope, bool root)
      : graph_(graph), scope_(scope), root_(root), plan_(std::make_shared<Plan>()) {}

  absl::StatusOr<std::shared_ptr<Plan>> Build() {
    plan_->name = graph_.name;
    plan_->arg_dtypes = graph_.arg_dtypes;
    plan_->arg_access.assign(graph_.args.size(), Access::kNone);
    refs_of_.resize(graph_.nodes.size());
    origins_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.args.size(); ++i) {
      refs_of_[graph_.args[i]] = {{.index = static_cast<uint32_t>(i)}};
      origins_[graph_.args[i]] = {static_cast<int32_t>(i)};
    }
    plan_->num_slots = static_cast<uint32_t>(graph_.args.size());
    for (const FusionUnit& unit : PlanFusion(graph_)) {
      if (WorkIsCut()) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(AddUnit(unit));
    }
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    for (const Edge& result : graph_.results) {
      plan_->results.push_back(refs_of_[result.node][result.index]);
      plan_->result_dtypes.push_back(graph_.dtype(result));
      const auto& shapes = graph_.nodes[result.node].output_shapes;
      plan_->result_shapes.push_back(shapes.empty() ? PartialShape() : shapes[result.index]);
    }
    FindLastUses();
    if (root_) scope_.releases.AddTo(*plan_, [this](int32_t origin) { return Written(origin); });
    for (const Tensor& constant : plan_->constants) scope_.bytes += constant.bytes();
    scope_.bytes += plan_->steps.size() * (sizeof(Plan::Step) + 64) + sizeof(Plan);
    return plan_;
  }

 private:
  absl::Status AddUnit(const FusionUnit& unit) {
    if (unit.nodes.size() > 1) {
      absl::StatusOr<bool> fused = AddFused(unit);
      if (!fused.ok()) return fused.status();
      if (*fused) return absl::OkStatus();
    }
    for (int32_t i : unit.nodes) {
      const Node& node = graph_.nodes[i];
      if (node.kind == NodeKind::kArg) continue;
      if (node.kind == NodeKind::kConstant) {
        refs_of_[i] = {{.constant = true, .index = static_cast<uint32_t>(plan_->constants.size())}};
        plan_->constants.push_back(node.constant);
        continue;
      }
      FORMWORK_RETURN_IF_ERROR(AddStep(i));
    }
    return absl::OkStatus();
  }

  void AddInput(Edge edge) { plan_->refs.push_back(refs_of_[edge.node][edge.index]); }

  Plan::Step NewStep(std::string name, size_t num_inputs, size_t num_outputs) {
    Plan::Step step;
    step.name = std::move(name);
    step.first_input = static_cast<uint32_t>(plan_->refs.size());
    step.num_inputs = static_cast<uint32_t>(num_inputs);
    step.first_output = plan_->num_slots;
    step.num_outputs = static_cast<uint32_t>(num_outputs);
    plan_->num_slots += step.num_outputs;
    return step;
  }

  absl::Status AddStep(int32_t i) {
    const Node& node = graph_.nodes[i];
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      refs_of_[i].push_back({.index = plan_->num_slots + static_cast<uint32_t>(k)});
    }
    Plan::Step step =
        NewStep(absl::StrCat("'", node.name, "'"), node.inputs.size(), node.output_dtypes.size());
    for (const Edge& edge : node.inputs) AddInput(edge);
    if (node.op->names_variable && AddNamedVariable(i, step)) {
      plan_->steps.push_back(std::move(step));
      return absl::OkStatus();
    }
    std::vector<DType> dtypes;
    for (const Edge& edge : node.inputs) dtypes.push_back(graph_.dtype(edge));
    KernelFactory factory = scope_.context.kernels.Find(node.op->name);
    if (factory == nullptr) {
      scope_.missing.push_back(absl::StrCat(node.op->name, " (node '", node.name, "')"));
      return absl::OkStatus();
    }
    NodeInit init(node, std::move(dtypes), scope_);
    absl::StatusOr<KernelFn> kernel = factory(init);
    if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("node '", node.name, "'"));
    step.kernel = *std::move(kernel);
    step.effect = init.callees().empty() &&
                  (node.op->effect == Effect::kWrite || node.op->effect == Effect::kExternal ||
                   node.op->effect == Effect::kSelfOrdered);
    const bool calls_with_effects =
        std::any_of(init.callees().begin(), init.callees().end(),
                    [](const auto& callee) { return callee->last_effect_step >= 0; });
    if (step.effect || calls_with_effects) {
      plan_->last_effect_step = static_cast<int>(plan_->steps.size());
    }
    scope_.sized_by_value =
        scope_.sized_by_value || (node.op->sized_by_value && !IntegersAreConstant(node));
    scope_.has_loop = scope_.has_loop || node.op->FindAttr("body") != nullptr;
    if (root_ && !init.callees().empty()) {
      scope_.releases.NoteFunction(static_cast<uint32_t>(plan_->steps.size()));
    }
    NoteAccess(i, init.callees());
    plan_->steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  // Whether what may say how large a result is, is known.
  bool IntegersAreConstant(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [this](const Edge& edge) {
      const DType dtype = graph_.dtype(edge);
      return (dtype != DType::kInt32 && dtype != DType::kInt64) ||
             graph_.nodes[edge.node].kind == NodeKind::kConstant;
    });
  }

  // False for an anonymous one, which has a kernel of its own.
  bool AddNamedVariable(int32_t i, Plan::Step& step) {
    const Node& node = graph_.nodes[i];
    std::string name = node.attrs->GetOr<std::string>("shared_name", "");
    if (name == kAnonymousName) return false;
    if (name.empty()) name = node.name;
    const std::string container = node.attrs->GetOr<std::string>("container", "");
    if (!container.empty()) name = absl::StrCat(container, "/", name);
    const DType dtype = node.attrs->GetOr<DType>("dtype", DType::kInvalid);
    const PartialShape shape = node.attrs->GetOr<PartialShape>("shape", PartialShape());
    const auto [found, inserted] =
        scope_.named_index.try_emplace(name, scope_.named_variables.size());
    const size_t index = found->second;
    if (inserted) scope_.named_variables.push_back({name, dtype, shape, Access::kNone});
    step.kernel = KernelFn([index](KernelContext& ctx) -> absl::Status {
      ctx.SetOutput(0, Tensor::Scalar(ctx.call().named_variable(static_cast<int>(index))));
      return absl::OkStatus();
    });
    origins_[i] = {-1 - static_cast<int32_t>(index)};
    return true;
  }

  // What a node does to the variable behind its k-th input.
  static Access AccessBy(const Node& node, size_t k,
                         const std::vector<std::shared_ptr<const Plan>>& callees) {
    if (callees.empty()) {
      if (node.op->effect == Effect::kRead) return Access::kRead;
      return node.op->effect == Effect::kNone ? Access::kNone : Access::kWrite;
    }
    Access access = Access::kNone;
    for (const auto& callee : callees) {
      // A conditional's first input is its own; the rest are the function's.
      const size_t before = node.inputs.size() - callee->arg_access.size();
      if (k >= before) access = Stronger(access, callee->arg_access[k - before]);
    }
    return access;
  }
  // What a node does to the variables behind its handles. Ends early where the work is cut.
  void NoteAccess(int32_t i, const std::vector<std::shared_ptr<const Plan>>& callees) {
    const Node& node = graph_.nodes[i];
    // A handle may go into a variant, and be taken out of it again.
    const bool holds_handles = std::find(node.output_dtypes.begin(), node.output_dtypes.end(),
                                         DType::kVariant) != node.output_dtypes.end();
    // A node's handles are not told apart: those of one source together, with what is done to any.
    std::map<int32_t, Access> sources;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (WorkIsCutAt(static_cast<int64_t>(k), kDearItems)) return;
      const Edge edge = node.inputs[k];
      if (graph_.dtype(edge) != DType::kResource) continue;
      Access& access = sources[edge.node];
      access = Stronger(access, AccessBy(node, k, callees));
    }
    for (const auto& [from, access] : sources) {
      if (WorkIsCut()) return;
      const Origins& origins = origins_[from];
      const Node& source = graph_.nodes[from];
      std::optional<uint32_t> slot;
      if (source.kind == NodeKind::kArg || source.op->names_variable) {
        slot = refs_of_[from][0].index;
      }
      for (int32_t origin : origins) {
        Note(origin, access);
        if (root_) {
          scope_.releases.Note(origin, static_cast<uint32_t>(plan_->steps.size()), slot);
          if (holds_handles) scope_.releases.Keep(origin);
        } else if (origin < 0) {
          scope_.releases.Keep(origin);
        }
      }
      Merge(origins_[i], origins);
    }
  }
  bool Written(int32_t origin) const {
    return (origin >= 0 ? plan_->arg_access[origin] : scope_.named_variables[-1 - origin].access) ==
           Access::kWrite;
  }
  void Note(int32_t origin, Access access) {
    Access& noted =
        origin >= 0 ? plan_->arg_access[origin] : scope_.named_variables[-1 - origin].access;
    noted = Stronger(noted, access);
  }

  absl::StatusOr<bool> AddFused(const FusionUnit& unit);

  // Marks where each slot is read last, so that the kernel there may take the value over.
  void FindLastUses() {
    Plan& plan = *plan_;
    std::vector<bool> used(plan.num_slots, false);
    std::vector<int32_t> reads(plan.num_slots, 0);  // By one step.
    auto count_reads = [&](const Plan::Step& step, int32_t by) {
      for (uint32_t k = 0; k < step.num_inputs; ++k) {
        const Plan::Ref& ref = plan.refs[step.first_input + k];
        if (!ref.constant) reads[ref.index] += by;
      }
    };
    for (size_t i = plan.results.size(); i-- > 0;) {
      Plan::Ref& ref = plan.results[i];
      if (ref.constant || used[ref.index]) continue;
      used[ref.index] = true;
      ref.owned = true;
    }
    for (size_t s = plan.steps.size(); s-- > 0;) {
      Plan::Step& step = plan.steps[s];
      count_reads(step, 1);
      step.first_drop = static_cast<uint32_t>(plan.drops.size());
      for (uint32_t k = 0; k < step.num_outputs; ++k) {
        if (!used[step.first_output + k]) plan.drops.push_back(step.first_output + k);
      }
      for (uint32_t k = 0; k < step.num_inputs; ++k) {
        Plan::Ref& ref = plan.refs[step.first_input + k];
        if (ref.constant || used[ref.index]) continue;
        used[ref.index] = true;
        plan.drops.push_back(ref.index);
        // A kernel that reads the slot through another input too must not take it.
        ref.owned = reads[ref.index] == 1;
      }
      count_reads(step, -1);
      step.num_drops = static_cast<uint32_t>(plan.drops.size()) - step.first_drop;
    }
  }

  const Graph& graph_;
  PlannerScope& scope_;
  const bool root_;
  std::shared_ptr<Plan> plan_;
  std::vector<std::vector<Plan::Ref>> refs_of_;  // By node, by output.
  std::vector<Origins> origins_;                 // By node: of all its handles.
};

absl::StatusOr<bool> PlanBuilder::AddFused(const FusionUnit& unit) {
  std::vector<KernelFn> kernels;
  for (int32_t i : unit.nodes) {
    const Node& node = graph_.nodes[i];
    std::vector<DType> dtypes;
    for (const Edge& edge : node.inputs) dtypes.push_back(graph_.dtype(edge));
    NodeInit init(node, std::move(dtypes), scope_);
    KernelFactory factory = scope_.context.kernels.Find(node.op->name);
    if (factory == nullptr) return false;
    absl::StatusOr<KernelFn> kernel = factory(init);
    if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("node '", node.name, "'"));
    kernels.push_back(*std::move(kernel));
  }
  absl::StatusOr<std::optional<FusedStep>> fused = MakeFusedStep(graph_, unit, std::move(kernels));
  if (!fused.ok()) return fused.status();
  if (!fused->has_value()) return false;
  Plan::Step step = NewStep(absl::StrCat("'", graph_.nodes[unit.nodes.back()].name, "'"),
                            (*fused)->inputs.size(), (*fused)->outputs.size());
  for (const Edge& edge : (*fused)->inputs) AddInput(edge);
  for (int32_t i : unit.nodes) refs_of_[i].resize(graph_.nodes[i].output_dtypes.size());
  for (size_t k = 0; k < (*fused)->outputs.size(); ++k) {
    const Edge edge = (*fused)->outputs[k];
    refs_of_[edge.node][edge.index] = {.index = step.first_output + static_cast<uint32_t>(k)};
  }
  step.kernel = std::move((*fused)->kernel);
  plan_->steps.push_back(std::move(step));
  return true;
}

absl::StatusOr<std::shared_ptr<Plan>> BuildPlan(Graph graph,
                                                const std::vector<PartialShape>& arg_shapes,
                                                PlannerScope& scope, bool root) {
  const PassContext passes{scope.library, scope.context.ops, scope.context.kernels,
                           scope.context.allocator, scope.budget};
  FORMWORK_RETURN_IF_ERROR(RunPasses(graph, arg_shapes, passes));
  return PlanBuilder(graph, scope, root).Build();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const ImportedGraph& imported,
                                                     const std::vector<PartialShape>& arg_shapes,
                                                     const PlannerContext& context) {
  PlannerScope scope(imported.library, context);
  absl::StatusOr<std::shared_ptr<Plan>> plan = BuildPlan(*imported.graph, arg_shapes, scope, true);
  if (!scope.missing.empty()) {
    const size_t named = std::min<size_t>(scope.missing.size(), 20);
    return WithReason(
        Unimplemented("ops that are not supported: ",
                      absl::StrJoin(scope.missing.begin(), scope.missing.begin() + named, "; "),
                      scope.missing.size() > named
                          ? absl::StrCat("; and ", scope.missing.size() - named, " more")
                          : ""),
        Reason::kOpNotSupported);
  }
  if (!plan.ok()) return plan.status();
  (*plan)->named_variables = std::move(scope.named_variables);
  (*plan)->num_counters = scope.num_counters;
  (*plan)->has_loop = scope.has_loop;
  (*plan)->sized_by_value = scope.sized_by_value;
  (*plan)->bytes = scope.bytes;
  return std::shared_ptr<const Plan>(*std::move(plan));
}

}  // namespace formwork
