// What GPUs do of cross entropies (gpu/loss_functions.h), thread by thread, on the host against the
// op cases.

#include <fstream>
#include <map>
#include <sstream>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/loss_rows.h"
#include "gpu/reduction_plan.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// Rows as a GPU's blocks do them.
template <typename E, typename Labels>
void RunRows(const element::LossRows<E, Labels>& call) {
  using T = std::conditional_t<std::is_same_v<E, double>, double, float>;
  using Row = element::LossRow<T>;
  const unsigned lanes = SoftmaxBlock(static_cast<int64_t>(call.classes)).lanes;
  for (uint64_t row = call.rows; row-- > 0;) {
    T highest = element::Lowest<T>();
    for (unsigned lane = 0; lane < lanes; ++lane) {
      highest = element::Max(highest, Row::Highest(call, row, lane, lanes));
    }
    typename Row::Sums sums = {0, 0, 0};
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const typename Row::Sums mine = Row::Sum(call, row, highest, lane, lanes);
      sums.exponentials += mine.exponentials;
      sums.logits += mine.logits;
      sums.labels += mine.labels;
    }
    for (unsigned lane = lanes; lane-- > 0;) Row::Write(call, row, highest, sums, lane, lanes);
  }
}

// The outputs, and what the call's word says of them.
template <typename E, typename Labels>
absl::Status RunLoss(KernelContext& ctx, const CrossEntropyGeometry& geometry,
                     const Labels& labels) {
  const DType dtype = ctx.input(0).dtype();
  FORMWORK_ASSIGN_OR_RETURN(Tensor loss,
                            Tensor::Allocate(ctx.allocator(), dtype, Shape({geometry.rows})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor backprop,
      Tensor::Allocate(ctx.allocator(), dtype, Shape({geometry.rows, geometry.classes})));
  FailureWord word;
  RunRows(LossRowsOf<E>(geometry, ctx.input(0), labels, loss, backprop, {&word, 5}));
  if (word.failed_step() != 0) return LabelOutOfRange(word.where, geometry.classes);
  ctx.SetOutput(0, std::move(loss));
  ctx.SetOutput(1, std::move(backprop));
  return absl::OkStatus();
}

template <typename E>
absl::Status RunSparse(KernelContext& ctx) {
  const Tensor& labels = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(
      const CrossEntropyGeometry geometry,
      PrepareSparseCrossEntropy(ctx.input(0).shape().dims(), labels.shape().dims()));
  if (labels.dtype() == DType::kInt32) {
    return RunLoss<E>(ctx, geometry,
                      element::SparseLabels<int32_t>{static_cast<const int32_t*>(labels.raw())});
  }
  return RunLoss<E>(ctx, geometry,
                    element::SparseLabels<int64_t>{static_cast<const int64_t*>(labels.raw())});
}

template <typename E>
absl::Status RunDense(KernelContext& ctx) {
  const Tensor& labels = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(
      const CrossEntropyGeometry geometry,
      PrepareCrossEntropy(ctx.input(0).shape().dims(), labels.shape().dims()));
  return RunLoss<E>(ctx, geometry, BroadcastRowsOf<E>(labels, geometry));
}

template <bool kSparse>
absl::StatusOr<KernelFn> MakeLoss(KernelInit& init) {
  switch (init.input_dtypes()[0]) {
    case DType::kFloat:
      return KernelFn(kSparse ? &RunSparse<float> : &RunDense<float>);
    case DType::kDouble:
      return KernelFn(kSparse ? &RunSparse<double> : &RunDense<double>);
    case DType::kHalf:
      return KernelFn(kSparse ? &RunSparse<half> : &RunDense<half>);
    default:
      return KernelFn(kSparse ? &RunSparse<bfloat16> : &RunDense<bfloat16>);
  }
}

TEST(GpuLossesTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("SparseSoftmaxCrossEntropyWithLogits", &MakeLoss<true>);
  kernels.Add("SoftmaxCrossEntropyWithLogits", &MakeLoss<false>);
  // A word tells of one label.
  const auto of_one_label = [](OpCase& op_case) {
    const size_t all = op_case.error_text.find("  Label values:");
    if (all != std::string::npos) op_case.error_text.resize(all);
    return true;
  };
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"nn"}, .edit = of_one_label}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 5) << op;
}

// The first one, as others of the same call come in any order.
TEST(GpuLossesTest, TellOfALabelOutOfRange) {
  EXPECT_EQ(LabelOutOfRange(element::WhereOf(3, -1), 10).message(),
            "Received a label value of -1 which is outside the valid range of [0, 10).");
  EXPECT_EQ(LabelOutOfRange(element::WhereOf(3, int64_t{1} << 40), 10).message(),
            "Received a label value which is outside the valid range of [0, 10).");
}

// A class that a mask rules out is no part of another one's loss.
TEST(GpuLossesTest, LogitsOfMinusInfinityCountNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float logits[] = {1, -infinity, 1, -infinity};
  const int32_t label[] = {2};
  float loss[1], backprop[4];
  RunRows(element::LossRows<float, element::SparseLabels<int32_t>>{
      {logits, 4, 1}, {label}, loss, backprop, 1, 4, {nullptr, 0}});
  EXPECT_FLOAT_EQ(loss[0], std::log(2.0f));
  EXPECT_THAT(backprop, ::testing::ElementsAre(0.5f, 0, -0.5f, 0));
}

}  // namespace
}  // namespace formwork::testing
