// ParameterizedTruncatedNormal and its stateless form: normal numbers within bounds, by rejection
// (Robert, "Simulation of truncated normal variables"). The sequence goes from one parameter to the
// next, as TensorFlow's does on one thread; its threads begin elsewhere in it.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/random/broadcast_index.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/sequence_position.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/distribution.h"

namespace formwork {
namespace {

constexpr int kMostTries = 1000;  // For one number.

// The parameters are to blame; TensorFlow calls it an internal error.
absl::Status NoneAccepted(absl::string_view sampler) {
  return InvalidArgument("TruncatedNormal ", sampler,
                         " rejection sampler failed to accept a sample.");
}

// The numbers of one parameter. `C` computes; each result is rounded to T.
template <typename T>
class Truncated {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  static constexpr int kPer = std::is_same_v<T, double> ? 2 : 4;  // Numbers of a group.
  using Numbers = std::array<C, kPer>;

 public:
  // Errors: kInvalidArgument unless there are such numbers.
  static absl::StatusOr<Truncated> Of(T mean, T deviation, T least, T largest) {
    Truncated of(static_cast<C>(mean), static_cast<C>(deviation));
    C from = static_cast<C>(least), to = static_cast<C>(largest);
    if (!(of.deviation_ > 0 && from < to && (std::isfinite(from) || std::isfinite(to)))) {
      return InvalidArgument("Invalid parameters");
    }
    // Turned round where that makes the only bound, or both, the lower one or positive.
    if ((std::isinf(from) && from < 0) || to < of.mean_) {
      std::swap(from, to);
      of.deviation_ = -of.deviation_;
    }
    of.least_ = R(R(from - of.mean_) / of.deviation_);
    of.largest_ = R(R(to - of.mean_) / of.deviation_);
    return of;
  }

  // Writes `n` numbers, `stride` apart.
  absl::Status Fill(Philox& philox, int64_t n, int64_t stride, T* out) const {
    const C square = R(least_ * least_);
    const C root = R(std::sqrt(R(square + 4)));
    const C exponent = R(C(0.5) + R(R(least_ * R(least_ - root)) / 4));
    const C cutoff = R(R(2 * R(std::exp(exponent))) / R(least_ + root));
    const C width = R(largest_ - least_);
    const C enough = R(static_cast<C>(1.3f));  // Deviations within the bounds.
    Output output{out, stride, n};
    if ((least_ < -enough && largest_ >= 0) || (largest_ > enough && least_ <= 0)) {
      return FillNormal(philox, output);
    }
    if (width < cutoff) return FillUniform(philox, width, least_ < 0 ? 0 : square, output);
    return FillExponential(philox, R(R(least_ + root) / 2), output);
  }

 private:
  struct Output {
    T* to;
    int64_t stride;
    int64_t left;
    int tries = 0;

    bool full() const { return left == 0; }
    void Put(C value) {
      *to = static_cast<T>(value);
      to += stride;
      --left;
      tries = 0;
    }
  };

  Truncated(C mean, C deviation) : mean_(mean), deviation_(deviation) {}

  static C R(C value) { return static_cast<C>(static_cast<T>(value)); }
  C Scaled(C x) const { return R(R(x * deviation_) + mean_); }

  static Numbers Uniform(Philox& philox) {
    const Philox::Group x = philox.Next();
    if constexpr (std::is_same_v<T, double>) {
      return {UnitDouble(x[0], x[1]), UnitDouble(x[2], x[3])};
    } else if constexpr (std::is_same_v<T, half>) {
      Numbers numbers;
      for (int i = 0; i < kPer; ++i) numbers[i] = static_cast<float>(UnitHalf(x[i]));
      return numbers;
    } else {
      return {UnitFloat(x[0]), UnitFloat(x[1]), UnitFloat(x[2]), UnitFloat(x[3])};
    }
  }
  static Numbers Normal(Philox& philox) {
    const Philox::Group x = philox.Next();
    Numbers numbers;
    if constexpr (std::is_same_v<T, double>) {
      NormalPair(x[0], x[1], x[2], x[3], numbers.data());
    } else {
      NormalPair(x[0], x[1], numbers.data());
      NormalPair(x[2], x[3], numbers.data() + 2);
      for (C& number : numbers) number = R(number);
    }
    return numbers;
  }

