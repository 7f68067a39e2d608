// What GPUs do of reductions (gpu/reduce_functions.h), thread by thread, on the host against the op
// cases, and how they are planned.

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/nn.h"
#include "core/ops/register_ops.h"
#include "gpu/reduction_plan.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// A pass as a GPU does it: each block's threads, and then their partial results by halves.
template <typename Reduction, bool kFirst, bool kLast, typename In, typename Out>
void RunPass(const ReducePass& pass, const In* in, Out* out) {
  using Partial = typename Reduction::Partial;
  const element::ReduceBlock& block = pass.block;
  const uint64_t n = pass.outputs();
  ASSERT_TRUE(block.lanes >= 1 && block.lanes <= 256 && (block.lanes & (block.lanes - 1)) == 0);
  for (uint64_t base = 0; base < n; base += block.outputs()) {
    std::array<Partial, 256> shared;
    shared.fill(Reduction::First());
    for (unsigned thread = 0; thread < 256; ++thread) {
      const unsigned mine = block.OutputOf(thread), lane = block.LaneOf(thread);
      ASSERT_EQ(block.ThreadOf(mine, lane), thread);
      if (base + mine >= n) continue;
      shared[thread] = element::ReduceLane<Reduction, kFirst>(
          pass.sizes, element::DenseEntries<In>{in}, base + mine, lane, block.lanes);
    }
    for (unsigned half = block.lanes / 2; half > 0; half /= 2) {
      for (unsigned thread = 0; thread < 256; ++thread) {
        const unsigned mine = block.OutputOf(thread), lane = block.LaneOf(thread);
        if (lane >= half) continue;
        shared[thread] = Reduction::Join(shared[thread], shared[block.ThreadOf(mine, lane + half)]);
      }
    }
    for (unsigned mine = 0; mine < block.outputs() && base + mine < n; ++mine) {
      const Partial& total = shared[block.ThreadOf(mine, 0)];
      if constexpr (kLast) {
        out[base + mine] = element::Narrow<Out>::Of(Reduction::Result(total, pass.sizes.count));
      } else {
        out[base + mine] = total;
      }
    }
  }
}

template <typename Reduction, typename In, typename Out>
void RunPlan(const ReductionPlan& plan, const In* in, uint64_t n, Out* out) {
  const auto together = std::make_unique<In[]>(n);
  if (plan.together) {
    const absl::StatusOr<UnitCopy> copy = UnitCopyOf(*plan.together, sizeof(In));
    ASSERT_OK(copy);
    WithUnit(copy->unit, [&](auto unit) {
      const auto item = CopyItemOf<decltype(unit)>(*copy, in, together.get());
      for (uint64_t i = 0; i < copy->units; ++i) item(i);
    });
    in = together.get();
  }
  if (plan.passes.size() == 1) {
    return RunPass<Reduction, true, true>(plan.passes[0], in, out);
  }
  ASSERT_EQ(plan.passes.size(), 2u);
  const auto partial = std::make_unique<typename Reduction::Partial[]>(plan.passes[0].outputs());
  RunPass<Reduction, true, false>(plan.passes[0], in, partial.get());
  RunPass<Reduction, false, true>(plan.passes[1], partial.get(), out);
}

template <typename T>
using Computes =
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float, T>;

template <template <typename> typename Reduction, typename In, typename Out>
void RunReduction(const ReductionPlan& plan, const Tensor& input, Tensor& out) {
  RunPlan<Reduction<Computes<In>>>(plan, static_cast<const In*>(input.raw()),
                                   static_cast<uint64_t>(input.num_elements()),
                                   static_cast<Out*>(out.mutable_raw()));
}

// Of each op, by dtypes of input and output.
using Run = void (*)(const ReductionPlan&, const Tensor&, Tensor&);
using Runs = std::map<std::pair<DType, DType>, Run>;

template <template <typename> typename Reduction, typename... Ts>
Runs Same() {
  return {{{DTypeOf<Ts>::value, DTypeOf<Ts>::value}, &RunReduction<Reduction, Ts, Ts>}...};
}
template <template <typename> typename Reduction, typename... Ts>
Runs Places() {
  Runs runs;
  ((runs[{DTypeOf<Ts>::value, DType::kInt32}] = &RunReduction<Reduction, Ts, int32_t>,
    runs[{DTypeOf<Ts>::value, DType::kInt64}] = &RunReduction<Reduction, Ts, int64_t>),
   ...);
  return runs;
}
#define FLOATS float, double, half, bfloat16
#define NUMBERS FLOATS, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

template <typename T>
using Mean = element::MeanReduction<T>;

