// Datasets of the elements of several others.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// Inputs `first` to `first + count - 1`.
absl::StatusOr<std::vector<DatasetPtr>> DatasetsFrom(KernelContext& ctx, int first, int count) {
  std::vector<DatasetPtr> datasets;
  for (int i = first; i < first + count; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetFromTensor(ctx.input(i)));
    datasets.push_back(std::move(dataset));
  }
  return datasets;
}

absl::StatusOr<std::vector<Iterator>> BeginAll(IterationContext& ctx,
                                               const std::vector<DatasetPtr>& datasets) {
  std::vector<Iterator> iterators;
  for (const DatasetPtr& dataset : datasets) {
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, dataset->Begin(ctx));
    iterators.push_back(std::move(it));
  }
  return iterators;
}

struct ZipStage {
  std::vector<Iterator> iterators;
  Element part = {};

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    for (Iterator& it : iterators) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, part));
      if (!more) return false;
      element.insert(element.end(), std::make_move_iterator(part.begin()),
                     std::make_move_iterator(part.end()));
    }
    return true;
  }
  absl::Status Keep(Position& position) {
    for (Iterator& it : iterators) FORMWORK_RETURN_IF_ERROR(position.Keep(it));
    return absl::OkStatus();
  }
};

absl::StatusOr<KernelFn> MakeZip(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(std::vector<DatasetPtr> inputs,
                              DatasetsFrom(ctx, 0, ctx.num_inputs()));
    ElementSpec spec;
    int64_t cardinality = Dataset::kInfinite;
    for (const DatasetPtr& input : inputs) {
      spec.dtypes.insert(spec.dtypes.end(), input->spec.dtypes.begin(), input->spec.dtypes.end());
      spec.shapes.insert(spec.shapes.end(), input->spec.shapes.begin(), input->spec.shapes.end());
      const int64_t own = input->cardinality;
      if (cardinality == Dataset::kUnknown || own == Dataset::kInfinite) continue;
      const bool less =
          own == Dataset::kUnknown || cardinality == Dataset::kInfinite || own < cardinality;
      if (less) cardinality = own;
    }
    return NewDataset(
        std::move(spec), cardinality, [inputs = std::move(inputs)](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(std::vector<Iterator> iterators, BeginAll(ctx, inputs));
          return NextFn::Of<ZipStage>(std::move(iterators));
        });
  });
}

struct ConcatenateStage {
  Iterator it;
  DatasetPtr other;
  bool in_other = false;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(bool more, it.Next(ctx, element));
    if (more || in_other) return more;
    FORMWORK_ASSIGN_OR_RETURN(it, other->Begin(ctx));
    in_other = true;
    return it.Next(ctx, element);
  }
  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.Keep(in_other));
    if (position.reads() && in_other) {
      FORMWORK_ASSIGN_OR_RETURN(it, other->Begin(position.ctx()));
    }
    return position.Keep(it);
  }
};

// Whether input `i` may have the elements of those before it, of which `spec` and `cardinality` say
// what is known.
absl::Status CheckChoice(int i, const ElementSpec& other, int64_t other_cardinality,
                         ElementSpec& spec, int64_t& cardinality) {
  if (other.dtypes != spec.dtypes) {
    return InvalidArgument(
        "All inputs to ChooseFastestDataset must have the same output types. Input ", i,
        " has others.");
  }
  for (size_t c = 0; c < spec.shapes.size(); ++c) {
    std::optional<PartialShape> both = spec.shapes[c].Merge(other.shapes[c]);
    if (!both) {
      return InvalidArgument(
          "All inputs to ChooseFastestDataset must have compatible output shapes. Component ", c,
          " of input ", i, " has shape: ", other.shapes[c].ToString(),
          ". Expected to be compatible with shape: ", spec.shapes[c].ToString(), ".");
    }
    spec.shapes[c] = *std::move(both);
  }
  if (other_cardinality == Dataset::kUnknown) return absl::OkStatus();
  if (cardinality != Dataset::kUnknown && cardinality != other_cardinality) {
    return InvalidArgument(
        "All inputs to ChooseFastestDataset must have compatible cardinalities. Input ", i,
        " has cardinality: ", other_cardinality,
        ", while all prior inputs have cardinality: ", cardinality, ".");
  }
  cardinality = other_cardinality;
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeConcatenate(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(DatasetPtr other, DatasetFromTensor(ctx.input(1)));
    FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(input->spec.dtypes, other->spec.dtypes));
    ElementSpec spec = input->spec;
    for (size_t i = 0; i < spec.shapes.size() && i < other->spec.shapes.size(); ++i) {
      spec.shapes[i] = spec.shapes[i].CommonSupertype(other->spec.shapes[i]);
    }
    const int64_t a = input->cardinality, b = other->cardinality;
    int64_t cardinality = Dataset::kUnknown;
    if (a == Dataset::kInfinite || b == Dataset::kInfinite) {
      cardinality = Dataset::kInfinite;
    } else if (a >= 0 && b >= 0) {
      const int64_t most = std::numeric_limits<int64_t>::max();
      cardinality = a > most - b ? most : a + b;
    }
    return NewDataset(spec, cardinality, [input, other](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<ConcatenateStage>(std::move(it), other);
    });
  });
}

