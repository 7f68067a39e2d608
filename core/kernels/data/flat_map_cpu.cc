// Datasets of the elements of datasets that a function makes: one after the other, or in turns.

#include <algorithm>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// A dataset that a function has made, and what of: stored as that, and made again.
class Inner {
 public:
  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    return it_.Next(ctx, element);
  }
  bool at_end() const { return it_.at_end(); }
  absl::Status Begin(IterationContext& ctx, RunningFunction& run, Element args,
                     const std::vector<DType>& dtypes) {
    args_ = std::move(args);
    FORMWORK_ASSIGN_OR_RETURN(const DatasetPtr dataset,
                              run.RunForDataset(ctx, Element(args_), dtypes));
    FORMWORK_ASSIGN_OR_RETURN(it_, dataset->Begin(ctx));
    return absl::OkStatus();
  }
  absl::Status Keep(Position& position, RunningFunction& run, const std::vector<DType>& dtypes) {
    bool open = !at_end();
    FORMWORK_RETURN_IF_ERROR(position.Keep(open));
    if (!open) return absl::OkStatus();
    FORMWORK_RETURN_IF_ERROR(position.Keep(args_));
    if (position.reads()) {
      FORMWORK_RETURN_IF_ERROR(Begin(position.ctx(), run, std::move(args_), dtypes));
    }
    return position.Keep(it_);
  }

 private:
  Iterator it_;
  Element args_;
};

struct FlatMapStage {
  Iterator it;
  RunningFunction run;
  std::vector<DType> dtypes;
  Inner inner = {};
  Element args = {};

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(bool more, inner.Next(ctx, element));
      if (more) return true;
      FORMWORK_ASSIGN_OR_RETURN(more, it.Next(ctx, args));
      if (!more) return false;
      FORMWORK_RETURN_IF_ERROR(inner.Begin(ctx, run, std::move(args), dtypes));
    }
  }
  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.Keep(it));
    FORMWORK_RETURN_IF_ERROR(inner.Keep(position, run, dtypes));
    return position.Keep(run);  // Behind what making the dataset again has changed.
  }
};

absl::StatusOr<KernelFn> MakeFlatMap(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    auto map = std::make_shared<const DatasetFunction>(ctx, function, 1, ctx.num_inputs() - 1);
    return NewDataset(spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map->NewRun(ctx));
      return NextFn::Of<FlatMapStage>(std::move(it), std::move(run), spec.dtypes);
    });
  });
}

// Takes `block` elements in turn from each of up to `cycle` datasets.
class Interleaved {
 public:
  Interleaved(Iterator it, RunningFunction run, std::vector<DType> dtypes, int64_t cycle,
              int64_t block)
      : it_(std::move(it)),
        run_(std::move(run)),
        dtypes_(std::move(dtypes)),
        cycle_(cycle),
        block_(block) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      // Places are there as far as the turn has come.
      if (at_ == open_.size() && !it_.at_end()) open_.emplace_back();
      if (at_ < open_.size() && !open_[at_].at_end()) {
        FORMWORK_ASSIGN_OR_RETURN(const bool more, open_[at_].Next(ctx, element));
        if (more) {
          if (++in_block_ == block_) Turn();
          return true;
        }
        Turn();
      } else if (!it_.at_end()) {
        FORMWORK_RETURN_IF_ERROR(Open(ctx));
      } else {
        const bool over = std::all_of(open_.begin(), open_.end(),
                                      [](const Inner& each) { return each.at_end(); });
        if (over) return false;
        Turn();
      }
    }
  }

  absl::Status Keep(Position& position) {
    uint64_t places = open_.size();
    FORMWORK_RETURN_IF_ERROR(position.Keep(it_));
    FORMWORK_RETURN_IF_ERROR(position.KeepUpTo(static_cast<uint64_t>(cycle_), places));
    for (uint64_t i = 0; i < places; ++i) {
      if (position.reads()) open_.emplace_back();
      FORMWORK_RETURN_IF_ERROR(open_[i].Keep(position, run_, dtypes_));
    }
    FORMWORK_RETURN_IF_ERROR(position.KeepUpTo(places, at_));
    return position.Keep(in_block_, run_);
  }

 private:
  absl::Status Open(IterationContext& ctx) {
    Element args;
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, args));
    if (!more) return absl::OkStatus();
    return open_[at_].Begin(ctx, run_, std::move(args), dtypes_);
  }
  // To the next place; behind the last that there can be, the first.
  void Turn() {
    in_block_ = 0;
    const size_t places = it_.at_end() ? open_.size() : static_cast<size_t>(cycle_);
    at_ = at_ + 1 >= places ? 0 : at_ + 1;
  }

  Iterator it_;
  RunningFunction run_;
  const std::vector<DType> dtypes_;
  const int64_t cycle_, block_;
  std::vector<Inner> open_;
  size_t at_ = 0;
  int64_t in_block_ = 0;
};

