// Datasets in a random order, and of random numbers: with seeds, TensorFlow's.

#include <deque>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/kernels/random/philox.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

struct Seeds {
  uint64_t first = 0, second = 0;

  // Without seeds: some.
  static absl::StatusOr<Seeds> FromInputs(KernelContext& ctx, int i) {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t seed, ScalarInput<int64_t>(ctx, i, "seed"));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t seed2, ScalarInput<int64_t>(ctx, i + 1, "seed2"));
    if (seed != 0 || seed2 != 0) {
      return Seeds{static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2)};
    }
    std::random_device device;
    const auto draw = [&device] { return uint64_t{device()} << 32 | device(); };
    return Seeds{draw(), draw()};
  }
};

// What the iterators of one dataset take their seeds from, one after the other.
class SeedGenerator {
 public:
  // `same`: each takes the seeds themselves.
  SeedGenerator(Seeds seeds, bool same)
      : seeds_(seeds), same_(same), numbers_(Philox(seeds.first, seeds.second)) {}

  Seeds Next() {
    absl::MutexLock lock(&mutex_);
    if (same_) return seeds_;
    const uint64_t first = numbers_.Next();
    return {first, numbers_.Next()};
  }
  absl::Status Keep(Position& position) {
    absl::MutexLock lock(&mutex_);
    return position.Keep(seeds_.first, seeds_.second, numbers_);
  }

 private:
  Seeds seeds_ ABSL_GUARDED_BY(mutex_);
  const bool same_;
  absl::Mutex mutex_;
  PhiloxSequence numbers_ ABSL_GUARDED_BY(mutex_);
};

constexpr int64_t kWholeInput = Dataset::kUnknown;  // As a buffer's size.
// Further ones are not begun while elements of so many wait.
constexpr size_t kMostEpochsInBuffer = 3;

struct ShuffleSizes {
  int64_t buffer;  // kWholeInput: as large as the input.
  int64_t epochs;  // Times that the input is gone through; -1: for ever.
};

