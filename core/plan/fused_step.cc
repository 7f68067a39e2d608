// What a unit's nodes are as one step.

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/graph/element_nodes.h"
#include "core/kernels/conv/conv_bands.h"
#include "core/kernels/elementwise/elementwise_program.h"
#include "core/kernels/reduction/reduced_program.h"
#include "core/plan/fusion.h"

namespace formwork {
namespace {

// The nodes of a unit as they would run alone: where shapes do not allow the program, and where
// they are wrong. Each result goes with its last use, and an error names its own node.
class OneByOne {
 public:
  // A node, and the values that it reads: inputs first, then one per node.
  struct Step {
    std::string node;
    KernelFn kernel;
    absl::InlinedVector<uint16_t, 3> operands;
  };

  // `outputs`: values.
  OneByOne(size_t num_inputs, std::vector<Step> steps, std::vector<uint16_t> outputs)
      : num_inputs_(num_inputs),
        steps_(std::move(steps)),
        outputs_(std::move(outputs)),
        last_use_(num_inputs_ + steps_.size(), kNever) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const uint16_t value : steps_[i].operands) last_use_[value] = i;
    }
    // Inputs are the caller's, and outputs are needed in the end.
    std::fill_n(last_use_.begin(), num_inputs_, kNever);
    for (const uint16_t value : outputs_) last_use_[value] = kNever;
  }

  absl::Status Run(KernelContext& ctx) const {
    std::vector<Tensor> results(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      const auto& operands = steps_[i].operands;
      InputRef refs[3];
      for (size_t k = 0; k < operands.size(); ++k) {
        const uint16_t value = operands[k];
        // What is read twice must not be taken over.
        const bool once = std::count(operands.begin(), operands.end(), value) == 1;
        refs[k] = {value < num_inputs_ ? &ctx.input(value) : &results[value - num_inputs_],
                   once && last_use_[value] == i};
      }
      KernelContext inner(ctx.call(), {refs, operands.size()}, absl::MakeSpan(&results[i], 1));
      const absl::Status status = CatchOutOfMemory([&] { return steps_[i].kernel(inner); });
      if (!status.ok()) return AtNode(i, status);
      for (const uint16_t value : operands) {
        if (last_use_[value] == i) results[value - num_inputs_].Drop();
      }
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      ctx.SetOutput(static_cast<int>(k), std::move(results[outputs_[k] - num_inputs_]));
    }
    return absl::OkStatus();
  }

  // The error of them all together, named by the last.
  absl::Status AtLast(const absl::Status& status) const {
    return AtNode(steps_.size() - 1, status);
  }

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  absl::Status AtNode(size_t i, const absl::Status& status) const {
    HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
    return Annotate(status, absl::StrCat("node '", steps_[i].node, "'"));
  }

  const size_t num_inputs_;
  const std::vector<Step> steps_;
  const std::vector<uint16_t> outputs_;
  std::vector<size_t> last_use_;  // By value: the step after which it goes.
};

std::optional<FusedStep> MakeBandStep(const Graph& graph, const FusionUnit& unit,
                                      std::vector<KernelFn> one_by_one) {
  std::vector<ConvNode> nodes;
  std::vector<Edge> inputs;
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    const Node& node = graph.nodes[unit.nodes[i]];
    nodes.push_back({node.name, node.attrs, node.inputs.size(), std::move(one_by_one[i])});
    inputs.insert(inputs.end(), node.inputs.begin() + (i == 0 ? 0 : 1), node.inputs.end());
  }
  absl::StatusOr<KernelFn> kernel = MakeConvBands(std::move(nodes));
  if (!kernel.ok()) return std::nullopt;
  return FusedStep{std::move(inputs), *std::move(kernel)};
}

template <typename Program>
KernelFn Fused(std::shared_ptr<const Program> program, std::shared_ptr<const OneByOne> steps) {
  return KernelFn([program, steps](KernelContext& ctx) -> absl::Status {
    const absl::StatusOr<bool> done = CatchOutOfMemory([&] { return program->Run(ctx); });
    // Once there was no memory an input may have been taken over already.
    if (absl::IsResourceExhausted(done.status())) return steps->AtLast(done.status());
    return done.ok() && *done ? absl::OkStatus() : steps->Run(ctx);
  });
}

// A program whose last outputs, perhaps all, are the next values of variables.
class StoringStep {
 public:
  struct Store {
    std::string node;
    size_t output;  // Of the program.
  };

  // `num_outputs`: how many of the program's are the step's.
  StoringStep(std::shared_ptr<const ElementwiseProgram> program,
              std::shared_ptr<const OneByOne> steps, std::vector<uint16_t> made, size_t num_outputs,
              std::vector<Store> stores)
      : program_(std::move(program)),
        steps_(std::move(steps)),
        made_(std::move(made)),
        num_outputs_(num_outputs),
        stores_(std::move(stores)) {}

