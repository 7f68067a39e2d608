// Numbers of a generator that is kept in a variable (tf.random.Generator): its handle, the
// algorithm, the shape.

#include "core/base/status.h"
#include "core/kernels/random/random_cpu.h"
#include "core/ops/random.h"

namespace formwork {
namespace {

// The generator before the numbers that the output takes.
absl::StatusOr<Philox> GeneratorFor(KernelContext& ctx, const Tensor& output) {
  FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(1, ctx.input(1).shape().dims()));
  return SkipGenerator(ctx, ctx.input(1).scalar<int64_t>(),
                       static_cast<uint64_t>(output.num_elements()));
}

template <Distribution kDistribution>
absl::StatusOr<KernelFn> MakeStateful(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const RandomFillFn fill, RandomFillOf(init, kDistribution));
  return KernelFn([dtype, fill](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, GeneratorFor(ctx, *output));
    fill(philox, *output);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeStatefulUniformInt(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_RETURN_IF_ERROR(RandomFillOf(init, Distribution::kFullInt).status());
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(2)));
    const Tensor minval = ctx.input(3);
    const Tensor maxval = ctx.input(4);
    FORMWORK_RETURN_IF_ERROR(CheckUniformBounds(minval.shape().dims(), maxval.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    // Bounds that are wrong leave the generator where it is.
    FORMWORK_ASSIGN_OR_RETURN(Tensor none, Tensor::Allocate(ctx.allocator(), dtype, Shape({0})));
    FORMWORK_RETURN_IF_ERROR(FillUniformInt(Philox(), minval, maxval, none));
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, GeneratorFor(ctx, *output));
    return FillUniformInt(philox, minval, maxval, *output);
  });
}

}  // namespace

void AddGeneratorCpuKernels(KernelRegistry& registry) {
  registry.Add("StatefulUniform", MakeStateful<Distribution::kUniform>);
  registry.Add("StatefulStandardNormalV2", MakeStateful<Distribution::kNormal>);
  registry.Add("StatefulTruncatedNormal", MakeStateful<Distribution::kTruncatedNormal>);
  registry.Add("StatefulUniformFullInt", MakeStateful<Distribution::kFullInt>);
  registry.Add("StatefulUniformInt", MakeStatefulUniformInt);
}

}  // namespace formwork