// Keeps up to so many elements of the input, and gives one of them. Places are numbered on and on,
// and wrap around the buffer; those of each epoch are a slice.
class Shuffler {
 public:
  Shuffler(DatasetPtr input, ShuffleSizes sizes, std::shared_ptr<SeedGenerator> seeds)
      : input_(std::move(input)), sizes_(sizes), seeds_(std::move(seeds)) {
    Reseed();
  }

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_RETURN_IF_ERROR(Fill(ctx));
    if (waiting_ == 0) return false;
    while (slices_.front().begin == slices_.front().end) {
      slices_.pop_front();
      Reseed();
    }
    Slice& slice = slices_.front();
    const uint64_t offset = numbers_.Next() % (slice.end - slice.begin);
    // Elements change places, and so does the room that they leave.
    Element& chosen = buffer_[PlaceOf(slice.begin + offset)];
    element.swap(chosen);
    chosen.swap(buffer_[PlaceOf(slice.begin)]);
    ++slice.begin;
    --waiting_;
    return true;
  }

  // The seeds of iterators that are begun later are the dataset's; each that is stored has them.
  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(seeds_->Keep(position));
    FORMWORK_RETURN_IF_ERROR(position.KeepBegun(it_, input_.get()));
    FORMWORK_RETURN_IF_ERROR(
        position.Keep(numbers_, epoch_, produced_, buffer_, waiting_, end_, slices_));
    return !position.reads() || Fits() ? absl::OkStatus() : position.Unfit();
  }

 private:
  struct Slice {
    uint64_t begin = 0, end = 0;
    absl::Status Keep(Position& position) { return position.Keep(begin, end); }
  };

  // Whether what has been read is a buffer whose elements are where the slices say.
  bool Fits() const {
    const uint64_t room = buffer_.size();
    if (waiting_ > room) return false;
    if (!whole_input() && room > static_cast<uint64_t>(sizes_.buffer)) return false;
    uint64_t waiting = 0;
    for (const Slice& slice : slices_) {
      if (slice.begin > slice.end || slice.end - slice.begin > room) return false;
      waiting += slice.end - slice.begin;
    }
    // Until the buffer has been filled once, places are those up to its end.
    const bool filled = whole_input() || room == static_cast<uint64_t>(sizes_.buffer);
    return waiting == waiting_ && (filled || end_ <= room) &&
           (slices_.empty() || slices_.back().end == end_);
  }

  void Reseed() {
    const Seeds seeds = seeds_->Next();
    numbers_ = PhiloxSequence(Philox(seeds.first, seeds.second));
  }
  bool whole_input() const { return sizes_.buffer == kWholeInput; }
  size_t PlaceOf(uint64_t i) const {
    return static_cast<size_t>(
        i % (whole_input() ? buffer_.size() : static_cast<uint64_t>(sizes_.buffer)));
  }
  bool MayTakeMore() const {
    if (it_.at_end() && sizes_.epochs != -1 && epoch_ >= sizes_.epochs) return false;
    if (slices_.size() > kMostEpochsInBuffer && waiting_ > 0) return false;
    return whole_input() || waiting_ < static_cast<uint64_t>(sizes_.buffer);
  }

  absl::Status Fill(IterationContext& ctx) {
    while (MayTakeMore()) {
      if (it_.at_end()) {
        FORMWORK_ASSIGN_OR_RETURN(it_, input_->Begin(ctx));
        const uint64_t from = slices_.empty() ? end_ : slices_.back().end;
        slices_.push_back({from, from});
        ++epoch_;
      }
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, next_));
      if (more) {
        Put();
      } else if (!produced_ && sizes_.epochs == -1) {
        break;  // Nothing, for ever.
      }
    }
    return absl::OkStatus();
  }

  // What came last.
  void Put() {
    produced_ = true;
    if (whole_input() && waiting_ == buffer_.size()) {
      buffer_.push_back(std::move(next_));
    } else if (const size_t place = PlaceOf(slices_.back().end); place == buffer_.size()) {
      buffer_.push_back(std::move(next_));  // As far as it has been needed.
    } else {
      buffer_[place].swap(next_);
    }
    ++waiting_;
    end_ = ++slices_.back().end;
  }

  const DatasetPtr input_;
  const ShuffleSizes sizes_;
  const std::shared_ptr<SeedGenerator> seeds_;
  PhiloxSequence numbers_{Philox()};
  Iterator it_;
  int64_t epoch_ = 0;
  bool produced_ = false;
  std::vector<Element> buffer_;
  Element next_;
  uint64_t waiting_ = 0;
  uint64_t end_ = 0;  // Of the last slice that has been.
  std::deque<Slice> slices_;
};

absl::StatusOr<int64_t> BufferSize(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, 1, "buffer_size"));
  if (size > 0 || size == kWholeInput) return size;
  return InvalidArgument("buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
}

std::shared_ptr<Dataset> ShuffledDataset(DatasetPtr input, ShuffleSizes sizes, Seeds seeds,
                                         bool reshuffle, int64_t cardinality) {
  auto generator = std::make_shared<SeedGenerator>(seeds, !reshuffle);
  ElementSpec spec = input->spec;
  return NewDataset(std::move(spec), cardinality,
                    [input = std::move(input), sizes, generator](IterationContext&) -> Begun {
                      return NextFn::Of<Shuffler>(input, sizes, generator);
                    });
}

absl::StatusOr<KernelFn> MakeShuffle(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool reshuffle,
                            init.attrs().Get<bool>("reshuffle_each_iteration"));
  return DatasetKernel(init, [reshuffle](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t buffer, BufferSize(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Seeds seeds, Seeds::FromInputs(ctx, 2));
    const int64_t cardinality = input->cardinality;
    return ShuffledDataset(std::move(input), {buffer, 1}, seeds, reshuffle, cardinality);
  });
}

