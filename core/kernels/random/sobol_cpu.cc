// SobolSample.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/sobol_numbers.h"
#include "core/ops/sobol.h"

namespace formwork {
namespace {

// Points `begin` to `end` of the output. A point differs from the one before in one bit of its Gray
// code, so that it takes one direction of each dimension. The sequence's point 0, which is 0
// everywhere, is left out.
template <typename T>
void FillPoints(const SobolGeometry& geometry, const std::vector<uint32_t>& directions,
                int64_t begin, int64_t end, T* out) {
  const int64_t dims = geometry.dims;
  std::vector<uint32_t> point(static_cast<size_t>(dims));
  const auto add = [&](int k) {
    const uint32_t* const row = directions.data() + k * dims;
    for (int64_t d = 0; d < dims; ++d) point[d] ^= row[d];
  };
  auto index = static_cast<uint32_t>(geometry.skip + begin);
  for (uint32_t code = index ^ (index >> 1); code != 0; code &= code - 1) {
    add(std::countr_zero(code));
  }
  constexpr T kUnit = T(1) / T(4294967296.0);
  for (T* to = out + begin * dims; begin < end; ++begin, to += dims) {
    add(std::countr_one(index++));
    for (int64_t d = 0; d < dims; ++d) to[d] = static_cast<T>(point[d]) * kUnit;
  }
}

template <typename T>
absl::Status Sample(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const SobolGeometry geometry,
                            PrepareSobol(ctx.input(0), ctx.input(1), ctx.input(2)));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor* const output,
      ctx.AllocateOutput(0, DTypeOf<T>::value, Shape({geometry.points, geometry.dims})));
  const int digits = std::bit_width(static_cast<uint64_t>(geometry.skip + geometry.points));
  const std::vector<uint32_t> directions = SobolDirections(digits, geometry.dims);
  T* const out = output->mutable_data<T>();
  const int64_t grain = std::max<int64_t>((int64_t{1} << 17) / geometry.dims, 1);
  ParallelFor(geometry.points, grain, [&](int64_t begin, int64_t end) {
    FillPoints(geometry, directions, begin, end, out);
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSample(KernelInit& init) {
  return KernelFn(init.output_dtypes()[0] == DType::kDouble ? Sample<double> : Sample<float>);
}

}  // namespace

void AddSobolCpuKernels(KernelRegistry& registry) { registry.Add("SobolSample", MakeSample); }

}  // namespace formwork