  // Normal numbers, of which about a half are within the bounds.
  absl::Status FillNormal(Philox& philox, Output output) const {
    for (int64_t round = 0; !output.full(); ++round) {
      if (WorkIsCutAt(round)) return WorkStatus();
      for (const C x : Normal(philox)) {
        if (x >= least_ && x <= largest_) {
          output.Put(Scaled(x));
          if (output.full()) break;
        } else if (++output.tries > kMostTries) {
          return NoneAccepted("randn");
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status FillUniform(Philox& philox, C width, C plus, Output output) const {
    for (int64_t round = 0; !output.full(); ++round) {
      if (WorkIsCutAt(round)) return WorkStatus();
      Numbers z = Uniform(philox);
      for (C& x : z) x = R(R(x * width) + least_);
      const Numbers u = Uniform(philox);
      for (int i = 0; i < kPer; ++i) {
        if (u[i] <= R(std::exp(R(R(plus - R(z[i] * z[i])) / 2)))) {
          output.Put(Scaled(z[i]));
          if (output.full()) break;
        } else if (++output.tries >= kMostTries) {
          return NoneAccepted("uniform");
        }
      }
    }
    return absl::OkStatus();
  }

  // From the lower bound on.
  absl::Status FillExponential(Philox& philox, C rate, Output output) const {
    for (int64_t round = 0; !output.full(); ++round) {
      if (WorkIsCutAt(round)) return WorkStatus();
      const Numbers u = Uniform(philox);
      for (int i = 0; i < kPer; i += 2) {
        const C z = R(R(-R(std::log(u[i])) / rate) + least_);
        const C x = least_ < rate ? R(rate - z) : R(least_ - rate);
        if (u[i + 1] <= R(std::exp(R(R(-x * x) / 2))) && z < largest_) {
          output.Put(Scaled(z));
          if (output.full()) break;
        } else if (++output.tries >= kMostTries) {
          return NoneAccepted("exponential distribution");
        }
      }
    }
    return absl::OkStatus();
  }

  C mean_, deviation_;
  C least_ = 0, largest_ = 0;  // Of the normal number.
};

template <typename T>
absl::Status Fill(KernelContext& ctx) {
  constexpr int kFirst = 2;
  const std::array<Tensor, 4> inputs = {ctx.input(kFirst), ctx.input(kFirst + 1),
                                        ctx.input(kFirst + 2), ctx.input(kFirst + 3)};
  FORMWORK_ASSIGN_OR_RETURN(
      const BroadcastGeometry geometry,
      PrepareTruncatedNormal(ctx.input(0), {inputs[0].shape().dims(), inputs[1].shape().dims(),
                                            inputs[2].shape().dims(), inputs[3].shape().dims()}));
  const DistributionGeometry& numbers = geometry.numbers;
  FORMWORK_ASSIGN_OR_RETURN(Philox philox, PhiloxOfSeed(ctx.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const out,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, numbers.output));
  if (numbers.output.num_elements() == 0) return absl::OkStatus();
  const auto index = [&](size_t i) {
    return BroadcastIndex(inputs[i].shape(), geometry.parameters);
  };
  const std::array<BroadcastIndex, 4> at = {index(0), index(1), index(2), index(3)};
  for (int64_t p = 0; p < numbers.parameters; ++p) {
    if (WorkIsCutAt(p, kDearItems)) return WorkStatus();
    const auto value = [&](size_t i) { return inputs[i].data<T>()[at[i](p)]; };
    FORMWORK_ASSIGN_OR_RETURN(const Truncated<T> truncated,
                              Truncated<T>::Of(value(0), value(1), value(2), value(3)));
    FORMWORK_RETURN_IF_ERROR(
        truncated.Fill(philox, numbers.samples, numbers.parameters, out->mutable_data<T>() + p));
  }
  return absl::OkStatus();
}

// Whose parameters have rows.
template <typename T>
absl::Status FillRows(KernelContext& ctx, const SequencePosition& position) {
  const std::array<Tensor, 4> inputs = {ctx.input(1), ctx.input(2), ctx.input(3), ctx.input(4)};
  FORMWORK_ASSIGN_OR_RETURN(
      const DistributionGeometry geometry,
      PrepareTruncatedRows(ctx.input(0), {inputs[0].shape().dims(), inputs[1].shape().dims(),
                                          inputs[2].shape().dims(), inputs[3].shape().dims()}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const out,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, geometry.output));
  const int64_t n = geometry.output.num_elements();
  if (n == 0) return absl::OkStatus();
  // As many as they may need, though few do.
  Philox philox = position.Reserve(ctx, static_cast<uint64_t>(n) * 2 * kMostTries);
  // One parameter for all has runs of this length instead: of the groups that are drawn for one,
  // the next has nothing.
  constexpr int64_t kRun = 100;
  const bool one = std::all_of(inputs.begin(), inputs.end(),
                               [](const Tensor& input) { return input.num_elements() == 1; });
  const int64_t run = one ? kRun : geometry.samples;
  for (int64_t p = 0; p * run < n; ++p) {
    if (WorkIsCutAt(p, kDearItems)) return WorkStatus();
    const auto value = [&](size_t i) {
      return inputs[i].data<T>()[inputs[i].num_elements() == 1 ? 0 : p];
    };
    FORMWORK_ASSIGN_OR_RETURN(const Truncated<T> truncated,
                              Truncated<T>::Of(value(0), value(1), value(2), value(3)));
    FORMWORK_RETURN_IF_ERROR(
        truncated.Fill(philox, std::min(run, n - p * run), 1, out->mutable_data<T>() + p * run));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeTruncatedRows(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  const DType dtype = init.output_dtypes()[0];
  switch (dtype) {
    FORMWORK_CASE(half, return KernelFn(
                            [position](KernelContext& ctx) { return FillRows<T>(ctx, position); }))
    FORMWORK_CASE(float, return KernelFn(
                             [position](KernelContext& ctx) { return FillRows<T>(ctx, position); }))
    FORMWORK_CASE(double, return KernelFn([position](KernelContext& ctx) {
                    return FillRows<T>(ctx, position);
                  }))
    default:
      return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeTruncated(KernelInit& init) {
  switch (init.output_dtypes()[0]) {
    FORMWORK_CASE(half, return KernelFn(Fill<T>))
    FORMWORK_CASE(double, return KernelFn(Fill<T>))
    default:
      return KernelFn(Fill<float>);
  }
}

}  // namespace

void AddTruncatedCpuKernels(KernelRegistry& registry) {
  registry.Add("ParameterizedTruncatedNormal", MakeTruncatedRows);
  registry.Add("StatelessParameterizedTruncatedNormal", MakeTruncated);
}

}  // namespace formwork