absl::StatusOr<KernelFn> MakeShuffleAndRepeat(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool reshuffle,
                            init.attrs().Get<bool>("reshuffle_each_iteration"));
  return DatasetKernel(init, [reshuffle](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t buffer, BufferSize(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Seeds seeds, Seeds::FromInputs(ctx, 2));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, ScalarInput<int64_t>(ctx, 4, "count"));
    if (count < 1 && count != -1) {
      return InvalidArgument("count must be greater than zero or equal to -1.");
    }
    const int64_t cardinality = RepeatedCardinality(input->cardinality, count);
    return ShuffledDataset(std::move(input), {buffer, count}, seeds, reshuffle, cardinality);
  });
}

// TensorFlow takes elements by their index, in an order of its own for each seed, and refuses what
// has none (batches with a remainder, other shuffles); here all elements wait in memory, so that
// whatever has an end that is known can be shuffled.
absl::StatusOr<KernelFn> MakeGlobalShuffle(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool reshuffle,
                            init.attrs().Get<bool>("reshuffle_each_iteration"));
  return DatasetKernel(init, [reshuffle](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const Seeds seeds, Seeds::FromInputs(ctx, 1));
    const int64_t cardinality = input->cardinality;
    if (cardinality == 0) {
      return InvalidArgument(
          "`global_shuffle` requires the input dataset to have a non-empty finite cardinality. "
          "Got cardinality 0.");
    }
    if (cardinality < 0) {
      return FailedPrecondition(
          "`global_shuffle` requires all upstream transformations be compatible with random "
          "access: the number of elements is ",
          cardinality == Dataset::kInfinite ? "infinite" : "unknown");
    }
    return ShuffledDataset(std::move(input), {kWholeInput, 1}, seeds, reshuffle, cardinality);
  });
}

struct RandomStage {
  std::shared_ptr<SeedGenerator> seeds;
  PhiloxSequence numbers;

  absl::StatusOr<bool> Next(IterationContext&, Element& element) {
    element.push_back(Tensor::Scalar(static_cast<int64_t>(numbers.Next())));
    return true;
  }
  absl::Status Keep(Position& position) { return position.Keep(*seeds, numbers); }
};

absl::StatusOr<KernelFn> MakeRandom(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(spec.dtypes, {DType::kInt64}));
  const bool rerandomize = init.attrs().GetOr<bool>("rerandomize_each_iteration", false);
  return DatasetKernel(init, [=](KernelContext& ctx) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const Seeds seeds, Seeds::FromInputs(ctx, 0));
    // Each iterator has the same numbers, unless they are to be others each time.
    auto generator = std::make_shared<SeedGenerator>(seeds, !rerandomize);
    return NewDataset(spec, Dataset::kInfinite, [generator](IterationContext&) -> Begun {
      const Seeds own = generator->Next();
      return NextFn::Of<RandomStage>(generator, PhiloxSequence(Philox(own.first, own.second)));
    });
  });
}

// Datasets keep what TensorFlow keeps in such a resource: nothing is behind the handle.
absl::Status GiveNoHandle(KernelContext& ctx) {
  ctx.SetOutput(0, Tensor::Scalar(ResourceHandle()));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDummy(KernelInit&) { return KernelFn(&GiveNoHandle); }

}  // namespace

void RegisterShuffleDatasets(KernelRegistry& registry) {
  registry.Add("ShuffleDataset", MakeShuffle);
  registry.Add("ShuffleDatasetV3", MakeShuffle);
  registry.Add("ShuffleAndRepeatDataset", MakeShuffleAndRepeat);
  registry.Add("ShuffleAndRepeatDatasetV2", MakeShuffleAndRepeat);
  registry.Add("GlobalShuffleDataset", MakeGlobalShuffle);
  registry.Add("RandomDataset", MakeRandom);
  registry.Add("RandomDatasetV2", MakeRandom);
  registry.Add("DummySeedGenerator", MakeDummy);
  registry.Add("DummyMemoryCache", MakeDummy);
}

}  // namespace formwork
