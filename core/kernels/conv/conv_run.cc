#include "core/kernels/conv/conv_run.h"

#include <utility>

#include "core/base/status.h"
#include "core/kernels/conv/channel_order.h"
#include "core/kernels/conv/conv_gemm.h"
#include "core/kernels/conv/conv_panels.h"
#include "core/kernels/conv/conv_winograd.h"
#include "core/kernels/conv/in_float.h"
#include "core/kernels/conv/onednn_run.h"
#include "core/kernels/conv/scratch.h"

namespace formwork {
namespace {

// ---- Matrix products ----

template <typename T>
absl::Status GemmForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                         Allocator& allocator, Tensor* output) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Scratch(allocator, output->dtype(), ConvGemmScratch(shape)));
  ConvGemmForward(shape, input.data<T>(), filter.data<T>(), output->mutable_data<T>(),
                  scratch.mutable_data<T>());
  return absl::OkStatus();
}

// In memory of its own before the epilogue, whose residual may be in the output's.
absl::Status GemmForwardWithEpilogue(const ConvShape& shape, const Tensor& input,
                                     const Tensor& filter, const EpilogueOperands& epilogue,
                                     Allocator& allocator, Tensor* output) {
  Tensor scaled = filter;
  if (epilogue.scale != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(scaled, ScaledFilter(filter, *epilogue.scale, allocator));
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                            Tensor::Allocate(allocator, DType::kFloat, output->shape()));
  FORMWORK_RETURN_IF_ERROR(GemmForward<float>(shape, input, scaled, allocator, &product));
  RunEpilogue(epilogue, shape.output_elements() / shape.out_channels, shape.out_channels,
              product.data<float>(), output->mutable_data<float>());
  return absl::OkStatus();
}

template <typename T>
absl::Status GemmInputGradient(const ConvShape& shape, const Tensor& filter,
                               const Tensor& out_backprop, Allocator& allocator,
                               Tensor* in_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Scratch(allocator, in_backprop->dtype(), ConvGemmScratch(shape)));
  ConvGemmInputGradient(shape, filter.data<T>(), out_backprop.data<T>(),
                        in_backprop->mutable_data<T>(), scratch.mutable_data<T>());
  return absl::OkStatus();
}

template <typename T>
absl::Status GemmFilterGradient(const ConvShape& shape, const Tensor& input,
                                const Tensor& out_backprop, Allocator& allocator,
                                Tensor* filter_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Scratch(allocator, filter_backprop->dtype(), ConvGemmScratch(shape)));
  ConvGemmFilterGradient(shape, input.data<T>(), out_backprop.data<T>(),
                         filter_backprop->mutable_data<T>(), scratch.mutable_data<T>());
  return absl::OkStatus();
}

// ---- Panels ----

absl::Status PanelsForward(const ConvShape& shape, WinogradTiles winograd, const Tensor& input,
                           const Tensor& filter, const EpilogueOperands& epilogue,
                           PackedFilterMemo& memo, bool keep, Allocator& allocator,
                           Tensor* output) {
  FORMWORK_ASSIGN_OR_RETURN(
      const Tensor packed,
      memo.Get(filter, epilogue.scale, keep, {.conv = nullptr, .winograd = winograd}, allocator));
  const auto* panels = static_cast<const float*>(packed.raw());
  const float* bias = epilogue.bias_data();
  const float* residual = epilogue.residual_data();
  const Activation activation = epilogue.steps.activation;
  if (winograd != WinogradTiles::kNone) {
    return ConvWinogradForward(winograd, shape, input.data<float>(), panels, bias, residual,
                               activation, allocator, output->mutable_data<float>());
  }
  ConvPanelsForward(shape, input.data<float>(), panels, bias, residual, activation,
                    output->mutable_data<float>());
  return absl::OkStatus();
}