const std::map<std::string, Runs>& AllRuns() {
  static const auto* const runs = new std::map<std::string, Runs>{
      {"Sum", Same<element::SumReduction, NUMBERS>()},
      {"Prod", Same<element::ProdReduction, NUMBERS>()},
      {"Mean", Same<Mean, NUMBERS>()},
      {"Max", Same<element::MaxReduction, NUMBERS>()},
      {"Min", Same<element::MinReduction, NUMBERS>()},
      {"EuclideanNorm", Same<element::EuclideanNormReduction, FLOATS>()},
      {"L2Loss", Same<element::L2LossReduction, FLOATS>()},
      {"BiasAddGrad", Same<element::SumReduction, NUMBERS>()},
      {"All", Same<element::AllReduction, bool>()},
      {"Any", Same<element::AnyReduction, bool>()},
      {"ArgMax", Places<element::ArgMaxReduction, NUMBERS, bool>()},
      {"ArgMin", Places<element::ArgMinReduction, NUMBERS, bool>()},
  };
  return *runs;
}

absl::StatusOr<KernelFn> MakeReduction(KernelInit& init) {
  const std::string op(init.op().name);
  const Runs& runs = AllRuns().at(op);
  const auto found = runs.find({init.input_dtypes()[0], init.output_dtypes()[0]});
  if (found == runs.end()) return Unimplemented("a dtype that a GPU leaves to the host");
  ReductionAttrs attrs;
  if (init.op().FindAttr("keep_dims") != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(attrs, ReductionAttrs::FromAttrs(init.attrs()));
  }
  BiasAttrs bias_attrs;
  if (op == "BiasAddGrad") {
    FORMWORK_ASSIGN_OR_RETURN(bias_attrs, BiasAttrs::FromAttrs(init.attrs()));
  }
  return KernelFn([op, attrs, bias_attrs, run = found->second,
                   dtype = init.output_dtypes()[0]](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    ReductionGeometry geometry{ReducedMask(static_cast<size_t>(input.rank()), true), {}};
    if (absl::StartsWith(op, "Arg")) {
      FORMWORK_ASSIGN_OR_RETURN(const ArgReductionGeometry arg,
                                PrepareArgReduction(input.shape().dims(), ctx.input(1)));
      geometry.reduced.assign(static_cast<size_t>(input.rank()), false);
      geometry.reduced[static_cast<size_t>(arg.axis)] = true;
      geometry.output = arg.output;
    } else if (op == "BiasAddGrad") {
      FORMWORK_ASSIGN_OR_RETURN(const BiasGeometry bias,
                                PrepareBiasAddGrad(bias_attrs, input.shape().dims()));
      geometry.reduced[bias_attrs.channels_first ? 1 : geometry.reduced.size() - 1] = false;
      geometry.output = {bias.channels};
    } else if (op != "L2Loss") {
      FORMWORK_ASSIGN_OR_RETURN(geometry,
                                PrepareReduction(attrs, input.shape().dims(), ctx.input(1)));
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
    if (shape.num_elements() > 0) {
      run(PlanReduction(input.shape().dims(), geometry.reduced), input, out);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuReductionsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  for (const auto& [op, runs] : AllRuns()) kernels.Add(op, &MakeReduction);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"reduction", "nn"}, .some_are_hosts = true}, ops, kernels);
  for (const ReductionOp& op : ReductionOps()) EXPECT_GT(tried[std::string(op.op)], 0) << op.op;
}

// Rows as a GPU's blocks do them.
template <typename E, bool kLog>
absl::Status RunSoftmax(KernelContext& ctx) {
  using T = Computes<E>;
  using Row = element::SoftmaxRow<T, kLog>;
  const Tensor& logits = ctx.input(0);
  FORMWORK_RETURN_IF_ERROR(CheckSoftmax(logits.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(ctx.allocator(), logits.dtype(), logits.shape()));
  const int64_t n = logits.dim(logits.rank() - 1);
  const unsigned lanes = SoftmaxBlock(n).lanes;
  for (int64_t at = 0; at < logits.num_elements(); at += n) {
    const E* const row = logits.data<E>() + at;
    T largest = element::Lowest<T>(), sum = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      largest = element::Max(largest, Row::Largest(row, static_cast<uint64_t>(n), lane, lanes));
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      sum += Row::Sum(row, static_cast<uint64_t>(n), largest, lane, lanes);
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Row::Write(row, out.mutable_data<E>() + at, static_cast<uint64_t>(n), largest, sum, lane,
                 lanes);
    }
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

template <bool kLog>
absl::StatusOr<KernelFn> MakeSoftmax(KernelInit& init) {
  switch (init.input_dtypes()[0]) {
    case DType::kFloat:
      return KernelFn(&RunSoftmax<float, kLog>);
    case DType::kDouble:
      return KernelFn(&RunSoftmax<double, kLog>);
    case DType::kHalf:
      return KernelFn(&RunSoftmax<half, kLog>);
    default:
      return KernelFn(&RunSoftmax<bfloat16, kLog>);
  }
}

TEST(GpuReductionsTest, SoftmaxGivesWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("Softmax", &MakeSoftmax<false>);
  kernels.Add("LogSoftmax", &MakeSoftmax<true>);
  std::map<std::string, int> tried = RunGpuCases({.files = {"nn"}}, ops, kernels);
  EXPECT_GT(tried["Softmax"] + tried["LogSoftmax"], 8);
}

template <typename E>
void ExpectLayerNorm(int64_t rows, int64_t n, double tolerance) {
  std::vector<E> x, scale, offset, y(static_cast<size_t>(rows * n));
  for (int64_t i = 0; i < rows * n; ++i) {
    x.push_back(E(static_cast<float>(i * 7919 % 1009) / 100 + 20));
  }
  for (int64_t i = 0; i < n; ++i) {
    scale.push_back(E(1 + static_cast<float>(i % 5) / 4));
    offset.push_back(E(static_cast<float>(i % 3) - 1));
  }
  using Row = element::LayerNormRow<E>;
  const element::LayerNormRows<E> call{x.data(),
                                       scale.data(),
                                       offset.data(),
                                       y.data(),
                                       static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(n),
                                       1e-3f};
  const unsigned lanes = SoftmaxBlock(n).lanes;
  for (uint64_t row = 0; row < call.rows; ++row) {
    float sum = 0, squares = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) sum += Row::Sum(call, row, lane, lanes);
    const float mean = sum / static_cast<float>(n);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      squares += Row::SumOfSquares(call, row, mean, lane, lanes);
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Row::Write(call, row, mean, squares / static_cast<float>(n), lane, lanes);
    }
    const auto at = [&](const std::vector<E>& all, int64_t i) {
      return static_cast<double>(static_cast<float>(all[static_cast<size_t>(i)]));
    };
    const auto first = static_cast<int64_t>(row) * n;
    double exact_mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i) exact_mean += at(x, first + i) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      variance += std::pow(at(x, first + i) - exact_mean, 2) / static_cast<double>(n);
    }
    for (int64_t i = 0; i < n; ++i) {
      const double normal = (at(x, first + i) - exact_mean) / std::sqrt(variance + 1e-3);
      ASSERT_NEAR(at(y, first + i), normal * at(scale, i) + at(offset, i), tolerance)
          << rows << "x" << n << " at " << first + i;
    }
  }
}

