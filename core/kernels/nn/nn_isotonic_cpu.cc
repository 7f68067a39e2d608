// IsotonicRegression: for each row the values that do not rise along it and are nearest to it.

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/nn/nn_cpu.h"

namespace formwork {
namespace {

// Neighbours that have one value, their mean. The next one begins where they end.
template <typename T>
struct Pool {
  int64_t begin;
  T sum;
  T mean;
};

// Neighbours are put together as long as the later ones are higher. Sums and means are rounded as
// TensorFlow rounds them.
template <typename In, typename Out>
void SolveRow(const In* x, int64_t n, Out* y, int32_t* segments, std::vector<Pool<Out>>& pools) {
  using Wide = std::conditional_t<std::is_same_v<Out, double>, double, float>;
  const auto wide = [](Out number) { return static_cast<Wide>(number); };
  pools.clear();
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    const Out value = static_cast<Out>(x[i]);
    pools.push_back({i, value, value});
    while (pools.size() > 1 && wide(pools.back().mean) > wide(pools[pools.size() - 2].mean)) {
      const Out sum = pools.back().sum;
      pools.pop_back();
      Pool<Out>& pool = pools.back();
      pool.sum = static_cast<Out>(wide(pool.sum) + wide(sum));
      const Out count = static_cast<Out>(static_cast<Wide>(i + 1 - pool.begin));
      pool.mean = static_cast<Out>(wide(pool.sum) / wide(count));
    }
  }
  for (size_t k = 0; k < pools.size(); ++k) {
    const int64_t end = k + 1 < pools.size() ? pools[k + 1].begin : n;
    std::fill(y + pools[k].begin, y + end, pools[k].mean);
    std::fill(segments + pools[k].begin, segments + end, static_cast<int32_t>(k));
  }
}

template <typename In, typename Out>
absl::Status Solve(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  const int64_t n = input.rank() == 0 ? 1 : input.dim(input.rank() - 1);
  if (n > std::numeric_limits<int32_t>::max()) return InvalidArgument("Tensor too large");
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                            ctx.AllocateOutput(0, DTypeOf<Out>::value, input.shape()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const segments,
                            ctx.AllocateOutput(1, DType::kInt32, input.shape()));
  if (input.num_elements() == 0) return absl::OkStatus();
  const In* const x = input.data<In>();
  Out* const y = output->mutable_data<Out>();
  int32_t* const ids = segments->mutable_data<int32_t>();
  ParallelFor(input.num_elements() / n, std::max<int64_t>(1, 4096 / n),
              [&](int64_t begin, int64_t end) {
                std::vector<Pool<Out>> pools;
                pools.reserve(static_cast<size_t>(n));
                for (int64_t row = begin; row < end && !WorkIsCut(); ++row) {
                  SolveRow(x + row * n, n, y + row * n, ids + row * n, pools);
                }
              });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeIsotonicRegression(KernelInit& init) {
  const DType in = init.input_dtypes()[0], out = init.output_dtypes()[0];
  if (in == out) {
    switch (in) {
      FORMWORK_FLOAT_CASES(return KernelFn(Solve<T, T>))
      default:
        break;
    }
  }
  if (in == DType::kInt8 && out == DType::kFloat) return KernelFn(Solve<int8_t, float>);
  if (in == DType::kInt16 && out == DType::kFloat) return KernelFn(Solve<int16_t, float>);
  if (in == DType::kInt32 && out == DType::kDouble) return KernelFn(Solve<int32_t, double>);
  if (in == DType::kInt64 && out == DType::kDouble) return KernelFn(Solve<int64_t, double>);
  return Unimplemented("IsotonicRegression: dtype ", DTypeName(in), " with results of ",
                       DTypeName(out), " is not supported");
}

}  // namespace

void RegisterIsotonicKernel(KernelRegistry& registry) {
  registry.Add("IsotonicRegression", MakeIsotonicRegression);
}

}  // namespace formwork