  absl::Status Run(KernelContext& ctx) const {
    const absl::Span<const InputRef> inputs = ctx.inputs().first(program_->num_inputs());
    absl::InlinedVector<Tensor, 4> made(made_.size());
    KernelContext inner(ctx.call(), inputs, absl::MakeSpan(made));
    std::optional<UncutScope> uncut;  // A value that is overwritten must be whole in the end.
    absl::InlinedVector<Left, 4> left(stores_.size());
    for (size_t k = 0; k < stores_.size(); ++k) {
      left[k].handle = ctx.input(static_cast<int>(inputs.size() + k)).scalar<ResourceHandle>();
    }
    const absl::StatusOr<std::optional<Shape>> common = program_->CommonShape(inner);
    const Shape* const shape = common.ok() && *common ? &**common : nullptr;
    // Where they are large enough for it to matter where results go.
    if (shape != nullptr && shape->num_elements() >= kFewestInPlace) {
      uncut.emplace();
      for (size_t k = 0; k < stores_.size(); ++k) Leave(ctx, *shape, stores_[k], left[k]);
      const auto has_left = [](const Left& variable) { return variable.block != nullptr; };
      if (std::none_of(left.begin(), left.end(), has_left)) uncut.reset();
    }
    const absl::Status status = shape == nullptr ? steps_->Run(inner) : RunOver(inner, *shape);
    if (!status.ok()) {
      for (const Left& l : left) PutBack(ctx, l, inputs, absl::MakeSpan(made));
      return status;
    }
    absl::Status stored;
    for (size_t k = 0; k < stores_.size(); ++k) {
      // What has left its variable goes back to it, whatever happens to others.
      if (!stored.ok() && left[k].block == nullptr) continue;
      Tensor& value = made[stores_[k].output];
      const bool again = stores_[k].output < num_outputs_ || IsStoredLater(k);
      absl::Status status =
          ctx.resources().Assign(left[k].handle, again ? Tensor(value) : std::move(value));
      if (!status.ok() && stored.ok()) {
        const HeapScope unlimited_text(nullptr);
        stored = Annotate(status, absl::StrCat("node '", stores_[k].node, "'"));
      }
    }
    FORMWORK_RETURN_IF_ERROR(stored);
    for (size_t k = 0; k < num_outputs_; ++k)
      ctx.SetOutput(static_cast<int>(k), std::move(made[k]));
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kFewestInPlace = 1024;

  // A variable, and its value where it has left it.
  struct Left {
    ResourceHandle handle;
    const BufferBlock* block = nullptr;
  };

  absl::Status RunOver(KernelContext& inner, const Shape& shape) const {
    const absl::Status done = CatchOutOfMemory([&] { return program_->RunOver(inner, shape); });
    if (absl::IsResourceExhausted(done)) return steps_->AtLast(done);  // As in Fused.
    return done.ok() ? done : steps_->Run(inner);
  }

  void Leave(KernelContext& ctx, const Shape& shape, const Store& store, Left& left) const {
    const DType dtype = program_->dtype(made_[store.output]);
    const size_t moved = (program_->num_inputs() + made_.size()) *
                         static_cast<size_t>(shape.num_elements()) * DTypeSize(dtype);
    for (size_t i = 0; i < program_->num_inputs(); ++i) {
      const InputRef& input = ctx.inputs()[i];
      if (!input.owned || input.tensor->dtype() != dtype || input.tensor->shape() != shape)
        continue;
      if (ctx.resources().LeaveValue(left.handle, *input.tensor, moved)) {
        left.block = input.tensor->buffer().block();
        return;
      }
    }
  }

  // The program has failed before it has written: the value is where it was, or in a result that
  // was to be made in its place.
  static void PutBack(KernelContext& ctx, const Left& left, absl::Span<const InputRef> inputs,
                      absl::Span<Tensor> made) {
    if (left.block == nullptr) return;
    for (const InputRef& input : inputs) {
      if (input.tensor->buffer().block() == left.block) {
        return ctx.resources().PutBack(left.handle, *input.tensor);
      }
    }
    for (const Tensor& value : made) {
      if (value.buffer().block() == left.block) {
        return ctx.resources().PutBack(left.handle, value);
      }
    }
  }

  bool IsStoredLater(size_t k) const {
    return std::any_of(stores_.begin() + static_cast<ptrdiff_t>(k) + 1, stores_.end(),
                       [&](const Store& later) { return later.output == stores_[k].output; });
  }

  const std::shared_ptr<const ElementwiseProgram> program_;
  const std::shared_ptr<const OneByOne> steps_;
  const std::vector<uint16_t> made_;  // The program's outputs.
  const size_t num_outputs_;
  const std::vector<Store> stores_;
};

}  // namespace

absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph& graph, const FusionUnit& unit,
                                                       std::vector<KernelFn> one_by_one) {
  if (unit.bands) return MakeBandStep(graph, unit, std::move(one_by_one));
  // What is stored is made, too.
  std::vector<Edge> made = unit.outputs;
  for (const int32_t store : unit.stores) {
    const Edge value = graph.nodes[store].inputs[1];
    if (std::find(made.begin(), made.end(), value) == made.end()) made.push_back(value);
  }
  if (made.empty()) return std::nullopt;
  FusedStep fused;
  HashMap<int32_t, uint16_t> step_of, instruction_of;  // By node.
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    const int32_t n = unit.nodes[i];
    step_of[n] = static_cast<uint16_t>(i);
    if (FusableOp(graph.nodes, graph.nodes[n]) != nullptr) {
      instruction_of.try_emplace(n, static_cast<uint16_t>(instruction_of.size()));
    }
  }
  // The program's inputs, and then the reductions' axes.
  HashMap<Edge, uint16_t> input_of;
  std::vector<DType> dtypes;
  for (const bool axes : {false, true}) {
    for (int32_t n : unit.nodes) {
      if (instruction_of.contains(n) == axes) continue;
      for (const Edge& edge : graph.nodes[n].inputs) {
        if (step_of.contains(edge.node) || input_of.contains(edge)) continue;
        input_of[edge] = static_cast<uint16_t>(fused.inputs.size());
        fused.inputs.push_back(edge);
        if (!axes) dtypes.push_back(graph.dtype(edge));
      }
    }
  }
  if (dtypes.empty() || fused.inputs.size() + unit.nodes.size() > 0xffff) return std::nullopt;
  const auto value = [&](const Edge& edge, const HashMap<int32_t, uint16_t>& made, size_t first) {
    const auto own = made.find(edge.node);
    return own == made.end() ? input_of.find(edge)->second
                             : static_cast<uint16_t>(first + own->second);
  };
  std::vector<ElementwiseProgram::Instruction> instructions;
  std::vector<ReducedProgram::Item> reductions;
  std::vector<OneByOne::Step> steps;
  for (size_t i = 0; i < unit.nodes.size(); ++i) {
    const Node& node = graph.nodes[unit.nodes[i]];
    steps.push_back({node.name, std::move(one_by_one[i]), {}});
    for (const Edge& edge : node.inputs) {
      steps.back().operands.push_back(value(edge, step_of, fused.inputs.size()));
    }
    if (const BlockOp* const op = FusableOp(graph.nodes, node)) {
      ElementwiseProgram::Instruction& instruction = instructions.emplace_back();
      instruction.op = op;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        instruction.operands[k] = value(node.inputs[k], instruction_of, dtypes.size());
      }
      continue;
    }
    ReducedProgram::Item& item = reductions.emplace_back();
    item.loops = FindReductionLoops(node.op->name, graph.dtype(node.inputs[0]));
    if (item.loops == nullptr) return std::nullopt;
    FORMWORK_ASSIGN_OR_RETURN(item.attrs, ReductionAttrs::FromAttrs(*node.attrs));
    item.value = value(node.inputs[0], instruction_of, dtypes.size());
    item.axes = input_of[node.inputs[1]];
  }
  std::vector<uint16_t> wanted, outputs;
  for (const Edge& edge : made) {
    outputs.push_back(value(edge, step_of, fused.inputs.size()));
    if (instruction_of.contains(edge.node)) {
      wanted.push_back(value(edge, instruction_of, dtypes.size()));
    }
  }
  auto one =
      std::make_shared<const OneByOne>(fused.inputs.size(), std::move(steps), std::move(outputs));
  if (!unit.stores.empty()) {
    std::vector<StoringStep::Store> stores;
    for (const int32_t store : unit.stores) {
      const auto value = std::find(made.begin(), made.end(), graph.nodes[store].inputs[1]);
      stores.push_back({graph.nodes[store].name, static_cast<size_t>(value - made.begin())});
    }
    auto program = std::make_shared<const ElementwiseProgram>(std::move(dtypes),
                                                              std::move(instructions), wanted);
    auto step =
        std::make_shared<const StoringStep>(std::move(program), std::move(one), std::move(wanted),
                                            unit.outputs.size(), std::move(stores));
    fused.kernel = KernelFn([step](KernelContext& ctx) { return step->Run(ctx); });
  } else if (reductions.empty()) {
    fused.kernel = Fused(std::make_shared<const ElementwiseProgram>(
                             std::move(dtypes), std::move(instructions), std::move(wanted)),
                         std::move(one));
  } else {
    fused.kernel =
        Fused(std::make_shared<const ReducedProgram>(std::move(dtypes), std::move(instructions),
                                                     std::move(wanted), std::move(reductions)),
              std::move(one));
  }
  return std::optional<FusedStep>(std::move(fused));
}

}  // namespace formwork