struct DirectedInterleaveStage {
  Iterator choices;
  std::vector<Iterator> iterators;
  bool stop_on_empty;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const bool chosen, choices.Next(ctx, element));
      if (!chosen) return false;
      if (element[0].rank() != 0) return InvalidArgument("Selector must be a scalar");
      const int64_t selected = element[0].scalar<int64_t>();
      const int64_t n = static_cast<int64_t>(iterators.size());
      if (selected < 0 || selected >= n) {
        return InvalidArgument("Selector index out of range: ", selected, " >= ", n);
      }
      Iterator& it = iterators[static_cast<size_t>(selected)];
      if (it.at_end()) continue;
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
      if (more) return true;
      const bool over = std::all_of(iterators.begin(), iterators.end(),
                                    [](const Iterator& each) { return each.at_end(); });
      if (stop_on_empty || over) return false;
    }
  }
  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.Keep(choices));
    for (Iterator& it : iterators) FORMWORK_RETURN_IF_ERROR(position.Keep(it));
    return absl::OkStatus();
  }
};

absl::StatusOr<KernelFn> MakeDirectedInterleave(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool stop_on_empty,
                            init.attrs().Get<bool>("stop_on_empty_dataset"));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr selector) -> Made {
    if (selector->spec.dtypes != std::vector<DType>{DType::kInt64}) {
      return InvalidArgument("The selector dataset must have one component of dtype int64.");
    }
    FORMWORK_ASSIGN_OR_RETURN(std::vector<DatasetPtr> inputs,
                              DatasetsFrom(ctx, 1, ctx.num_inputs() - 1));
    if (inputs.empty()) return InvalidArgument("DirectedInterleaveDataset has no data inputs");
    ElementSpec spec = inputs[0]->spec;
    bool all_infinite = selector->cardinality == Dataset::kInfinite;
    for (const DatasetPtr& input : inputs) {
      FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, input->spec.dtypes));
      for (size_t i = 0; i < spec.shapes.size() && i < input->spec.shapes.size(); ++i) {
        spec.shapes[i] = spec.shapes[i].CommonSupertype(input->spec.shapes[i]);
      }
      all_infinite = all_infinite && input->cardinality == Dataset::kInfinite;
    }
    const int64_t cardinality = all_infinite ? Dataset::kInfinite : Dataset::kUnknown;
    return NewDataset(
        std::move(spec), cardinality,
        [selector, inputs = std::move(inputs), stop_on_empty](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(Iterator choices, selector->Begin(ctx));
          FORMWORK_ASSIGN_OR_RETURN(std::vector<Iterator> iterators, BeginAll(ctx, inputs));
          return NextFn::Of<DirectedInterleaveStage>(std::move(choices), std::move(iterators),
                                                     stop_on_empty);
        });
  });
}

// Of datasets with the same elements any will do.
absl::Status ChooseFirst(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr first, DatasetFromTensor(ctx.input(0)));
  ElementSpec spec = first->spec;
  int64_t cardinality = first->cardinality;
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr other, DatasetFromTensor(ctx.input(i)));
    FORMWORK_RETURN_IF_ERROR(CheckChoice(i, other->spec, other->cardinality, spec, cardinality));
  }
  ctx.SetOutput(0, ctx.TakeInput(0));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeChooseFastest(KernelInit&) { return KernelFn(ChooseFirst); }

}  // namespace

void RegisterCombineDatasets(KernelRegistry& registry) {
  registry.Add("ChooseFastestDataset", MakeChooseFastest);
  registry.Add("ZipDataset", MakeZip);
  registry.Add("ConcatenateDataset", MakeConcatenate);
  registry.Add("DirectedInterleaveDataset", MakeDirectedInterleave);
}

}  // namespace formwork
