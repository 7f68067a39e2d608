#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/nn/softmax_loops.h"
#include "core/kernels/widen.h"
#include "core/ops/nn.h"

namespace formwork {
namespace {

// Labels that are spelled out in an error.
constexpr int64_t kLabelsShown = 64;

bool IsSoftmaxDType(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kHalf ||
         dtype == DType::kBfloat16;
}

absl::Status CheckDType(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (IsSoftmaxDType(dtype)) return absl::OkStatus();
  return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
}

template <bool kLog, typename R>
void Rows(int64_t rows, int64_t n, const R* x, R* out) {
  if constexpr (kLog) {
    LogSoftmaxRows(rows, n, x, out);
  } else {
    SoftmaxRows(rows, n, x, out);
  }
}

template <bool kLog>
absl::StatusOr<KernelFn> MakeSoftmax(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckSoftmax(x.shape().dims()));
    const DType dtype = x.dtype();
    const Shape shape = x.shape();
    const int64_t elements = shape.num_elements();
    const int64_t n = shape.dim(shape.rank() - 1);
    if (elements == 0) return ctx.AllocateOutput(0, dtype, shape).status();
    if (dtype == DType::kFloat || dtype == DType::kDouble) {
      const void* from = x.raw();
      FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, dtype, shape));
      if (dtype == DType::kFloat) {
        Rows<kLog>(elements / n, n, static_cast<const float*>(from), out->mutable_data<float>());
      } else {
        Rows<kLog>(elements / n, n, static_cast<const double*>(from), out->mutable_data<double>());
      }
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Widened(ctx.allocator(), x));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, shape));
    Rows<kLog>(elements / n, n, wide.data<float>(), wide.mutable_data<float>());
    NarrowTo(dtype, wide.data<float>(), elements, out->mutable_raw());
    return absl::OkStatus();
  });
}

// The outputs in the type that is computed in, then in the one that is asked for.
struct LossOutputs {
  Tensor* loss;
  Tensor* backprop;
  Tensor wide_loss;
  Tensor wide_backprop;
};

absl::StatusOr<LossOutputs> AllocateLoss(KernelContext& ctx, DType dtype, int64_t rows,
                                         const Shape& shape) {
  LossOutputs outputs;
  FORMWORK_ASSIGN_OR_RETURN(outputs.loss, ctx.AllocateOutput(0, dtype, Shape({rows})));
  FORMWORK_ASSIGN_OR_RETURN(outputs.backprop, ctx.AllocateOutput(1, dtype, shape));
  if (dtype == DType::kHalf || dtype == DType::kBfloat16) {
    FORMWORK_ASSIGN_OR_RETURN(outputs.wide_loss,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, Shape({rows})));
    FORMWORK_ASSIGN_OR_RETURN(outputs.wide_backprop,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
  }
  return outputs;
}

void NarrowLoss(DType dtype, LossOutputs& outputs) {
  NarrowTo(dtype, outputs.wide_loss.data<float>(), outputs.wide_loss.num_elements(),
           outputs.loss->mutable_raw());
  NarrowTo(dtype, outputs.wide_backprop.data<float>(), outputs.wide_backprop.num_elements(),
           outputs.backprop->mutable_raw());
}

