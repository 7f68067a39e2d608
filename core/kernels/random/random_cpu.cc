// Random numbers, stateless and stateful. With seeds given, the same numbers as TensorFlow's.

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/sequence_position.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/random.h"

namespace formwork {

absl::StatusOr<RandomFillFn> RandomFillOf(const KernelInit& init, Distribution distribution) {
  const DType dtype = init.output_dtypes()[0];
  const RandomFillFn fill = RandomFillFor(distribution, dtype);
  if (fill != nullptr) return fill;
  return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
}

absl::StatusOr<Philox> PhiloxOfSeed(const Tensor& seed) {
  FORMWORK_RETURN_IF_ERROR(CheckSeed(seed.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Dims seeds, IntegersOf(seed, "seed"));
  // Scrambled, so that it does not matter which part of the seed varies.
  const Philox::Group mix =
      Philox(static_cast<uint64_t>(seeds[0]), static_cast<uint64_t>(seeds[1]), 0x02461e293ec8f720)
          .Peek();
  return Philox(0, mix[2] | (static_cast<uint64_t>(mix[3]) << 32),
                mix[0] | (static_cast<uint64_t>(mix[1]) << 32));
}

absl::StatusOr<Philox> StatelessPhilox(const KernelContext& ctx) {
  const Tensor& key = ctx.input(1);
  const Tensor& counter = ctx.input(2);
  FORMWORK_RETURN_IF_ERROR(
      CheckStatelessRandom(key.shape().dims(), counter.shape().dims(), ctx.input(3)));
  return Philox(counter.data<uint64_t>()[0], counter.data<uint64_t>()[1], key.data<uint64_t>()[0]);
}

absl::Status UpdateGenerator(KernelContext& ctx, int64_t algorithm,
                             absl::FunctionRef<absl::Status(Tensor& state)> update) {
  FORMWORK_RETURN_IF_ERROR(CheckGeneratorAlgorithm(algorithm));
  if (ctx.input(0).num_elements() != 1) {
    return InvalidArgument("resource must be a single handle: shape=",
                           ctx.input(0).shape().ToString());
  }
  const ResourceHandle handle = ctx.input(0).scalar<ResourceHandle>();
  return ctx.resources().Update(handle, 0, [&](Tensor& state) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckGeneratorState(state));
    return update(state);
  });
}

absl::StatusOr<Philox> SkipGenerator(KernelContext& ctx, int64_t algorithm, uint64_t delta) {
  Philox before;
  FORMWORK_RETURN_IF_ERROR(UpdateGenerator(ctx, algorithm, [&](Tensor& state) {
    int64_t* words = state.mutable_data<int64_t>();
    before = Philox(static_cast<uint64_t>(words[0]), static_cast<uint64_t>(words[1]),
                    static_cast<uint64_t>(words[2]));
    Philox after = before;
    after.Skip(delta * kReservedGroups);
    words[0] = static_cast<int64_t>(after.counter_lo());
    words[1] = static_cast<int64_t>(after.counter_hi());
    return absl::OkStatus();
  }));
  return before;
}

namespace {

// --- Stateless: inputs shape, key, counter, alg -------------------------------------------------

absl::StatusOr<KernelFn> MakeGetKeyCounter(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, PhiloxOfSeed(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * key, ctx.AllocateOutput(0, DType::kUint64, Shape({1})));
    key->mutable_data<uint64_t>()[0] = philox.key();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * counter, ctx.AllocateOutput(1, DType::kUint64, Shape({2})));
    counter->mutable_data<uint64_t>()[0] = philox.counter_lo();
    counter->mutable_data<uint64_t>()[1] = philox.counter_hi();
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGetAlgorithm(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    ctx.SetOutput(0, Tensor::Scalar(kPhiloxAlgorithm));
    return absl::OkStatus();
  });
}

// kSeeded: the first versions, whose inputs are shape and seed.
template <Distribution kDistribution, bool kSeeded = false>
absl::StatusOr<KernelFn> MakeStateless(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const RandomFillFn fill, RandomFillOf(init, kDistribution));
  return KernelFn([dtype, fill](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox,
                              kSeeded ? PhiloxOfSeed(ctx.input(1)) : StatelessPhilox(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    fill(philox, *output);
    return absl::OkStatus();
  });
}

