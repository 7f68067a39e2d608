// Candidate samplers. With seeds given, the same classes as TensorFlow's.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/sequence_position.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/candidate.h"

namespace formwork {
namespace {

// Numbers of a sequence as samplers take them.
class Draws {
 public:
  explicit Draws(const Philox& philox) : numbers_(philox) {}

  float Float() { return UnitFloat(numbers_.Next()); }
  double Double() {
    const uint32_t high = numbers_.Next();
    return UnitDouble(high, numbers_.Next());
  }
  // In [0, n): of a power of two the low bits, else the rest of a number that is not among the
  // first 2^bits % n.
  uint64_t Below32(uint32_t n) {
    return Below<uint32_t>(n, [this] { return numbers_.Next(); });
  }
  uint64_t Below64(uint64_t n) {
    return Below<uint64_t>(n, [this] {
      const uint64_t low = numbers_.Next();
      return low | (uint64_t{numbers_.Next()} << 32);
    });
  }

 private:
  template <typename T, typename Next>
  T Below(T n, const Next& next) {
    if ((n & (n - 1)) == 0) return next() & (n - 1);
    const T first = static_cast<T>(std::numeric_limits<T>::max() % n + 1);
    T drawn = next();
    while (drawn < first) drawn = next();
    return drawn % n;
  }

  PhiloxSequence numbers_;
};

// A sampler says how a class is drawn, `Draw`, and how likely each is, `Probability`, while one
// call runs; `Learn` is told the true classes.

struct Uniform {
  int64_t range;
  int64_t Draw(Draws& draws) const {
    return static_cast<int64_t>(draws.Below64(static_cast<uint64_t>(range)));
  }
  float Probability(int64_t) const { return static_cast<float>(1.0 / static_cast<double>(range)); }
  void Learn(KernelContext&, absl::Span<const int64_t>) const {}
};

// Class k in proportion to log(k + 2) - log(k + 1).
struct LogUniform {
  int64_t range;
  double log_range = std::log1p(static_cast<double>(range));

  int64_t Draw(Draws& draws) const {
    // Rounding up must not take it past the largest integer.
    const double drawn = std::min(std::exp(draws.Double() * log_range), 9.2e18);
    return (static_cast<int64_t>(drawn) - 1) % range;
  }
  float Probability(int64_t value) const {
    const double at = static_cast<double>(value);
    return static_cast<float>(std::log((at + 2.0) / (at + 1.0)) / log_range);
  }
  void Learn(KernelContext&, absl::Span<const int64_t>) const {}
};

// By fixed weights: the classes' shares are cut into columns of equal height, each of at most two
// classes (Walker's and Vose's alias method), in TensorFlow's order.
class FixedUnigram {
 public:
  explicit FixedUnigram(std::vector<float> weights) : weights_(std::move(weights)) {
    const size_t n = weights_.size();
    double sum = 0;
    for (const float weight : weights_) sum += weight;
    for (const float weight : weights_) total_ += weight;
    columns_.resize(n);
    std::vector<double> left(n);
    std::vector<int32_t> low;
    std::vector<int32_t> high;
    for (size_t i = 0; i < n; ++i) {
      left[i] = weights_[i] * static_cast<double>(n) / sum;
      columns_[i] = {1.0f, static_cast<int32_t>(i)};
      (left[i] < 1.0 ? low : high).push_back(static_cast<int32_t>(i));
    }
    while (!low.empty() && !high.empty()) {
      const auto small = static_cast<size_t>(low.back());
      const auto large = static_cast<size_t>(high.back());
      low.pop_back();
      high.pop_back();
      columns_[small] = {static_cast<float>(left[small]), static_cast<int32_t>(large)};
      left[large] -= 1.0 - left[small];
      (left[large] < 1.0 ? low : high).push_back(static_cast<int32_t>(large));
    }
  }

  int64_t Draw(Draws& draws) const {
    const float height = draws.Float();
    const uint64_t column = draws.Below32(static_cast<uint32_t>(columns_.size()));
    const Column& at = columns_[column];
    return height < at.height ? static_cast<int64_t>(column) : at.other;
  }
  float Probability(int64_t value) const { return weights_[static_cast<size_t>(value)] / total_; }
  void Learn(KernelContext&, absl::Span<const int64_t>) const {}

