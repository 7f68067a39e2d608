// Gamma and Poisson numbers. With seeds given, the same as TensorFlow's: each output has a part of
// the sequence of its own, so that none depends on how often another one was tried.

#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/random/output_numbers.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/random_fill.h"
#include "core/kernels/random/sequence_position.h"
#include "core/ops/distribution.h"
#include "core/ops/random.h"

namespace formwork {
namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables".
class Gamma {
 public:
  explicit Gamma(double alpha)
      : alpha_(alpha), d_(alpha + (alpha < 1 ? 2.0 / 3 : -1.0 / 3)), c_(1.0 / 3 / std::sqrt(d_)) {}

  double Draw(OutputNumbers& numbers) const {
    if (alpha_ == 1) return -std::log1p(-numbers.Uniform());
    while (true) {
      const double x = numbers.Normal();
      double v = 1 + c_ * x;
      if (v <= 0) continue;
      v = v * v * v;
      const double u = numbers.Uniform();
      if (u >= 1 - 0.0331 * (x * x) * (x * x) &&
          !(std::log(u) < 0.5 * x * x + d_ * (1 - v + std::log(v)))) {
        continue;
      }
      if (alpha_ >= 1) return d_ * v;
      return d_ * v * std::pow(numbers.Uniform(), 1 / alpha_);
    }
  }

 private:
  double alpha_;
  double d_;
  double c_;
};

// Knuth's product of uniform numbers for small rates, else Hoermann's "The transformed rejection
// method for generating Poisson random variables" (PTRS).
class Poisson {
 public:
  explicit Poisson(double rate)
      : rate_(rate),
        exp_(std::exp(-rate)),
        log_(std::log(rate)),
        b_(0.931 + 2.53 * std::sqrt(rate)),
        a_(-0.059 + 0.02483 * b_),
        inverse_alpha_(1.1239 + 1.1328 / (b_ - 3.4)) {}

  // At most `most`; -1 where that is out of reach, as it is not for TensorFlow, which does not end
  // then.
  double Draw(OutputNumbers& numbers, double most) const {
    if (rate_ < 10) {
      double product = 1;
      for (double k = 0;; ++k) {
        product *= numbers.Uniform();
        if (product <= exp_) return k;
      }
    }
    constexpr int kTries = 1 << 14;  // One of them fails with a probability of 0.3 at most.
    for (int i = 0; i < kTries; ++i) {
      const double u = numbers.Uniform() - 0.5;
      const double v = numbers.Uniform();
      const double away = 0.5 - std::abs(u);
      const double k = std::floor((2 * a_ / away + b_) * u + rate_ + 0.43);
      if (k > most) continue;
      if (away >= 0.07 && v <= 0.9277 - 3.6224 / (b_ - 2)) return k;
      if (k < 0 || (away < 0.013 && v > away)) continue;
      const double s = std::log(v * inverse_alpha_ / (a_ / (away * away) + b_));
      const double t = -rate_ + k * log_ - std::lgamma(k + 1);
      if (s <= t) return k;
    }
    return -1;
  }

 private:
  double rate_;
  double exp_;
  double log_;
  double b_;
  double a_;
  double inverse_alpha_;
};

struct GammaRule {
  template <typename T>
  static absl::Status Fill(const Tensor& alphas, const DistributionGeometry& geometry,
                           const Philox& philox, Tensor& out) {
    const T* from = alphas.data<T>();
    T* to = out.mutable_data<T>();
    ForOutputs(geometry, philox, [&](int64_t parameter, OutputNumbers& numbers, int64_t element) {
      to[element] = FromDouble<T>(Gamma(ToDouble(from[parameter])).Draw(numbers));
    });
    return absl::OkStatus();
  }

  static absl::Status Run(const Tensor& alphas, const DistributionGeometry& geometry,
                          const Philox& philox, Tensor& out) {
    switch (out.dtype()) {
      FORMWORK_CASE(half, return Fill<T>(alphas, geometry, philox, out))
      FORMWORK_CASE(float, return Fill<T>(alphas, geometry, philox, out))
      FORMWORK_CASE(double, return Fill<T>(alphas, geometry, philox, out))
      default:
        return Unimplemented("gamma: dtype ", DTypeName(out.dtype()), " is not supported");
    }
  }
};

struct PoissonRule {
  template <typename R, typename T>
  static absl::Status Fill(const Tensor& rates, const DistributionGeometry& geometry,
                           const Philox& philox, Tensor& out) {
    const R* from = rates.data<R>();
    for (int64_t i = 0; i < geometry.parameters; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (!std::isfinite(ToDouble(from[i]))) {
        return InvalidArgument("rate must be finite, got ", ToDouble(from[i]));
      }
    }
    double most = 65504;
    if constexpr (!std::is_same_v<T, half>) {
      most = static_cast<double>(std::numeric_limits<T>::max());
    }
    T* to = out.mutable_data<T>();
    std::atomic<bool> too_large = false;
    ForOutputs(geometry, philox, [&](int64_t parameter, OutputNumbers& numbers, int64_t element) {
      const double drawn = Poisson(ToDouble(from[parameter])).Draw(numbers, most);
      if (drawn < 0) too_large.store(true, std::memory_order_relaxed);
      to[element] = FromDouble<T>(drawn);
    });
    if (too_large) {
      return InvalidArgument("rate is too large for numbers of dtype ", DTypeName(out.dtype()));
    }
    return absl::OkStatus();
  }

