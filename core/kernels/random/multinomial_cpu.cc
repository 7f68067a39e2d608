// Draws of classes by their logits, the same as TensorFlow's on one thread: it gives every thread
// that draws rows a generator of its own.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/kernel.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/random_fill.h"
#include "core/kernels/random/sequence_position.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/random.h"

namespace formwork {
namespace {

double NextDouble(PhiloxSequence& numbers) {
  const uint32_t high = numbers.Next();
  return UnitDouble(high, numbers.Next());
}

// The sums of the weights of classes [0, i], each by the largest; infinite ones do not count.
template <typename T>
void SumWeights(const T* logits, std::vector<double>& sums) {
  double most = std::numeric_limits<double>::lowest();
  bool any = false;
  for (size_t i = 0; i < sums.size(); ++i) {
    double value;
    if constexpr (math::kIsSmallFloat<T>) {
      value = static_cast<float>(logits[i]);
    } else {
      value = static_cast<double>(logits[i]);
    }
    sums[i] = value;
    if (!std::isfinite(value)) continue;
    most = any ? std::max(most, value) : value;
    any = true;
  }
  double total = 0;
  for (double& sum : sums) {
    if (std::isfinite(sum)) total += std::exp(sum - most);
    sum = total;
  }
}

template <typename T>
absl::Status Draw(const Tensor& logits, int64_t samples, const Philox& philox, Tensor& out) {
  PhiloxSequence numbers(philox);
  const int64_t rows = logits.dim(0);
  std::vector<double> sums(static_cast<size_t>(logits.dim(1)));
  for (int64_t row = 0; row < rows; ++row) {
    if (WorkIsCut()) return WorkStatus();
    SumWeights(logits.data<T>() + row * logits.dim(1), sums);
    for (int64_t i = row * samples; i < (row + 1) * samples; ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const double at = NextDouble(numbers) * sums.back();
      const int64_t drawn = std::upper_bound(sums.begin(), sums.end(), at) - sums.begin();
      if (out.dtype() == DType::kInt64) {
        out.mutable_data<int64_t>()[i] = drawn;
      } else {
        out.mutable_data<int32_t>()[i] = static_cast<int32_t>(drawn);
      }
    }
  }
  return absl::OkStatus();
}

// `start(ctx, numbers)`: the generator, of which as many numbers may be taken.
template <typename Start>
absl::Status Multinomial(KernelContext& ctx, DType dtype, const Start& start) {
  const Tensor logits = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareMultinomial(logits.shape().dims(), &ctx.input(1)));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  // A double takes two numbers.
  const uint64_t rounded = (static_cast<uint64_t>(dims[1]) + 3) / 4 * 8;
  FORMWORK_ASSIGN_OR_RETURN(const Philox philox,
                            start(ctx, static_cast<uint64_t>(dims[0]) * rounded));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  switch (logits.dtype()) {
    FORMWORK_FLOAT_CASES(return Draw<T>(logits, dims[1], philox, *out))
    default:
      return Unimplemented("Multinomial: dtype ", DTypeName(logits.dtype()), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeMultinomial(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([dtype, position](KernelContext& ctx) {
    return Multinomial(ctx, dtype, [&](KernelContext& call, uint64_t numbers) {
      return absl::StatusOr<Philox>(position.Reserve(call, numbers * kReservedGroups));
    });
  });
}

absl::StatusOr<KernelFn> MakeStatelessMultinomial(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) {
    return Multinomial(ctx, dtype,
                       [](KernelContext& call, uint64_t) { return PhiloxOfSeed(call.input(2)); });
  });
}

}  // namespace

void AddMultinomialCpuKernels(KernelRegistry& registry) {
  registry.Add("Multinomial", MakeMultinomial);
  registry.Add("StatelessMultinomial", MakeStatelessMultinomial);
}

}  // namespace formwork
