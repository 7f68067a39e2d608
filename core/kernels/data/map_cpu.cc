// Datasets of what a function makes of each element: map, scan, filter.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"

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

struct MapStage {
  Iterator it;
  RunningFunction run;
  bool preserve;
  Element args = {};

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, args));
    if (!more) return false;
    const absl::Status status = run.Run(ctx, std::move(args), element);
    if (status.ok()) return true;
    FORMWORK_ASSIGN_OR_RETURN(const bool ends, Ends(status, preserve));
    return !ends;
  }
  absl::Status Keep(Position& position) { return position.Keep(it, run); }
};

absl::StatusOr<KernelFn> MakeMap(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, spec.dtypes));
  FORMWORK_ASSIGN_OR_RETURN(const bool preserve, init.attrs().Get<bool>("preserve_cardinality"));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    const int64_t cardinality = preserve ? input->cardinality : Dataset::kUnknown;
    auto map = std::make_shared<const DatasetFunction>(ctx, function, 1, ctx.num_inputs() - 1);
    return NewDataset(spec, cardinality, [input, map, preserve](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map->NewRun(ctx));
      return NextFn::Of<MapStage>(std::move(it), std::move(run), preserve);
    });
  });
}

// --- Several elements at once -------------------------------------------------------------------

// Takes a few elements of its input and maps them on all threads, where the function may run so and
// takes long enough; else one after the other, as they are asked for. Their order is the input's.
class ParallelMap {
 public:
  // `at_once`: on how many threads at the most.
  ParallelMap(Iterator it, std::shared_ptr<const DatasetFunction> map, RunningFunction run,
              int64_t at_once, bool preserve)
      : it_(std::move(it)), map_(std::move(map)), at_once_(at_once), preserve_(preserve) {
    slots_.push_back({std::move(run)});
  }

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (at_ == filled_) {
      if (!input_status_.ok()) return std::exchange(input_status_, absl::OkStatus());
      if (at_once_ > 1 && nanos_ > kCostlyNanos) {
        FORMWORK_RETURN_IF_ERROR(Fill(ctx));
      } else {
        FORMWORK_RETURN_IF_ERROR(FillOne(ctx));
      }
      if (filled_ == 0) {
        if (!input_status_.ok()) return std::exchange(input_status_, absl::OkStatus());
        return false;
      }
    }
    Slot& slot = slots_[at_++];
    if (slot.status.ok()) {
      element.swap(slot.results);
      return true;
    }
    FORMWORK_ASSIGN_OR_RETURN(const bool ends, Ends(slot.status, preserve_));
    return !ends;
  }

  // What has been made ahead, and where the input is behind that.
  absl::Status Keep(Position& position) {
    std::vector<Element> ahead;
    if (!position.reads()) {
      for (size_t i = at_; i < filled_; ++i) {
        if (!slots_[i].status.ok()) return Unimplemented("an element that is held is an error");
        ahead.push_back(slots_[i].results);
      }
      if (!input_status_.ok()) return Unimplemented("an element that is held is an error");
    }
    FORMWORK_RETURN_IF_ERROR(position.Keep(it_, slots_[0].run, ahead));
    if (!position.reads()) return absl::OkStatus();
    for (size_t i = slots_.size(); i < ahead.size(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map_->NewRun(position.ctx()));
      slots_.push_back({std::move(run)});
    }
    for (size_t i = 0; i < ahead.size(); ++i) slots_[i].results = std::move(ahead[i]);
    at_ = 0;
    filled_ = ahead.size();
    return absl::OkStatus();
  }

 private:
  // Below that, threads cost more than they help.
  static constexpr int64_t kCostlyNanos = 20'000;
  static constexpr uint32_t kElementsBetweenClocks = 16;
  // Threads that are done wait for the last one: for a small part of what takes so long. Who asks
  // for one element waits for all, and they are held in memory.
  static constexpr int64_t kLeastAhead = 4, kMostAhead = 16;  // For each thread.
  static constexpr int64_t kAheadNanos = 20'000'000;
  static constexpr int64_t kAheadBytes = int64_t{16} << 20;

  struct Slot {
    RunningFunction run;
    Element args = {}, results = {};
    absl::Status status = absl::OkStatus();
  };

  absl::Status FillOne(IterationContext& ctx) {
    at_ = filled_ = 0;
    Slot& slot = slots_[0];
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, slot.args));
    if (!more) return absl::OkStatus();
    const bool timed = until_clock_ == 0;
    until_clock_ = timed ? kElementsBetweenClocks : until_clock_ - 1;
    const int64_t start = timed ? absl::GetCurrentTimeNanos() : 0;
    slot.status = slot.run.Run(ctx, std::move(slot.args), slot.results);
    if (timed) {
      nanos_ = absl::GetCurrentTimeNanos() - start;
      bytes_ = BytesOf(slot.results);
    }
    filled_ = 1;
    return absl::OkStatus();
  }

  absl::Status Fill(IterationContext& ctx) {
    at_ = filled_ = 0;
    const size_t ahead = static_cast<size_t>(Ahead());
    size_t taken = 0;
    for (; taken < ahead; ++taken) {
      if (taken == slots_.size()) {
        FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map_->NewRun(ctx));
        slots_.push_back({std::move(run)});
      }
      const absl::StatusOr<bool> more = it_.Next(ctx, slots_[taken].args);
      input_status_ = more.status();
      if (!more.ok() || !*more) break;
    }
    const int64_t start = absl::GetCurrentTimeNanos();
    const int64_t all = static_cast<int64_t>(taken);
    // Each takes the next one, or, where they are to be fewer than there are, a share.
    const int64_t grain = at_once_ < ParallelThreads() ? (all + at_once_ - 1) / at_once_ : 1;
    ParallelFor(all, std::max<int64_t>(grain, 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Slot& slot = slots_[static_cast<size_t>(i)];
        IterationContext own(ctx.call);
        slot.status = slot.run.Run(own, std::move(slot.args), slot.results);
      }
    });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());  // Some may not have been run.
    filled_ = taken;
    if (all == 0) return absl::OkStatus();
    nanos_ = (absl::GetCurrentTimeNanos() - start) * std::min(at_once_, all) / all;
    bytes_ = 0;
    for (size_t i = 0; i < taken; ++i) bytes_ = std::max(bytes_, BytesOf(slots_[i].results));
    return absl::OkStatus();
  }

  // How many elements to map at a time.
  int64_t Ahead() const {
    const int64_t by_time = kAheadNanos * at_once_ / nanos_;
    const int64_t by_room = kAheadBytes / std::max<int64_t>(bytes_, 1);
    return std::clamp(std::min(by_time, by_room), kLeastAhead * at_once_, kMostAhead * at_once_);
  }

  static int64_t BytesOf(const Element& element) {
    size_t bytes = 0;
    for (const Tensor& component : element) bytes += component.bytes();
    return static_cast<int64_t>(bytes);
  }

  Iterator it_;
  const std::shared_ptr<const DatasetFunction> map_;
  const int64_t at_once_;
  const bool preserve_;
  std::vector<Slot> slots_;
  size_t at_ = 0, filled_ = 0;
  absl::Status input_status_;  // Behind the elements that are filled.
  int64_t nanos_ = 0;          // What an element takes.
  int64_t bytes_ = 0;          // What one holds, where they differ the largest.
  uint32_t until_clock_ = 0;
};