// The gradient of a convolution's input as a convolution of the output's gradient, by the filter
// turned round with its channels swapped. Of a stride of 1.
ConvShape InputGradientAsForward(const ConvShape& shape) {
  auto turned = [](ConvAxis axis) {
    std::swap(axis.input, axis.output);
    axis.pad_before = axis.taps - 1 - axis.pad_before;
    axis.pad_after = axis.taps - 1 - axis.pad_after;
    return axis;
  };
  ConvShape forward = shape;
  std::swap(forward.in_channels, forward.out_channels);
  forward.rows = turned(shape.rows);
  forward.cols = turned(shape.cols);
  return forward;
}

absl::Status WinogradInputGradient(WinogradTiles tiles, const ConvShape& forward,
                                   const Tensor& filter, const Tensor& out_backprop,
                                   Allocator& allocator, Tensor* in_backprop) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor turned,
                            Tensor::Allocate(allocator, DType::kFloat, filter.shape()));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor panels, Scratch(allocator, DType::kFloat,
                             WinogradElements(tiles, forward.in_channels, forward.out_channels)));
  const int64_t taps = forward.rows.taps * forward.cols.taps;
  const int64_t matrix = forward.in_channels * forward.out_channels;
  for (int64_t t = 0; t < taps; ++t) {
    SwapInnerAxes(1, forward.out_channels, forward.in_channels, sizeof(float),
                  filter.data<float>() + (taps - 1 - t) * matrix,
                  turned.mutable_data<float>() + t * matrix);
  }
  WinogradFilter(tiles, forward.in_channels, forward.out_channels, turned.data<float>(),
                 panels.mutable_data<float>());
  return ConvWinogradForward(tiles, forward, out_backprop.data<float>(), panels.data<float>(),
                             /*bias=*/nullptr, /*residual=*/nullptr, Activation::kNone, allocator,
                             in_backprop->mutable_data<float>());
}

// ---- The choice ----

/// Runs `gemm` on tensors with channels last, whatever the shape's layout. `first` and `second` are
/// images or filters; filters stay as they are.
template <typename Gemm>
absl::Status WithChannelsLast(const ConvShape& shape, const Tensor& first, bool first_is_image,
                              const Tensor& second, bool second_is_image, bool result_is_image,
                              Allocator& allocator, Tensor* result, Gemm gemm) {
  if (!shape.channels_first) return gemm(shape, first, second, result);
  ConvShape last = shape;
  last.channels_first = false;
  Tensor a = first;
  Tensor b = second;
  if (first_is_image) {
    FORMWORK_ASSIGN_OR_RETURN(a, ToChannelsLast(first, allocator));
  }
  if (second_is_image) {
    FORMWORK_ASSIGN_OR_RETURN(b, ToChannelsLast(second, allocator));
  }
  if (!result_is_image) return gemm(last, a, b, result);
  const Shape& r = result->shape();
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(allocator, result->dtype(),
                                             Shape({r.dim(0), r.dim(2), r.dim(3), r.dim(1)})));
  FORMWORK_RETURN_IF_ERROR(gemm(last, a, b, &out));
  ToChannelsFirst(out, result->mutable_raw());
  return absl::OkStatus();
}

/// As it is, or with channels last where images are so long that they are to be split by rows.
template <typename Run>
absl::Status WithRowsToSplit(const ConvShape& shape, const Tensor& first, bool first_is_image,
                             const Tensor& second, bool second_is_image, bool result_is_image,
                             Allocator& allocator, Tensor* result, Run run) {
  if (!HasLongImages({shape, result->dtype()})) return run(shape, first, second, result);
  return WithChannelsLast(shape, first, first_is_image, second, second_is_image, result_is_image,
                          allocator, result, run);
}

}  // namespace