 private:
  struct Column {
    float height;  // Below it is the column's own class.
    int32_t other;
  };
  std::vector<float> weights_;
  std::vector<Column> columns_;
  float total_ = 0;
};

// By one more than how often each has been a true class before: hidden state.
class LearnedUnigram {
 public:
  LearnedUnigram(KernelContext& ctx, int state, int64_t range) : state_(state) {
    sums_.resize(static_cast<size_t>(range));
    uint64_t sum = 0;
    for (int64_t i = 0; i < range; ++i) {
      if (WorkIsCutAt(i)) return;
      sum += 1 + ctx.call().state(state_ + static_cast<int>(i)).load(std::memory_order_relaxed);
      sums_[static_cast<size_t>(i)] = sum;
    }
  }

  int64_t Draw(Draws& draws) const {
    const uint64_t total = sums_.back();
    const uint64_t at = total <= std::numeric_limits<uint32_t>::max()
                            ? draws.Below32(static_cast<uint32_t>(total))
                            : draws.Below64(total);
    return std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin();
  }
  float Probability(int64_t value) const {
    const auto i = static_cast<size_t>(value);
    const uint64_t weight = sums_[i] - (i == 0 ? 0 : sums_[i - 1]);
    return static_cast<float>(weight) / static_cast<float>(sums_.back());
  }
  void Learn(KernelContext& ctx, absl::Span<const int64_t> classes) const {
    for (const int64_t value : classes) {
      ctx.call().state(state_ + static_cast<int>(value)).fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  int state_;
  std::vector<uint64_t> sums_;  // Of the weights of classes [0, i].
};

// How often a class of that probability is among those drawn in `tries`.
float ExpectedCount(float probability, int64_t num_sampled, int64_t tries) {
  if (tries == num_sampled) return probability * static_cast<float>(num_sampled);
  return -std::expm1(static_cast<float>(tries) * std::log1p(-probability));
}

absl::Status CheckClass(int64_t value, int64_t range) {
  if (value >= 0 && value < range) return absl::OkStatus();
  return InvalidArgument("`true_candidate` out of range [0, ", range, "), received ", value);
}

// Draws into `to`. The number of tries that it has taken.
template <typename Sampler>
absl::StatusOr<int64_t> DrawAll(const Sampler& sampler, bool unique, Draws& draws,
                                absl::Span<int64_t> to) {
  if (!unique) {
    for (size_t i = 0; i < to.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
      to[i] = sampler.Draw(draws);
    }
    return static_cast<int64_t>(to.size());
  }
  HashSet<int64_t> drawn;
  int64_t tries = 0;
  for (size_t i = 0; i < to.size();) {
    if (WorkIsCutAt(tries)) return WorkStatus();
    // Weights may be such that the rest is never drawn.
    if (++tries == std::numeric_limits<int32_t>::max()) {
      return ResourceExhausted("too few classes are likely enough to be drawn: drawn=", i,
                               " num_sampled=", to.size());
    }
    const int64_t value = sampler.Draw(draws);
    if (drawn.insert(value).second) to[i++] = value;
  }
  return tries;
}

template <typename Sampler>
absl::Status Sample(KernelContext& ctx, const CandidateAttrs& attrs,
                    const SequencePosition& position, const Sampler& sampler) {
  const Tensor classes = ctx.input(0);
  FORMWORK_RETURN_IF_ERROR(CheckTrueClasses(classes.shape().dims(), attrs.num_true));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({attrs.num_sampled}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor sampled,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor counts, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor true_counts,
                            Tensor::Allocate(ctx.allocator(), DType::kFloat, classes.shape()));
  for (int64_t i = 0; i < classes.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(CheckClass(classes.data<int64_t>()[i], attrs.range_max));
  }
  // What TensorFlow sets aside.
  const auto n = static_cast<uint64_t>(attrs.num_sampled);
  Draws draws(position.Reserve(ctx, n * 512));
  const absl::Span<int64_t> drawn(sampled.mutable_data<int64_t>(), n);
  FORMWORK_ASSIGN_OR_RETURN(const int64_t tries, DrawAll(sampler, attrs.unique, draws, drawn));
  const auto count = [&](int64_t value) {
    return ExpectedCount(sampler.Probability(value), attrs.num_sampled, tries);
  };
  for (size_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    counts.mutable_data<float>()[i] = count(drawn[i]);
  }
  for (int64_t i = 0; i < classes.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    true_counts.mutable_data<float>()[i] = count(classes.data<int64_t>()[i]);
  }
  sampler.Learn(ctx, classes.span<int64_t>());
  ctx.SetOutput(0, std::move(sampled));
  ctx.SetOutput(1, std::move(true_counts));
  ctx.SetOutput(2, std::move(counts));
  return absl::OkStatus();
}

template <typename Sampler>
absl::StatusOr<KernelFn> MakeRangeSampler(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CandidateAttrs attrs, CandidateAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([attrs, position](KernelContext& ctx) {
    return Sample(ctx, attrs, position, Sampler{attrs.range_max});
  });
}

absl::StatusOr<KernelFn> MakeFixedUnigram(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CandidateAttrs attrs, CandidateAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(UnigramAttrs unigrams,
                            UnigramAttrs::FromAttrs(init.attrs(), attrs.range_max));
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([attrs, position, sampler = FixedUnigram(std::move(unigrams.weights))](
                      KernelContext& ctx) { return Sample(ctx, attrs, position, sampler); });
}

absl::StatusOr<KernelFn> MakeLearnedUnigram(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CandidateAttrs attrs, CandidateAttrs::FromAttrs(init.attrs()));
  constexpr int64_t kMostClasses = int64_t{1} << 20;  // Each takes a number of hidden state.
  if (attrs.range_max > kMostClasses) {
    return ResourceExhausted(init.op().name, ": too many classes: range_max=", attrs.range_max,
                             " limit=", kMostClasses);
  }
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position,
                            SequencePosition::Of(init, static_cast<int>(attrs.range_max)));
  return KernelFn([attrs, position](KernelContext& ctx) -> absl::Status {
    const LearnedUnigram sampler(ctx, position.more(), attrs.range_max);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return Sample(ctx, attrs, position, sampler);
  });
}

// All classes, each once.
absl::StatusOr<KernelFn> MakeAll(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CandidateAttrs attrs, CandidateAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor classes = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckTrueClasses(classes.shape().dims(), attrs.num_true));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({attrs.num_sampled}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * sampled, ctx.AllocateOutput(0, DType::kInt64, shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * true_counts,
                              ctx.AllocateOutput(1, DType::kFloat, classes.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * counts, ctx.AllocateOutput(2, DType::kFloat, shape));
    for (int64_t i = 0; i < attrs.num_sampled; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      sampled->mutable_data<int64_t>()[i] = i;
      counts->mutable_data<float>()[i] = 1;
    }
    for (int64_t i = 0; i < classes.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      FORMWORK_RETURN_IF_ERROR(CheckClass(classes.data<int64_t>()[i], attrs.range_max));
      true_counts->mutable_data<float>()[i] = 1;
    }
    return absl::OkStatus();
  });
}

// Where a true class of a row has been drawn: the last place of it.
absl::StatusOr<KernelFn> MakeAccidentalHits(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t num_true, init.attrs().Get<int64_t>("num_true"));
  return KernelFn([num_true](KernelContext& ctx) -> absl::Status {
    const Tensor classes = ctx.input(0);
    const Tensor sampled = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(
        CheckAccidentalHits(classes.shape().dims(), sampled.shape().dims(), num_true));
    HashMap<int64_t, int64_t> place;
    for (int64_t i = 0; i < sampled.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      place[sampled.data<int64_t>()[i]] = i;
    }
    std::vector<int32_t> rows;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < classes.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const auto found = place.find(classes.data<int64_t>()[i]);
      if (found == place.end()) continue;
      rows.push_back(static_cast<int32_t>(i / num_true));
      ids.push_back(found->second);
    }
    const Shape shape{static_cast<int64_t>(rows.size())};
    FORMWORK_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(0, DType::kInt32, shape));
    std::copy(rows.begin(), rows.end(), indices->mutable_data<int32_t>());
    FORMWORK_ASSIGN_OR_RETURN(Tensor * places, ctx.AllocateOutput(1, DType::kInt64, shape));
    std::copy(ids.begin(), ids.end(), places->mutable_data<int64_t>());
    FORMWORK_ASSIGN_OR_RETURN(Tensor * weights, ctx.AllocateOutput(2, DType::kFloat, shape));
    std::fill_n(weights->mutable_data<float>(), rows.size(), std::numeric_limits<float>::lowest());
    return absl::OkStatus();
  });
}

}  // namespace

void AddCandidateCpuKernels(KernelRegistry& registry) {
  registry.Add("UniformCandidateSampler", MakeRangeSampler<Uniform>);
  registry.Add("LogUniformCandidateSampler", MakeRangeSampler<LogUniform>);
  registry.Add("FixedUnigramCandidateSampler", MakeFixedUnigram);
  registry.Add("LearnedUnigramCandidateSampler", MakeLearnedUnigram);
  registry.Add("ThreadUnsafeUnigramCandidateSampler", MakeLearnedUnigram);
  registry.Add("AllCandidateSampler", MakeAll);
  registry.Add("ComputeAccidentalHits", MakeAccidentalHits);
}

}  // namespace formwork