absl::StatusOr<KernelFn> MakeParallelMap(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, spec.dtypes));
  FORMWORK_ASSIGN_OR_RETURN(const bool preserve, init.attrs().Get<bool>("preserve_cardinality"));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t threads, ThreadsFor(ctx, ctx.num_inputs() - 1));
    auto map = std::make_shared<const DatasetFunction>(ctx, function, 1, ctx.num_inputs() - 2);
    return ParallelMapDataset(spec, std::move(input), std::move(map), threads, preserve);
  });
}

// The batches of what is mapped.
absl::StatusOr<KernelFn> MakeMapAndBatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, spec.dtypes));
  FORMWORK_ASSIGN_OR_RETURN(const bool preserve, init.attrs().Get<bool>("preserve_cardinality"));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    const int own = ctx.num_inputs() - 3;
    FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, own, "batch_size"));
    if (size < 1) return InvalidArgument("batch_size must be greater than zero.");
    FORMWORK_ASSIGN_OR_RETURN(const int64_t threads, ThreadsFor(ctx, own + 1));
    FORMWORK_ASSIGN_OR_RETURN(const bool drop, ScalarInput<bool>(ctx, own + 2, "drop_remainder"));
    auto map = std::make_shared<const DatasetFunction>(ctx, function, 1, own - 1);
    // Of what the function makes the dtypes are known.
    ElementSpec mapped = spec;
    for (PartialShape& shape : mapped.shapes) shape = PartialShape();
    return BatchDataset(
        ParallelMapDataset(std::move(mapped), std::move(input), std::move(map), threads, preserve),
        spec.shapes, size, drop);
  });
}

