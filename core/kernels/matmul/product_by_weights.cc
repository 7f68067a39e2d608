#include "core/kernels/matmul/product_by_weights.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/kernels/conv/conv_run.h"
#include "core/kernels/gemm/gemm.h"

namespace formwork {
namespace {

// Fewer rows are bound by reading the weights, which sgemm does as well.
constexpr int64_t kFewRows = 4;
// Multiplications up to which compiling a primitive costs more than thousands of runs would win.
constexpr double kSmallWork = 1 << 16;
// oneDNN's kernels compute with 32-bit offsets in places.
constexpr int64_t kMostElements = int64_t{1} << 29;

// Rows as the pixels of an image of one column.
ConvShape AsConvolution(int64_t m, int64_t k, int64_t n) {
  ConvShape shape;
  shape.batch = 1;
  shape.in_channels = k;
  shape.out_channels = n;
  shape.rows = {.input = m, .output = m, .taps = 1};
  shape.cols = {.input = 1, .output = 1, .taps = 1};
  return shape;
}

}  // namespace

absl::Status ProductByWeights::Run(KernelContext& ctx, const ProductGeometry& geometry) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  const int64_t k = geometry.k;
  const int64_t m = shape.num_elements() > 0 ? shape.num_elements() / geometry.n : 1;
  const Sizes sizes = {m, k, geometry.n};
  const double work = static_cast<double>(shape.num_elements()) * static_cast<double>(k);
  const int64_t largest = std::max({a.num_elements(), b.num_elements(), shape.num_elements()});
  if (weights_ && m >= kFewRows && work > kSmallWork && largest < kMostElements &&
      memo_.Settled(b)) {
    return RunPacked(ctx, sizes, shape);
  }
  return RunPlain(ctx, sizes, shape);
}

absl::Status ProductByWeights::RunPacked(KernelContext& ctx, const Sizes& s, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(EpilogueOperands operands, EpilogueOperands::Of(ctx, epilogue_, shape));
  const Tensor* const residual = operands.residual;
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, operands.AllocateOutput(ctx, DType::kFloat, shape));
  const absl::Status status =
      RunConvForward(AsConvolution(s.m, s.k, s.n), ctx.input(0), ctx.input(1), operands, memo_,
                     /*keep=*/true, ctx.allocator(), output);
  if (status.code() != absl::StatusCode::kResourceExhausted) return status;
  // There is no memory for packed weights. Plain ones will do.
  memo_.Discourage();
  return operands.residual == residual ? RunPlain(ctx, s, shape) : status;
}

absl::Status ProductByWeights::RunPlain(KernelContext& ctx, const Sizes& s, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(const EpilogueOperands operands,
                            EpilogueOperands::Of(ctx, epilogue_, shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kFloat, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  float* to = output->mutable_data<float>();
  Gemm(false, false, s.m, s.n, s.k, ctx.input(0).data<float>(), s.k, ctx.input(1).data<float>(),
       s.n, 0.0f, to, s.n);
  if (!epilogue_.empty()) RunEpilogue(operands, s.m, s.n, to, to);
  return absl::OkStatus();
}

}  // namespace formwork