template <bool kSeeded>
absl::StatusOr<KernelFn> MakeStatelessUniformInt(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox,
                              kSeeded ? PhiloxOfSeed(ctx.input(1)) : StatelessPhilox(ctx));
    const Tensor minval = ctx.input(kSeeded ? 2 : 4);
    const Tensor maxval = ctx.input(kSeeded ? 3 : 5);
    FORMWORK_RETURN_IF_ERROR(CheckUniformBounds(minval.shape().dims(), maxval.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return FillUniformInt(philox, minval, maxval, *output);
  });
}

// --- Legacy: seeds are attrs, each run goes on where the last one stopped -----------------------

template <Distribution kDistribution>
absl::StatusOr<KernelFn> MakeStateful(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const RandomFillFn fill, RandomFillOf(init, kDistribution));
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([dtype, fill, position](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    const auto n = static_cast<uint64_t>(shape.num_elements());
    fill(position.Reserve(ctx, n * kReservedGroups), *output);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeUniformInt(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([dtype, position](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(0)));
    const Tensor minval = ctx.input(1);
    const Tensor maxval = ctx.input(2);
    FORMWORK_RETURN_IF_ERROR(CheckUniformBounds(minval.shape().dims(), maxval.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const auto n = static_cast<uint64_t>(shape.num_elements());
    return FillUniformInt(position.Reserve(ctx, n * kReservedGroups), minval, maxval, *output);
  });
}

// Of a seed that the system draws anew each time.
absl::StatusOr<KernelFn> MakeNonDeterministic(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const RandomFillFn fill, RandomFillOf(init, Distribution::kFullInt));
  return KernelFn([dtype, fill](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PrepareRandomShape(ctx.input(0)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    std::random_device device;
    const auto draw = [&device] { return device() | (static_cast<uint64_t>(device()) << 32); };
    fill(Philox(draw(), draw()), *output);
    return absl::OkStatus();
  });
}

// 0 to n - 1 in an order of chance: n - 1 swaps, a number each.
template <typename Index>
absl::StatusOr<Tensor> ShuffledRows(Allocator& allocator, int64_t n, PhiloxSequence sequence) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor order,
                            Tensor::Allocate(allocator, DTypeOf<Index>::value, Shape({n})));
  Index* rows = order.mutable_data<Index>();
  ForBlocks(n, kCheapItems, [rows](int64_t begin, int64_t end) {
    std::iota(rows + begin, rows + end, static_cast<Index>(begin));
  });
  // The places to swap with are known before the swaps, so that memory is asked for several at
  // once.
  constexpr int64_t kAhead = 32;
  int64_t places[kAhead];
  for (int64_t i = 0; i + 1 < n; i += kAhead) {
    if ((i + kAhead) % kCheapItems == 0 && WorkIsCut()) return WorkStatus();
    const int64_t count = std::min(kAhead, n - 1 - i);
    for (int64_t k = 0; k < count; ++k) {
      places[k] = i + k + sequence.Next() % static_cast<uint32_t>(n - i - k);
      __builtin_prefetch(&rows[places[k]], 1);
    }
    for (int64_t k = 0; k < count; ++k) std::swap(rows[i + k], rows[places[k]]);
  }
  return order;
}

bool HasRowsToShuffle(const Tensor& value) { return value.num_elements() > 1 && value.dim(0) > 1; }