struct ScanStage {
  Iterator it;
  RunningFunction run;
  Element state;
  bool preserve;
  Element next = {}, args = {};

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, next));
    if (!more) return false;
    args = state;
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
  }
  absl::Status Keep(Position& position) {
    const size_t states = state.size();
    FORMWORK_RETURN_IF_ERROR(position.Keep(it, run, state));
    return state.size() == states ? absl::OkStatus() : position.Unfit();
  }
};

absl::StatusOr<KernelFn> MakeScan(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_ASSIGN_OR_RETURN(const auto state, init.attrs().Get<std::vector<DType>>("Tstate"));
  FORMWORK_ASSIGN_OR_RETURN(const bool preserve, init.attrs().Get<bool>("preserve_cardinality"));
  std::vector<DType> made = state;
  made.insert(made.end(), spec.dtypes.begin(), spec.dtypes.end());
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, made));
  return DatasetKernel(
      init, [=, states = state.size()](KernelContext& ctx, DatasetPtr input) -> Made {
        auto initial = std::make_shared<Element>();
        for (size_t i = 0; i < states; ++i) initial->push_back(ctx.input(static_cast<int>(i) + 1));
        const int first = static_cast<int>(states) + 1;
        auto scan =
            std::make_shared<const DatasetFunction>(ctx, function, first, ctx.num_inputs() - first);
        const int64_t cardinality = preserve ? input->cardinality : Dataset::kUnknown;
        return NewDataset(spec, cardinality, [=](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
          FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, scan->NewRun(ctx));
          return NextFn::Of<ScanStage>(std::move(it), std::move(run), *initial, preserve);
        });
      });
}

struct FilterStage {
  Iterator it;
  RunningFunction run;
  bool ends;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (true) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
      if (!more) return false;
      FORMWORK_ASSIGN_OR_RETURN(const bool kept, run.RunPredicate(ctx, element));
      if (kept || ends) return kept;
    }
  }
  absl::Status Keep(Position& position) { return position.Keep(it, run); }
};

// `ends`: the first element that the predicate refuses ends the dataset; else it is left out.
// `own`: inputs beside the dataset and what the function has captured, which stand last.
absl::StatusOr<KernelFn> MakeFilterThat(KernelInit& init, bool ends, int own = 0) {
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, {DType::kBool}));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    auto predicate =
        std::make_shared<const DatasetFunction>(ctx, function, 1, ctx.num_inputs() - 1 - own);
    return NewDataset(input->spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, predicate->NewRun(ctx));
      return NextFn::Of<FilterStage>(std::move(it), std::move(run), ends);
    });
  });
}

absl::StatusOr<KernelFn> MakeFilter(KernelInit& init) { return MakeFilterThat(init, false); }
absl::StatusOr<KernelFn> MakeParallelFilter(KernelInit& init) {
  return MakeFilterThat(init, false, 1);
}
absl::StatusOr<KernelFn> MakeTakeWhile(KernelInit& init) { return MakeFilterThat(init, true); }

}  // namespace

absl::StatusOr<int64_t> ThreadsFor(KernelContext& ctx, int i) {
  const Tensor& input = ctx.input(i);
  if (input.rank() != 0) return InvalidArgument("num_parallel_calls must be a scalar");
  const int64_t calls =
      input.dtype() == DType::kInt32 ? input.scalar<int32_t>() : input.scalar<int64_t>();
  const int64_t threads = ParallelThreads();
  if (calls == kAutotune) return threads;
  if (calls < 1) return InvalidArgument("num_parallel_calls must be greater than zero.");
  return std::min(calls, threads);
}

std::shared_ptr<Dataset> ParallelMapDataset(ElementSpec spec, DatasetPtr input,
                                            std::shared_ptr<const DatasetFunction> map,
                                            int64_t threads, bool preserve) {
  const int64_t cardinality = preserve ? input->cardinality : Dataset::kUnknown;
  const int64_t at_once = map->side_by_side() ? threads : 1;
  return NewDataset(std::move(spec), cardinality, [=](IterationContext& ctx) -> Begun {
    FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
    FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map->NewRun(ctx));
    return NextFn::Of<ParallelMap>(std::move(it), map, std::move(run), at_once, preserve);
  });
}

void RegisterMapDatasets(KernelRegistry& registry) {
  registry.Add("MapDataset", MakeMap);
  registry.Add("ParallelMapDataset", MakeParallelMap);
  registry.Add("ParallelMapDatasetV2", MakeParallelMap);
  registry.Add("MapAndBatchDataset", MakeMapAndBatch);
  registry.Add("ScanDataset", MakeScan);
  registry.Add("FilterDataset", MakeFilter);
  registry.Add("ParallelFilterDataset", MakeParallelFilter);
  registry.Add("TakeWhileDataset", MakeTakeWhile);
}

}  // namespace formwork
