// Elements that are made while those before them are used, on a compute thread.
//
// They are the ones that would be made anyway, one after the other: what an element is, and at
// which an error or the end comes, stays as it is. So that nobody can tell, elements are made ahead
//
//   where all that makes them is quiet (Dataset::quiet): no effects, no resources, nothing that
//     waits, of their functions and of those of the datasets that these make;
//   for iterators that end with the kernel that asks (IterationContext::OfWhatEnds): what is under
//     way then is stopped, which leaves an iterator where nobody could go on;
//   where it pays, which is measured, and a compute thread is free: until one has begun, who needs
//     the next element makes it.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/beside.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"
#include "core/kernels/kernel_function.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// Whatever is asked for: more of them hide no more than that one takes longer than others, and all
// are held in memory.
constexpr int64_t kMostAhead = 16;
constexpr size_t kMostAheadBytes = size_t{16} << 20;  // From here on no further one is begun.
// What it costs to have one made elsewhere.
constexpr int64_t kHandOverNanos = 20'000;
// A cancellation is seen so often by who waits for an element.
constexpr absl::Duration kLook = absl::Milliseconds(5);

// The call, as those see it who make elements ahead: with a StopFlag of their own, so that they can
// be stopped alone. They are quiet: of the call's they use what lanes may use.
class AheadScope final : public CallScope {
 public:
  explicit AheadScope(CallScope& call) : call_(call), stop_(call.stop().deadline()) {}

  Allocator& allocator() override { return call_.allocator(); }
  ResourceAccess& resources() override { return call_.resources(); }
  void Print(absl::string_view text) override { call_.Print(text); }
  StopFlag& stop() override { return stop_; }
  std::atomic<uint64_t>& state(int index) override { return call_.state(index); }
  ResourceHandle named_resource(int index) override { return call_.named_resource(index); }
  absl::string_view files_dir() const override { return call_.files_dir(); }
  absl::StatusOr<std::unique_ptr<FunctionRun>> NewRun(const BoundFunction& function) override {
    return call_.NewRun(function);
  }

 private:
  CallScope& call_;
  StopFlag stop_;
};

// What Iterator::Next has given.
struct Given {
  absl::StatusOr<bool> more = false;
  Element element = {};
  size_t bytes = 0;
  int64_t nanos = 0;  // That it took.

  bool is_element() const { return more.ok() && *more; }
};

size_t BytesOf(const Element& element) {
  size_t bytes = 0;
  for (const Tensor& component : element) {
    bytes += component.bytes();
    if (component.dtype() != DType::kString) continue;
    for (const std::string& text : component.span<std::string>()) bytes += text.size();
  }
  return bytes;
}

// Makes elements of an iterator ahead. Who uses them asks, takes and ends; a compute thread makes.
// Thread-safe, since they are two; shared by a work that may wait for its thread for longer than
// there is a call.
class Ahead {
 public:
  // Until End the iterator, and the call, outlive it, and nobody else uses the iterator but after a
  // Take that has given nothing.
  Ahead(Iterator& it, CallScope& call, size_t most)
      : it_(it),
        scope_(call),
        ctx_(IterationContext::OfWhatEnds(scope_)),
        budget_(HeapScope::current()),
        share_(HeapScope::share()),
        held_(most) {}

  // Has further ones made, where there is room and nobody does so already.
  static void Ask(const std::shared_ptr<Ahead>& ahead) {
    if (!ahead->MayBeAsked()) return;
    if (!TryRunBeside([ahead] { ahead->Run(); })) ahead->NobodyCame();
  }

  // The next one, where it is there or is being made; false: nobody makes it.
  bool Take(StopFlag& stop, Given& given) {
    absl::MutexLock lock(&mutex_);
    while (count_ == 0 && maker_ == Maker::kRuns) {
      if (stop.Poll()) scope_.stop().Cancel();
      changed_.WaitWithTimeout(&mutex_, kLook);
    }
    if (count_ == 0) {
      maker_ = Maker::kNobody;  // Taken back.
      return false;
    }
    given = std::move(held_[first_]);
    first_ = (first_ + 1) % held_.size();
    --count_;
    bytes_ -= given.bytes;
    return true;
  }