  template <typename R>
  static absl::Status Of(const Tensor& rates, const DistributionGeometry& geometry,
                         const Philox& philox, Tensor& out) {
    switch (out.dtype()) {
      FORMWORK_CASE(half, return (Fill<R, T>(rates, geometry, philox, out)))
      FORMWORK_CASE(float, return (Fill<R, T>(rates, geometry, philox, out)))
      FORMWORK_CASE(double, return (Fill<R, T>(rates, geometry, philox, out)))
      FORMWORK_CASE(int32_t, return (Fill<R, T>(rates, geometry, philox, out)))
      FORMWORK_CASE(int64_t, return (Fill<R, T>(rates, geometry, philox, out)))
      default:
        return Unimplemented("Poisson: dtype ", DTypeName(out.dtype()), " is not supported");
    }
  }

  static absl::Status Run(const Tensor& rates, const DistributionGeometry& geometry,
                          const Philox& philox, Tensor& out) {
    switch (rates.dtype()) {
      FORMWORK_CASE(half, return Of<T>(rates, geometry, philox, out))
      FORMWORK_CASE(float, return Of<T>(rates, geometry, philox, out))
      FORMWORK_CASE(double, return Of<T>(rates, geometry, philox, out))
      FORMWORK_CASE(int32_t, return Of<T>(rates, geometry, philox, out))
      FORMWORK_CASE(int64_t, return Of<T>(rates, geometry, philox, out))
      default:
        return Unimplemented("Poisson: dtype ", DTypeName(rates.dtype()), " is not supported");
    }
  }
};

template <typename Rule>
absl::StatusOr<KernelFn> MakeStateful(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([position, dtype = init.output_dtypes()[0]](KernelContext& ctx) -> absl::Status {
    const Tensor parameters = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const DistributionGeometry geometry,
                              PrepareDistribution(ctx.input(0), parameters.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, geometry.output));
    const auto n = static_cast<uint64_t>(geometry.output.num_elements());
    const Philox philox = position.Reserve(ctx, n * kReservedGroups);
    return Rule::Run(parameters, geometry, philox, *out);
  });
}

// `start(ctx)`: the generator. `at`: the input that has the parameters.
template <typename Rule, int kAt, typename Start>
KernelFn StatelessKernel(DType dtype, Start start) {
  return KernelFn([dtype, start](KernelContext& ctx) -> absl::Status {
    const Tensor parameters = ctx.input(kAt);
    FORMWORK_ASSIGN_OR_RETURN(const DistributionGeometry geometry,
                              PrepareStatelessDistribution(ctx.input(0), parameters.shape()));
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, start(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, geometry.output));
    return Rule::Run(parameters, geometry, philox, *out);
  });
}

template <typename Rule>
absl::StatusOr<KernelFn> MakeSeeded(KernelInit& init) {
  return StatelessKernel<Rule, 2>(init.output_dtypes()[0],
                                  [](KernelContext& ctx) { return PhiloxOfSeed(ctx.input(1)); });
}

absl::StatusOr<KernelFn> MakeGammaV3(KernelInit& init) {
  return StatelessKernel<GammaRule, 4>(init.output_dtypes()[0],
                                       [](KernelContext& ctx) { return StatelessPhilox(ctx); });
}

}  // namespace

void AddDistributionCpuKernels(KernelRegistry& registry) {
  registry.Add("RandomGamma", MakeStateful<GammaRule>);
  registry.Add("StatelessRandomGammaV2", MakeSeeded<GammaRule>);
  registry.Add("StatelessRandomGammaV3", MakeGammaV3);
  registry.Add("RandomPoissonV2", MakeStateful<PoissonRule>);
  registry.Add("StatelessRandomPoisson", MakeSeeded<PoissonRule>);
}

}  // namespace formwork
