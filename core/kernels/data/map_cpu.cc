// Datasets of what a function makes of each element: map, scan, filter.

#include <utility>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// What a function's error is for an iterator: that there is nothing more ends the elements, unless
// they are to be as many as before. True: it ends them.
absl::StatusOr<bool> Ends(const absl::Status& status, bool preserve_cardinality) {
  if (!absl::IsOutOfRange(status)) return status;
  if (!preserve_cardinality) return true;
  return InvalidArgument("Function invocation produced OutOfRangeError: ", status.message());
}

// `own`: inputs beside the dataset and what the function has captured, which stand last.
absl::StatusOr<KernelFn> MakeMapBefore(KernelInit& init, int own) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, spec.dtypes));
  FORMWORK_ASSIGN_OR_RETURN(const bool preserve, init.attrs().Get<bool>("preserve_cardinality"));
  return DatasetKernel(MakeOnDataset([=](KernelContext& ctx, DatasetPtr input) -> Made {
    const int64_t cardinality = preserve ? input->cardinality : Dataset::kUnknown;
    auto map =
        std::make_shared<const DatasetFunction>(ctx, function, 1, ctx.num_inputs() - 1 - own);
    return NewDataset(spec, cardinality, [input, map, preserve](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map->NewRun(ctx));
      return NextFn([it = std::move(it), run = std::move(run), preserve](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        Element args;
        FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, args));
        if (!more) return false;
        const absl::Status status = run.Run(ctx, std::move(args), element);
        if (status.ok()) return true;
        FORMWORK_ASSIGN_OR_RETURN(const bool ends, Ends(status, preserve));
        return !ends;
      });
    });
  }));
}

absl::StatusOr<KernelFn> MakeMap(KernelInit& init) { return MakeMapBefore(init, 0); }
// num_parallel_calls: elements are made one after the other, in their order.
absl::StatusOr<KernelFn> MakeParallelMap(KernelInit& init) { return MakeMapBefore(init, 1); }

absl::StatusOr<KernelFn> MakeScan(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_ASSIGN_OR_RETURN(const auto state, init.attrs().Get<std::vector<DType>>("Tstate"));
  FORMWORK_ASSIGN_OR_RETURN(const bool preserve, init.attrs().Get<bool>("preserve_cardinality"));
  std::vector<DType> made = state;
  made.insert(made.end(), spec.dtypes.begin(), spec.dtypes.end());
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, made));
  return DatasetKernel(MakeOnDataset([=, states = state.size()](KernelContext& ctx,
                                                                DatasetPtr input) -> Made {
    auto initial = std::make_shared<Element>();
    for (size_t i = 0; i < states; ++i) initial->push_back(ctx.input(static_cast<int>(i) + 1));
    const int first = static_cast<int>(states) + 1;
    auto scan =
        std::make_shared<const DatasetFunction>(ctx, function, first, ctx.num_inputs() - first);
    const int64_t cardinality = preserve ? input->cardinality : Dataset::kUnknown;
    return NewDataset(spec, cardinality, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, scan->NewRun(ctx));
      return NextFn([it = std::move(it), run = std::move(run), state = *initial, preserve](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        Element next;
        FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, next));
        if (!more) return false;
        Element args = state;
        args.insert(args.end(), std::make_move_iterator(next.begin()),
                    std::make_move_iterator(next.end()));
        const absl::Status status = run.Run(ctx, std::move(args), next);
        if (!status.ok()) {
          FORMWORK_ASSIGN_OR_RETURN(const bool ends, Ends(status, preserve));
          return !ends;
        }
        const auto outputs = next.begin() + static_cast<int64_t>(state.size());
        element.assign(std::make_move_iterator(outputs), std::make_move_iterator(next.end()));
        std::move(next.begin(), outputs, state.begin());
        return true;
      });
    });
  }));
}

// `ends`: the first element that the predicate refuses ends the dataset; else it is left out.
// `own`: as of MakeMapBefore.
absl::StatusOr<KernelFn> MakeFilterThat(KernelInit& init, bool ends, int own = 0) {
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, {DType::kBool}));
  return DatasetKernel(MakeOnDataset([=](KernelContext& ctx, DatasetPtr input) -> Made {
    auto predicate =
        std::make_shared<const DatasetFunction>(ctx, function, 1, ctx.num_inputs() - 1 - own);
    return NewDataset(input->spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, predicate->NewRun(ctx));
      return NextFn([it = std::move(it), run = std::move(run), ends](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        while (true) {
          FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
          if (!more) return false;
          FORMWORK_ASSIGN_OR_RETURN(const bool kept, run.RunPredicate(ctx, element));
          if (kept || ends) return kept;
        }
      });
    });
  }));
}

absl::StatusOr<KernelFn> MakeFilter(KernelInit& init) { return MakeFilterThat(init, false); }
absl::StatusOr<KernelFn> MakeParallelFilter(KernelInit& init) {
  return MakeFilterThat(init, false, 1);
}
absl::StatusOr<KernelFn> MakeTakeWhile(KernelInit& init) { return MakeFilterThat(init, true); }

}  // namespace

void RegisterMapDatasets(KernelRegistry& registry) {
  registry.Add("MapDataset", MakeMap);
  registry.Add("ParallelMapDataset", MakeParallelMap);
  registry.Add("ParallelMapDatasetV2", MakeParallelMap);
  registry.Add("ScanDataset", MakeScan);
  registry.Add("FilterDataset", MakeFilter);
  registry.Add("ParallelFilterDataset", MakeParallelFilter);
  registry.Add("TakeWhileDataset", MakeTakeWhile);
}

}  // namespace formwork