  // Stops what runs. From here on nothing of the call is used.
  void End() {
    scope_.stop().Cancel();
    absl::MutexLock lock(&mutex_);
    while (maker_ == Maker::kRuns) changed_.Wait(&mutex_);
    maker_ = Maker::kNobody;
    held_.clear();
    count_ = 0;
  }

 private:
  enum class Maker { kNobody, kAsked, kRuns };

  bool MayBeAsked() {
    absl::MutexLock lock(&mutex_);
    if (maker_ != Maker::kNobody || count_ > held_.size() / 2 || !HasRoom()) return false;
    maker_ = Maker::kAsked;
    // One that was asked before, and has not come yet, will do.
    return !std::exchange(underway_, true);
  }
  void NobodyCame() {
    absl::MutexLock lock(&mutex_);
    underway_ = false;
    maker_ = Maker::kNobody;
  }
  // Whether another one may follow the last that is held.
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (count_ == 0) return true;
    return count_ < held_.size() && bytes_ < kMostAheadBytes &&
           held_[(first_ + count_ - 1) % held_.size()].is_element();
  }

  // On another thread: as many as may be held, then others have their turn.
  void Run() {
    size_t left;
    {
      absl::MutexLock lock(&mutex_);
      underway_ = false;
      if (maker_ != Maker::kAsked) return;
      maker_ = Maker::kRuns;
      left = held_.size();
    }
    while (Make(--left == 0)) {
    }
  }
  bool Make(bool last) {
    Given given;
    {
      // Ended before others are told: the budget is the call's.
      const StopScope stop(&scope_.stop());
      const HeapScope heap(budget_, share_);
      const int64_t start = absl::GetCurrentTimeNanos();
      given.more = CatchOutOfMemory([&] { return it_.Next(ctx_, given.element); });
      // What it is of work left undone is nothing.
      if (scope_.stop().cut()) given.more = scope_.stop().status();
      if (!given.is_element()) given.element.clear();
      given.bytes = BytesOf(given.element);
      given.nanos = absl::GetCurrentTimeNanos() - start;
    }
    absl::MutexLock lock(&mutex_);
    bytes_ += given.bytes;
    held_[(first_ + count_++) % held_.size()] = std::move(given);
    if (last || !HasRoom()) maker_ = Maker::kNobody;
    changed_.Signal();
    return maker_ == Maker::kRuns;
  }

  Iterator& it_;
  AheadScope scope_;
  IterationContext ctx_;
  MemoryBudget* const budget_;
  MemoryShare* const share_;

  absl::Mutex mutex_;
  absl::CondVar changed_;
  Maker maker_ ABSL_GUARDED_BY(mutex_) = Maker::kNobody;
  bool underway_ ABSL_GUARDED_BY(mutex_) = false;    // A work that has not begun.
  std::vector<Given> held_ ABSL_GUARDED_BY(mutex_);  // A ring.
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0, count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

