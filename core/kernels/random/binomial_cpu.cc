// Binomial numbers: with seeds given, the same as TensorFlow's.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/status.h"
#include "core/kernels/elements.h"
#include "core/kernels/random/broadcast_index.h"
#include "core/kernels/random/output_numbers.h"
#include "core/kernels/random/random_cpu.h"
#include "core/ops/distribution.h"
#include "core/ops/random.h"

namespace formwork {
namespace {

// log(k!) less Stirling's approximation of it.
double StirlingRest(double k) {
  constexpr double kRest[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                              0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                              0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                              0.00833056343336287};
  if (k <= 9) return kRest[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// Of `count` tries with a chance of at most one half, how many succeed.
class Successes {
 public:
  // Both finite and positive.
  Successes(double count, double chance)
      : count_(count),
        chance_(chance),
        deviation_(std::sqrt(count * chance * (1 - chance))),
        b_(1.15 + 2.53 * deviation_),
        a_(-0.0873 + 0.0248 * b_ + 0.01 * chance) {}

  double Draw(OutputNumbers& numbers) const {
    return count_ * chance_ >= 10 ? DrawMany(numbers) : DrawFew(numbers);
  }

 private:
  // The tries up to each success, which are geometric numbers, until there are too many of them.
  double DrawFew(OutputNumbers& numbers) const {
    constexpr uint64_t kGroups = 42;  // TensorFlow's choice.
    numbers.Reserve(kGroups);
    double tries = 0;
    for (double successes = 0;; ++successes) {
      tries += std::ceil(std::log(numbers.Uniform()) / std::log1p(-chance_));
      if (tries > count_) return successes;
    }
  }

  // Hoermann, "The generation of binomial random variates" (BTRS). More than a quarter of the tries
  // succeed at the first look alone.
  double DrawMany(OutputNumbers& numbers) const {
    const double odds = chance_ / (1 - chance_);
    const double mode = std::floor((count_ + 1) * chance_);
    while (true) {
      const double u = numbers.Uniform() - 0.5;
      double v = numbers.Uniform();
      const double away = 0.5 - std::abs(u);
      const double k = std::floor((2 * a_ / away + b_) * u + count_ * chance_ + 0.5);
      if (away >= 0.07 && v <= 0.92 - 4.2 / b_) return k;
      if (k < 0 || k > count_) continue;
      v = std::log(v * (2.83 + 5.1 / b_) * deviation_ / (a_ / (away * away) + b_));
      const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count_ - mode + 1))) +
                           (count_ + 1) * std::log((count_ - mode + 1) / (count_ - k + 1)) +
                           (k + 0.5) * std::log(odds * (count_ - k + 1) / (k + 1)) +
                           StirlingRest(mode) + StirlingRest(count_ - mode) - StirlingRest(k) -
                           StirlingRest(count_ - k);
      if (v <= bound) return k;
    }
  }

  double count_;
  double chance_;
  double deviation_;
  double b_;
  double a_;
};

// Where no number is drawn: all as TensorFlow has it, but for counts that are NaN, with which it
// does not end, or infinite, with which what it gives varies. They are the result here.
double Draw(double count, double prob, OutputNumbers& numbers) {
  if (count <= 0 || prob <= 0) return 0;
  if (std::isnan(prob)) return prob;
  if (prob >= 1 || !std::isfinite(count)) return count;
  if (prob <= 0.5) return Successes(count, prob).Draw(numbers);
  return count - Successes(count, 1 - prob).Draw(numbers);
}

// What is out of an integer's range is its least value, as for TensorFlow on x86.
template <typename T>
T Rounded(double value) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kLeast = static_cast<double>(std::numeric_limits<T>::min());
    if (!(value >= kLeast && value < -kLeast)) return std::numeric_limits<T>::min();
  }
  return FromDouble<T>(value);
}

struct Parameters {
  const Tensor& counts;
  const Tensor& probs;
  const BroadcastIndex count_at;
  const BroadcastIndex prob_at;
};