// Output 0: the rows of input 0, of which there are at least two.
absl::Status ShuffleRows(KernelContext& ctx, const Philox& philox) {
  const Tensor& value = ctx.input(0);
  const int64_t n = value.dim(0);
  FORMWORK_ASSIGN_OR_RETURN(
      const Tensor order, n <= std::numeric_limits<int32_t>::max()
                              ? ShuffledRows<int32_t>(ctx.allocator(), n, PhiloxSequence(philox))
                              : ShuffledRows<int64_t>(ctx.allocator(), n, PhiloxSequence(philox)));
  FORMWORK_ASSIGN_OR_RETURN(const GatherGeometry geometry,
                            PrepareGatherRows({}, value.shape().dims(), order.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor output, Gather(ctx.allocator(), geometry, value, order));
  ctx.SetOutput(0, std::move(output));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeShuffle(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([position](KernelContext& ctx) -> absl::Status {
    if (!HasRowsToShuffle(ctx.input(0))) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    // Numbers come in groups of four.
    const auto groups = (static_cast<uint64_t>(ctx.input(0).dim(0)) + 2) / 4;
    return ShuffleRows(ctx, position.Reserve(ctx, groups));
  });
}

absl::StatusOr<KernelFn> MakeStatelessShuffle(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, StatelessPhilox(ctx));
    if (HasRowsToShuffle(ctx.input(0))) return ShuffleRows(ctx, philox);
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

// --- Generators kept in a variable: counter (2 x int64) and key ---------------------------------

absl::StatusOr<KernelFn> MakeReadAndSkip(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(1, ctx.input(1).shape().dims()));
    FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(2, ctx.input(2).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * before, ctx.AllocateOutput(0, DType::kInt64, Shape({3})));
    FORMWORK_ASSIGN_OR_RETURN(
        const Philox philox,
        SkipGenerator(ctx, ctx.input(1).scalar<int32_t>(), ctx.input(2).scalar<uint64_t>()));
    int64_t* words = before->mutable_data<int64_t>();
    words[0] = static_cast<int64_t>(philox.counter_lo());
    words[1] = static_cast<int64_t>(philox.counter_hi());
    words[2] = static_cast<int64_t>(philox.key());
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSkip(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(1, ctx.input(1).shape().dims()));
    FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(2, ctx.input(2).shape().dims()));
    return SkipGenerator(ctx, ctx.input(1).scalar<int64_t>(),
                         static_cast<uint64_t>(ctx.input(2).scalar<int64_t>()))
        .status();
  });
}

}  // namespace

void RegisterRandomCpuKernels(KernelRegistry& registry) {
  registry.Add("StatelessRandomGetKeyCounter", MakeGetKeyCounter);
  registry.Add("StatelessRandomGetAlg", MakeGetAlgorithm);
  registry.Add("StatelessRandomUniformV2", MakeStateless<Distribution::kUniform>);
  registry.Add("StatelessRandomNormalV2", MakeStateless<Distribution::kNormal>);
  registry.Add("StatelessTruncatedNormalV2", MakeStateless<Distribution::kTruncatedNormal>);
  registry.Add("StatelessRandomUniformFullIntV2", MakeStateless<Distribution::kFullInt>);
  registry.Add("StatelessRandomUniformIntV2", MakeStatelessUniformInt<false>);
  registry.Add("StatelessRandomUniform", MakeStateless<Distribution::kUniform, true>);
  registry.Add("StatelessRandomNormal", MakeStateless<Distribution::kNormal, true>);
  registry.Add("StatelessTruncatedNormal", MakeStateless<Distribution::kTruncatedNormal, true>);
  registry.Add("StatelessRandomUniformFullInt", MakeStateless<Distribution::kFullInt, true>);
  registry.Add("StatelessRandomUniformInt", MakeStatelessUniformInt<true>);
  registry.Add("RandomUniform", MakeStateful<Distribution::kUniform>);
  registry.Add("RandomStandardNormal", MakeStateful<Distribution::kNormal>);
  registry.Add("TruncatedNormal", MakeStateful<Distribution::kTruncatedNormal>);
  registry.Add("RandomUniformInt", MakeUniformInt);
  registry.Add("NonDeterministicInts", MakeNonDeterministic);
  registry.Add("RandomShuffle", MakeShuffle);
  registry.Add("StatelessShuffle", MakeStatelessShuffle);
  registry.Add("RngReadAndSkip", MakeReadAndSkip);
  registry.Add("RngSkip", MakeSkip);
  AddMultinomialCpuKernels(registry);
  AddCandidateCpuKernels(registry);
  AddDistributionCpuKernels(registry);
  AddBinomialCpuKernels(registry);
  AddTruncatedCpuKernels(registry);
  AddGeneratorCpuKernels(registry);
  AddSampledBoxCpuKernels(registry);
  AddIndexShuffleCpuKernels(registry);
  AddSobolCpuKernels(registry);
}

}  // namespace formwork