TEST(GpuReductionsTest, LayerNormsAreExact) {
  for (const auto& [rows, n] : {std::pair(3, 1), {2, 7}, {5, 64}, {3, 1000}}) {
    ExpectLayerNorm<float>(rows, n, 5e-5);
    ExpectLayerNorm<half>(rows, n, 5e-3);
    ExpectLayerNorm<bfloat16>(rows, n, 5e-2);
  }
}

// Whatever the plan, every element is reduced once, to where it belongs.
TEST(GpuReductionsTest, EveryElementCountsOnce) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1000000}, {3, 70000}, {70000, 3}, {513, 257}, {5, 7, 11, 13}, {2, 30000, 2}, {40, 1, 9}};
  int parted = 0, moved = 0;
  for (const std::vector<int64_t>& dims : shapes) {
    for (unsigned mask = 1; mask < 1u << dims.size(); ++mask) {
      ReducedMask reduced;
      int64_t n = 1, outputs = 1;
      for (size_t d = 0; d < dims.size(); ++d) {
        reduced.push_back((mask >> d & 1) != 0);
        n *= dims[d];
        if (!reduced.back()) outputs *= dims[d];
      }
      std::vector<int64_t> in(static_cast<size_t>(n)), out(static_cast<size_t>(outputs), -1),
          expected(static_cast<size_t>(outputs), 0);
      for (int64_t i = 0; i < n; ++i) {
        in[i] = i * 2654435761 % 1000003;
        int64_t left = i, place = 0, step = 1;
        for (size_t d = dims.size(); d-- > 0;) {
          if (!reduced[d]) {
            place += left % dims[d] * step;
            step *= dims[d];
          }
          left /= dims[d];
        }
        expected[place] += in[i];
      }
      const ReductionPlan plan = PlanReduction(dims, reduced);
      parted += plan.passes.size() == 2;
      moved += plan.together.has_value();
      RunPlan<element::SumReduction<int64_t>>(plan, in.data(), in.size(), out.data());
      EXPECT_EQ(out, expected) << "of " << dims.size() << " dimensions, " << mask;
    }
  }
  EXPECT_GT(parted, 3);
  EXPECT_GT(moved, 3);
}

TEST(GpuReductionsTest, APlanKeepsAGpuBusy) {
  // One output of many elements: parts, each by a block's threads.
  const ReductionPlan all = PlanReduction({1 << 26}, {true});
  ASSERT_EQ(all.passes.size(), 2u);
  EXPECT_EQ(all.passes[0].block.lanes, 256u);
  EXPECT_GE(all.passes[0].outputs() * 256, 1u << 16);
  // Columns: threads that are neighbours read neighbours.
  const ReductionPlan columns = PlanReduction({4096, 1024}, {true, false});
  EXPECT_FALSE(columns.passes[0].block.side_by_side);
  EXPECT_GE(columns.passes[0].block.outputs(), 32u);
  // Short rows: a few threads each.
  const ReductionPlan rows = PlanReduction({1 << 20, 16}, {false, true});
  ASSERT_EQ(rows.passes.size(), 1u);
  EXPECT_EQ(rows.passes[0].block.lanes, 2u);
}

}  // namespace
}  // namespace formwork::testing