absl::Status RunConvForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                            const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                            Allocator& allocator, Tensor* output) {
  if (shape.output_elements() == 0) return absl::OkStatus();
  return InFloat(
      input, filter, allocator, output,
      [&](const Tensor& in, const Tensor& f, Tensor* out) -> absl::Status {
        const DType dtype = out->dtype();
        const bool large = dtype == DType::kFloat && IsForOnednn({shape, dtype});
        const Activation activation = epilogue.steps.activation;
        const WinogradTiles winograd =
            large ? ConvByWinograd(shape, activation) : WinogradTiles::kNone;
        if (winograd != WinogradTiles::kNone || (large && ConvByPanels(shape, activation))) {
          return PanelsForward(shape, winograd, in, f, epilogue, memo, keep, allocator, out);
        }
        const absl::Status status = WithRowsToSplit(
            shape, in, true, f, false, true, allocator, out,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) {
              return OnednnForward({s, dtype}, a, b, epilogue, memo, keep, allocator, r);
            });
        if (!absl::IsUnimplemented(status) || dtype == DType::kBfloat16) return status;
        if (!epilogue.steps.empty()) {
          return GemmForwardWithEpilogue(shape, in, f, epilogue, allocator, out);
        }
        return WithChannelsLast(
            shape, in, true, f, false, true, allocator, out,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) -> absl::Status {
              if (dtype == DType::kDouble) return GemmForward<double>(s, a, b, allocator, r);
              if (dtype == DType::kInt32) return GemmForward<uint32_t>(s, a, b, allocator, r);
              return GemmForward<float>(s, a, b, allocator, r);
            });
      });
}

absl::Status RunConvInputGradient(const ConvShape& shape, const Tensor& filter,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* in_backprop) {
  if (shape.input_elements() == 0) return absl::OkStatus();
  return InFloat(
      filter, out_backprop, allocator, in_backprop,
      [&](const Tensor& f, const Tensor& dy, Tensor* dx) -> absl::Status {
        const DType dtype = dx->dtype();
        const ConvShape forward = InputGradientAsForward(shape);
        const WinogradTiles winograd = dtype == DType::kFloat
                                           ? ConvByWinograd(forward, Activation::kNone)
                                           : WinogradTiles::kNone;
        if (winograd != WinogradTiles::kNone) {
          return WinogradInputGradient(winograd, forward, f, dy, allocator, dx);
        }
        const absl::Status status =
            WithRowsToSplit(shape, f, false, dy, true, true, allocator, dx,
                            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) {
                              return OnednnInputGradient({s, dtype}, a, b, allocator, r);
                            });
        if (!absl::IsUnimplemented(status) || dtype == DType::kBfloat16) return status;
        return WithChannelsLast(
            shape, f, false, dy, true, true, allocator, dx,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) -> absl::Status {
              if (dtype == DType::kDouble) return GemmInputGradient<double>(s, a, b, allocator, r);
              if (dtype == DType::kInt32) return GemmInputGradient<uint32_t>(s, a, b, allocator, r);
              return GemmInputGradient<float>(s, a, b, allocator, r);
            });
      });
}

absl::Status RunConvFilterGradient(const ConvShape& shape, const Tensor& input,
                                   const Tensor& out_backprop, Allocator& allocator,
                                   Tensor* filter_backprop) {
  if (shape.filter_elements() == 0) return absl::OkStatus();
  return InFloat(
      input, out_backprop, allocator, filter_backprop,
      [&](const Tensor& in, const Tensor& dy, Tensor* df) -> absl::Status {
        const DType dtype = df->dtype();
        const WinogradTiles winograd =
            dtype == DType::kFloat ? FilterGradientByWinograd(shape) : WinogradTiles::kNone;
        if (winograd != WinogradTiles::kNone) {
          return WinogradFilterGradient(winograd, shape, in.data<float>(), dy.data<float>(),
                                        allocator, df->mutable_data<float>());
        }
        const absl::Status status =
            WithRowsToSplit(shape, in, true, dy, true, false, allocator, df,
                            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) {
                              return OnednnFilterGradient({s, dtype}, a, b, allocator, r);
                            });
        if (!absl::IsUnimplemented(status) || dtype == DType::kBfloat16) return status;
        return WithChannelsLast(
            shape, in, true, dy, true, false, allocator, df,
            [&](const ConvShape& s, const Tensor& a, const Tensor& b, Tensor* r) -> absl::Status {
              if (dtype == DType::kDouble) return GemmFilterGradient<double>(s, a, b, allocator, r);
              return GemmFilterGradient<float>(s, a, b, allocator, r);
            });
      });
}

}  // namespace formwork