// `inputs_behind`: how many inputs stand behind block_length; where there are some, elements are
// made ahead.
absl::StatusOr<KernelFn> MakeInterleaveWith(KernelInit& init, int inputs_behind) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_ASSIGN_OR_RETURN(const auto captured,
                            init.attrs().Get<std::vector<DType>>("Targuments"));
  return DatasetKernel(
      init,
      [=, count = static_cast<int>(captured.size())](KernelContext& ctx, DatasetPtr input) -> Made {
        const int own = ctx.num_inputs() - inputs_behind - 2;
        FORMWORK_ASSIGN_OR_RETURN(int64_t cycle, ScalarInput<int64_t>(ctx, own, "cycle_length"));
        FORMWORK_ASSIGN_OR_RETURN(const int64_t block,
                                  ScalarInput<int64_t>(ctx, own + 1, "block_length"));
        if (cycle == kAutotune) cycle = ParallelThreads();
        if (cycle < 1) return InvalidArgument("cycle_length must be greater than zero.");
        if (block < 1) return InvalidArgument("block_length must be greater than zero.");
        auto map = std::make_shared<const DatasetFunction>(ctx, function, 1, count);
        auto interleaved = NewDataset(spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
          FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map->NewRun(ctx));
          return NextFn::Of<Interleaved>(std::move(it), std::move(run), spec.dtypes, cycle, block);
        });
        if (inputs_behind == 0) return interleaved;
        interleaved->quiet = function->quiet && InputsAreQuiet(ctx);
        return PrefetchedDataset(std::move(interleaved), kAutotune);
      });
}

absl::StatusOr<KernelFn> MakeInterleave(KernelInit& init) { return MakeInterleaveWith(init, 0); }
// num_parallel_calls; elements come in the order of InterleaveDataset.
absl::StatusOr<KernelFn> MakeParallelInterleaveV2(KernelInit& init) {
  return MakeInterleaveWith(init, 1);
}
// How many elements to hold, and of how many datasets to fetch ahead.
absl::StatusOr<KernelFn> MakeLegacyParallelInterleave(KernelInit& init) {
  return MakeInterleaveWith(init, 2);
}
// Also how many elements to fetch ahead, of what.
absl::StatusOr<KernelFn> MakeParallelInterleaveV4(KernelInit& init) {
  return MakeInterleaveWith(init, 3);
}

}  // namespace

void RegisterFlatMapDatasets(KernelRegistry& registry) {
  registry.Add("FlatMapDataset", MakeFlatMap);
  registry.Add("InterleaveDataset", MakeInterleave);
  registry.Add("LegacyParallelInterleaveDatasetV2", MakeLegacyParallelInterleave);
  registry.Add("ParallelInterleaveDatasetV2", MakeParallelInterleaveV2);
  registry.Add("ParallelInterleaveDatasetV3", MakeParallelInterleaveV2);
  registry.Add("ParallelInterleaveDatasetV4", MakeParallelInterleaveV4);
}

}  // namespace formwork
