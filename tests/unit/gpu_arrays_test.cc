// What GPUs do of choices, one-hot values, bands, ranges and sums of several values
// (gpu/array_functions.h), element by element, on the host against the op cases.

#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/elementwise.h"
#include "core/ops/fill.h"
#include "core/ops/register_ops.h"
#include "gpu/array_items.h"
#include "gpu/moves.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// Items of a kernel run in any order: here from the last to the first.
template <typename Item>
void RunItems(const Item& item, const Tensor& out) {
  for (int64_t i = out.num_elements(); i-- > 0;) item(static_cast<uint64_t>(i));
}

absl::Status Refuse() { return Unimplemented("a dtype that a GPU leaves to the host"); }

// Calls run(E()) with output 0 of the dtype, in guarded memory.
template <typename Run>
absl::Status IntoOutput(KernelContext& ctx, DType dtype, const Shape& shape, Run run) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
  FORMWORK_RETURN_IF_ERROR(run(out));
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

template <bool kByRows>
absl::StatusOr<KernelFn> MakeSelect(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const SelectPlan plan,
        PlanSelect(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape(), kByRows));
    return IntoOutput(ctx, dtype, plan.output, [&](Tensor& out) {
      WithUnit(DTypeSize(dtype),
               [&](auto e) { RunItems(SelectItemOf<decltype(e)>(plan, ctx, out), out); });
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<KernelFn> MakeOneHot(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const OneHotAttrs attrs, OneHotAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& indices = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const OneHotGeometry geometry,
        PrepareOneHot(attrs, indices.shape().dims(), &ctx.input(1), ctx.input(2).shape().dims(),
                      ctx.input(3).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    return IntoOutput(ctx, dtype, shape, [&](Tensor& out) {
      return WithUnit(DTypeSize(dtype), [&](auto e) -> absl::Status {
        const auto run = [&](auto index) {
          RunItems(OneHotItemOf<decltype(e), decltype(index)>(geometry, ctx, out), out);
          return absl::OkStatus();
        };
        switch (indices.dtype()) {
          case DType::kInt32:
            return run(int32_t());
          case DType::kInt64:
            return run(int64_t());
          case DType::kInt8:
            return run(int8_t());
          default:
            return run(uint8_t());
        }
      });
    });
  });
}

absl::StatusOr<KernelFn> MakeMatrixBandPart(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Refuse();
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& from = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const BandPart part,
        PrepareMatrixBandPart(from.shape().dims(), ctx.input(1), ctx.input(2)));
    return IntoOutput(ctx, dtype, from.shape(), [&](Tensor& out) {
      WithUnit(DTypeSize(dtype),
               [&](auto e) { RunItems(BandItemOf<decltype(e)>(part, from, out), out); });
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<KernelFn> MakeRange(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t n,
                              PrepareRange(ctx.input(0), ctx.input(1), ctx.input(2)));
    return IntoOutput(ctx, dtype, Shape({n}), [&](Tensor& out) -> absl::Status {
      switch (dtype) {
        FORMWORK_REAL_CASES(RunItems(RangeItemOf<T>(ctx, out), out); return absl::OkStatus())
        default:
          return Refuse();
      }
    });
  });
}

absl::StatusOr<KernelFn> MakeAddN(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype) || IsComplex(dtype)) return Refuse();
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(
        PrepareAddN(ctx.num_inputs(), [&](int i) { return ctx.input(i).shape().dims(); }).status());
    return IntoOutput(ctx, dtype, ctx.input(0).shape(), [&](Tensor& out) -> absl::Status {
      for (int next = 0; next < ctx.num_inputs();) {
        switch (dtype) {
          FORMWORK_REAL_CASES(RunItems(SumItemOf<T>(ctx, next, out, next), out); break)
          default:
            return Refuse();
        }
      }
      return absl::OkStatus();
    });
  });
}

TEST(GpuArraysTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("AddN", &MakeAddN);
  kernels.Add("MatrixBandPart", &MakeMatrixBandPart);
  kernels.Add("OneHot", &MakeOneHot);
  kernels.Add("Range", &MakeRange);
  kernels.Add("Select", &MakeSelect<true>);
  kernels.Add("SelectV2", &MakeSelect<false>);
  std::map<std::string, int> tried = RunGpuCases(
      {.files = {"array", "array_layout", "elementwise", "gather"}, .some_are_hosts = true}, ops,
      kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 4) << op;
}

// More terms than an item takes, in several.
TEST(GpuArraysTest, SumsOfManyTerms) {
  for (const int terms : {7, 8, 9, 15, 16, 40}) {
    std::vector<Tensor> inputs;
    std::vector<InputRef> refs;
    for (int i = 0; i < terms; ++i) inputs.push_back(VectorOf<float>({1, static_cast<float>(i)}));
    for (const Tensor& input : inputs) refs.push_back({&input, false});
    KernelRunner call;
    std::vector<Tensor> none(1);
    const KernelContext ctx(call, refs, absl::MakeSpan(none));
    Tensor out = VectorOf<float>({-1, -1});
    int rounds = 0;
    for (int next = 0; next < terms; ++rounds)
      RunItems(SumItemOf<float>(ctx, next, out, next), out);
    EXPECT_EQ(rounds, 1 + std::max(0, terms - 2) / 7) << terms;
    EXPECT_EQ(ValuesOf<float>(out),
              (std::vector<float>{static_cast<float>(terms),
                                  static_cast<float>(terms * (terms - 1) / 2)}));
  }
}

// What goes on alike is one dimension.
TEST(GpuArraysTest, ChoicesGoThroughFewDimensions) {
  const auto rank = [](const Shape& condition, const Shape& then, const Shape& otherwise) {
    const absl::StatusOr<SelectPlan> plan = PlanSelect(condition, then, otherwise, false);
    EXPECT_OK(plan);
    return plan->dimensions.rank;
  };
  EXPECT_EQ(rank(Shape({4, 5, 6}), Shape({4, 5, 6}), Shape({4, 5, 6})), 1);
  EXPECT_EQ(rank(Shape(), Shape({4, 5, 6}), Shape({4, 5, 6})), 1);
  EXPECT_EQ(rank(Shape({4, 1, 1}), Shape({4, 5, 6}), Shape()), 2);
  EXPECT_EQ(rank(Shape({1, 5, 1}), Shape({4, 5, 6}), Shape({1, 5, 1})), 3);
  EXPECT_EQ(rank(Shape(), Shape(), Shape({1, 1})), 0);
  Dims condition, values;
  for (int d = 0; d < 9; ++d) {
    condition.push_back(d % 2 == 0 ? 2 : 1);
    values.push_back(2);
  }
  EXPECT_EQ(
      PlanSelect(Shape::Trusted(condition), Shape::Trusted(values), Shape(), false).status().code(),
      absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace formwork::testing
