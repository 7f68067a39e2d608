// What a dataset comes to: one element, a reduction, how many there are.

#include <utility>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"

namespace formwork {
namespace {

absl::Status SetOutputs(KernelContext& ctx, const ElementSpec& spec, Element element) {
  FORMWORK_RETURN_IF_ERROR(CheckElement(spec, element));
  for (size_t i = 0; i < element.size(); ++i) {
    ctx.SetOutput(static_cast<int>(i), std::move(element[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeReduce(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_ASSIGN_OR_RETURN(const auto state, init.attrs().Get<std::vector<DType>>("Tstate"));
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, state));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, state));
  return KernelFn([function, states = static_cast<int>(state.size()),
                   spec](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr input, DatasetFromTensor(ctx.input(0)));
    const int first = states + 1;
    const DatasetFunction reduce(ctx, function, first, ctx.num_inputs() - first);
    Element state;
    for (int i = 0; i < states; ++i) state.push_back(ctx.TakeInput(i + 1));
    IterationContext iteration = IterationContext::OfWhatEnds(ctx.call());
    FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, reduce.NewRun(iteration));
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(iteration));
    Element element, args;
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(iteration, element));
      if (!more) break;
      args.swap(state);
      args.insert(args.end(), std::make_move_iterator(element.begin()),
                  std::make_move_iterator(element.end()));
      FORMWORK_RETURN_IF_ERROR(run.Run(iteration, std::move(args), state));
    }
    return SetOutputs(ctx, spec, std::move(state));
  });
}

absl::StatusOr<KernelFn> MakeSingleElement(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return KernelFn([spec = std::move(spec)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr input, DatasetFromTensor(ctx.input(0)));
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
    IterationContext iteration(ctx.call());
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(iteration));
    Element element, another;
    FORMWORK_ASSIGN_OR_RETURN(bool more, it.Next(iteration, element));
    if (!more) return InvalidArgument("Dataset was empty.");
    FORMWORK_ASSIGN_OR_RETURN(more, it.Next(iteration, another));
    if (more) return InvalidArgument("Dataset had more than one element.");
    return SetOutputs(ctx, spec, std::move(element));
  });
}

// Goes through the elements before it; of a dataset that is shuffled each time that is another one.
absl::StatusOr<KernelFn> MakeElementAtIndex(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  return KernelFn([spec](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr input, DatasetFromTensor(ctx.input(0)));
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t index, ScalarInput<int64_t>(ctx, 1, "index"));
    if (input->cardinality < 0) {
      return FailedPrecondition("a dataset of ",
                                input->cardinality == Dataset::kInfinite ? "infinite" : "unknown",
                                " cardinality does not support random access.");
    }
    const absl::Status outside = absl::OutOfRangeError(
        absl::StrCat("Index out of range [0, ", input->cardinality, "):", index));
    if (index < 0 || index >= input->cardinality) return outside;
    IterationContext iteration(ctx.call());
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(iteration));
    Element element;
    for (int64_t i = 0; i <= index; ++i) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(iteration, element));
      if (!more) return outside;
    }
    return SetOutputs(ctx, spec, std::move(element));
  });
}

absl::Status Cardinality(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr input, DatasetFromTensor(ctx.input(0)));
  ctx.SetOutput(0, Tensor::Scalar(input->cardinality));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeCardinality(KernelInit&) { return KernelFn(&Cardinality); }

}  // namespace

void RegisterDatasetReaders(KernelRegistry& registry) {
  registry.Add("ReduceDataset", MakeReduce);
  registry.Add("DatasetToSingleElement", MakeSingleElement);
  registry.Add("GetElementAtIndex", MakeElementAtIndex);
  registry.Add("DatasetCardinality", MakeCardinality);
}

}  // namespace formwork