absl::StatusOr<absl::InlinedVector<int64_t, 64>> CheckedLabels(const Tensor& labels,
                                                               int64_t classes) {
  absl::InlinedVector<int64_t, 64> values(static_cast<size_t>(labels.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = labels.dtype() == DType::kInt32 ? int64_t{labels.data<int32_t>()[i]}
                                                : labels.data<int64_t>()[i];
  }
  for (int64_t value : values) {
    if (value >= 0 && value < classes) continue;
    std::string all;
    for (size_t i = 0; i < values.size() && i < kLabelsShown; ++i) {
      absl::StrAppend(&all, " ", values[i]);
    }
    if (values.size() > kLabelsShown) absl::StrAppend(&all, " ...");
    return InvalidArgument("Received a label value of ", value,
                           " which is outside the valid range of [0, ", classes,
                           ").  Label values:", all);
  }
  return values;
}

absl::StatusOr<KernelFn> MakeSparseCrossEntropy(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& logits = ctx.input(0);
    const Tensor& labels = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const CrossEntropyGeometry geometry,
        PrepareSparseCrossEntropy(logits.shape().dims(), labels.shape().dims()));
    const auto& [rows, classes] = geometry;
    FORMWORK_ASSIGN_OR_RETURN(auto values, CheckedLabels(labels, classes));
    const DType dtype = logits.dtype();
    FORMWORK_ASSIGN_OR_RETURN(LossOutputs out, AllocateLoss(ctx, dtype, rows, logits.shape()));
    if (rows == 0) return absl::OkStatus();
    if (dtype == DType::kFloat) {
      SparseCrossEntropyRows(rows, classes, logits.data<float>(), values.data(),
                             out.loss->mutable_data<float>(), out.backprop->mutable_data<float>());
    } else if (dtype == DType::kDouble) {
      SparseCrossEntropyRows(rows, classes, logits.data<double>(), values.data(),
                             out.loss->mutable_data<double>(),
                             out.backprop->mutable_data<double>());
    } else {
      FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Widened(ctx.allocator(), logits));
      SparseCrossEntropyRows(rows, classes, wide.data<float>(), values.data(),
                             out.wide_loss.mutable_data<float>(),
                             out.wide_backprop.mutable_data<float>());
      NarrowLoss(dtype, out);
    }
    return absl::OkStatus();
  });
}

template <typename R>
BroadcastRows<R> RowsOf(const Tensor& tensor, const Shape& matrix) {
  const int64_t columns = tensor.rank() == 0 ? 1 : tensor.dim(tensor.rank() - 1);
  const int64_t rows = tensor.rank() < 2 ? 1 : tensor.dim(0);
  return {tensor.data<R>(), rows == 1 && matrix.dim(0) != 1 ? 0 : columns,
          columns == 1 && matrix.dim(1) != 1 ? 0 : 1};
}

absl::StatusOr<KernelFn> MakeCrossEntropy(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& logits = ctx.input(0);
    const Tensor& labels = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const CrossEntropyGeometry geometry,
                              PrepareCrossEntropy(logits.shape().dims(), labels.shape().dims()));
    const auto& [rows, classes] = geometry;
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({rows, classes}));
    const DType dtype = logits.dtype();
    FORMWORK_ASSIGN_OR_RETURN(LossOutputs out, AllocateLoss(ctx, dtype, rows, shape));
    if (rows == 0) return absl::OkStatus();
    if (dtype == DType::kFloat) {
      CrossEntropyRows(rows, classes, RowsOf<float>(logits, shape), RowsOf<float>(labels, shape),
                       out.loss->mutable_data<float>(), out.backprop->mutable_data<float>());
    } else if (dtype == DType::kDouble) {
      CrossEntropyRows(rows, classes, RowsOf<double>(logits, shape), RowsOf<double>(labels, shape),
                       out.loss->mutable_data<double>(), out.backprop->mutable_data<double>());
    } else {
      FORMWORK_ASSIGN_OR_RETURN(Tensor wide_logits, Widened(ctx.allocator(), logits));
      FORMWORK_ASSIGN_OR_RETURN(Tensor wide_labels, Widened(ctx.allocator(), labels));
      CrossEntropyRows(rows, classes, RowsOf<float>(wide_logits, shape),
                       RowsOf<float>(wide_labels, shape), out.wide_loss.mutable_data<float>(),
                       out.wide_backprop.mutable_data<float>());
      NarrowLoss(dtype, out);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSoftmaxKernels(KernelRegistry& registry) {
  registry.Add("Softmax", MakeSoftmax<false>);
  registry.Add("LogSoftmax", MakeSoftmax<true>);
  registry.Add("SparseSoftmaxCrossEntropyWithLogits", MakeSparseCrossEntropy);
  registry.Add("SoftmaxCrossEntropyWithLogits", MakeCrossEntropy);
}

}  // namespace formwork