template <typename P, typename T>
absl::Status FillOf(const Parameters& parameters, const DistributionGeometry& geometry,
                    const Philox& philox, Tensor& out) {
  const P* counts = parameters.counts.data<P>();
  const P* probs = parameters.probs.data<P>();
  T* to = out.mutable_data<T>();
  ForOutputs(geometry, philox, [&](int64_t parameter, OutputNumbers& numbers, int64_t element) {
    const double prob = ToDouble(probs[parameters.prob_at(parameter)]);
    const double drawn = Draw(ToDouble(counts[parameters.count_at(parameter)]), prob, numbers);
    to[element] = std::is_integral_v<T> && std::isnan(prob) ? T(0) : Rounded<T>(drawn);
  });
  return absl::OkStatus();
}

template <typename P>
absl::Status Fill(const Parameters& parameters, const DistributionGeometry& geometry,
                  const Philox& philox, Tensor& out) {
  switch (out.dtype()) {
    FORMWORK_CASE(half, return (FillOf<P, T>(parameters, geometry, philox, out)))
    FORMWORK_CASE(float, return (FillOf<P, T>(parameters, geometry, philox, out)))
    FORMWORK_CASE(double, return (FillOf<P, T>(parameters, geometry, philox, out)))
    FORMWORK_CASE(int32_t, return (FillOf<P, T>(parameters, geometry, philox, out)))
    FORMWORK_CASE(int64_t, return (FillOf<P, T>(parameters, geometry, philox, out)))
    default:
      return Unimplemented("binomial: dtype ", DTypeName(out.dtype()), " is not supported");
  }
}

// `start(ctx, geometry)`: the generator. `kShape`: the input that has the shape; counts and probs
// are the last two.
template <int kShape, int kCounts, typename Start>
KernelFn BinomialKernel(DType dtype, Start start) {
  return KernelFn([dtype, start](KernelContext& ctx) -> absl::Status {
    const Tensor counts = ctx.input(kCounts);
    const Tensor probs = ctx.input(kCounts + 1);
    FORMWORK_ASSIGN_OR_RETURN(
        const BroadcastGeometry geometry,
        PrepareBinomial(ctx.input(kShape), counts.shape().dims(), probs.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, geometry.numbers.output));
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, start(ctx, geometry.numbers));
    const Parameters parameters{
        counts, probs, {counts.shape(), geometry.parameters}, {probs.shape(), geometry.parameters}};
    switch (counts.dtype()) {
      FORMWORK_CASE(half, return Fill<T>(parameters, geometry.numbers, philox, *out))
      FORMWORK_CASE(float, return Fill<T>(parameters, geometry.numbers, philox, *out))
      FORMWORK_CASE(double, return Fill<T>(parameters, geometry.numbers, philox, *out))
      default:
        return Unimplemented("binomial: counts of dtype ", DTypeName(counts.dtype()),
                             " are not supported");
    }
  });
}

absl::StatusOr<KernelFn> MakeStateless(KernelInit& init) {
  return BinomialKernel<0, 2>(
      init.output_dtypes()[0],
      [](KernelContext& ctx, const DistributionGeometry&) { return PhiloxOfSeed(ctx.input(1)); });
}

// The generator moves on by TensorFlow's guess of what is needed.
absl::StatusOr<Philox> TakeFromGenerator(KernelContext& ctx, const DistributionGeometry& numbers) {
  FORMWORK_RETURN_IF_ERROR(CheckBinomialAlgorithm(ctx.input(1)));
  const uint64_t groups = static_cast<uint64_t>(numbers.parameters) * 200 *
                          (static_cast<uint64_t>(numbers.samples) + 3) / 4;
  return SkipGenerator(ctx, kPhiloxAlgorithm, groups);
}

absl::StatusOr<KernelFn> MakeStateful(KernelInit& init) {
  return BinomialKernel<2, 3>(init.output_dtypes()[0], TakeFromGenerator);
}

}  // namespace

void AddBinomialCpuKernels(KernelRegistry& registry) {
  registry.Add("StatelessRandomBinomial", MakeStateless);
  registry.Add("StatefulRandomBinomial", MakeStateful);
}

}  // namespace formwork