class PrefetchStage {
 public:
  PrefetchStage(Iterator it, size_t most) : it_(std::move(it)), most_(most) {}
  ~PrefetchStage() {
    if (ahead_ != nullptr) ahead_->End();
  }
  PrefetchStage(const PrefetchStage&) = delete;
  PrefetchStage& operator=(const PrefetchStage&) = delete;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (!ctx.may_go_ahead() || ctx.call.streams() != nullptr) return it_.Next(ctx, element);
    if (used_from_ != 0) {
      Count(asked_ ? beside_.use : alone_.use, absl::GetCurrentTimeNanos() - used_from_);
      used_from_ = 0;
    }
    if (asked_) {
      Given given;
      asked_ = ahead_->Take(ctx.call.stop(), given);
      if (asked_) return Pass(ctx, std::move(given), element);
    }
    return MakeHere(ctx, element);
  }

  // An iterator that is stored is asked in calls that it outlives: it holds nothing.
  absl::Status Keep(Position& position) { return position.Keep(it_); }

 private:
  // What an element takes, in nanoseconds: to be made, and from then on until the next one is asked
  // for. Means, of which the latest count most; 0: not known.
  struct Pace {
    int64_t make = 0, use = 0;
  };
  static constexpr int64_t kCountedOver = 8;
  static constexpr uint32_t kElementsBetweenClocks = 16;  // Of those that take little.
  static constexpr uint32_t kElementsBetweenTries = 64;

  static void Count(int64_t& mean, int64_t nanos) {
    mean = mean == 0 ? std::max<int64_t>(nanos, 1) : mean + (nanos - mean) / kCountedOver;
  }

  // Whether elements come sooner where they are made elsewhere, as far as is known. What is made or
  // used on all threads where nothing else is going on takes longer beside the other.
  bool Pays() const {
    const int64_t make = beside_.make != 0 ? beside_.make : alone_.make;
    const int64_t use = beside_.use != 0 ? beside_.use : alone_.use;
    return std::max(make, use) + kHandOverNanos < alone_.make + alone_.use;
  }

  absl::StatusOr<bool> MakeHere(IterationContext& ctx, Element& element) {
    if (until_clock_ > 0) {
      --until_clock_;
      return it_.Next(ctx, element);
    }
    const int64_t start = absl::GetCurrentTimeNanos();
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, element));
    if (!more) return false;
    Count(alone_.make, absl::GetCurrentTimeNanos() - start);
    if (alone_.make < kHandOverNanos) until_clock_ = kElementsBetweenClocks - 1;
    if (++made_here_ % kElementsBetweenTries == 0) beside_ = Pace();  // It may have changed.
    GoAhead(ctx);
    return true;
  }

  absl::StatusOr<bool> Pass(IterationContext& ctx, Given given, Element& element) {
    // That it was stopped comes of the call's being stopped.
    if (!given.more.ok() && ctx.call.stop().Poll()) return ctx.call.stop().status();
    if (given.is_element()) {
      Count(beside_.make, given.nanos);
      element.swap(given.element);
      GoAhead(ctx);
    }
    return std::move(given.more);
  }

  // While the element at hand is used.
  void GoAhead(IterationContext& ctx) {
    if (Pays()) {
      if (ahead_ == nullptr) ahead_ = std::make_shared<Ahead>(it_, ctx.call, most_);
      Ahead::Ask(ahead_);
      asked_ = true;
    }
    used_from_ = absl::GetCurrentTimeNanos();
  }

  std::shared_ptr<Ahead> ahead_;  // Null until it has paid once.
  Iterator it_;                   // Ends before what its own prefetches may have been begun in.
  const size_t most_;
  Pace alone_, beside_;  // While nobody makes elements ahead; while somebody does.
  bool asked_ = false;   // Something may have been made, or be being made.
  int64_t used_from_ = 0;
  uint32_t until_clock_ = 0;
  uint32_t made_here_ = 0;
};

absl::StatusOr<KernelFn> MakePrefetch(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, 1, "buffer_size"));
    if (size < 0 && size != kAutotune) {
      return InvalidArgument("buffer_size must be >= 0 or set buffer_size to be ", kAutotune,
                             " for auto-tuning");
    }
    return PrefetchedDataset(std::move(input), size);
  });
}

}  // namespace

std::shared_ptr<Dataset> PrefetchedDataset(DatasetPtr input, int64_t most) {
  const int64_t held = most == kAutotune ? kMostAhead : std::min(most, kMostAhead);
  const bool ahead = input->quiet && held > 0;
  ElementSpec spec = input->spec;
  const int64_t cardinality = input->cardinality;
  return NewDataset(std::move(spec), cardinality,
                    [input = std::move(input), held, ahead](IterationContext& ctx) -> Begun {
                      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
                      if (!ahead) return NextFn::Of<PassStage>(std::move(it));
                      return NextFn::Of<PrefetchStage>(std::move(it), static_cast<size_t>(held));
                    });
}

void RegisterPrefetchDatasets(KernelRegistry& registry) {
  registry.Add("PrefetchDataset", MakePrefetch);
}

}  // namespace formwork
