// Conv3D and its gradients: by oneDNN; else products over patches of the input (im2col), some
// thousand at a time so that they stay in the second-level cache.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/kernels/conv/in_float.h"
#include "core/kernels/conv/onednn_run.h"
#include "core/kernels/conv/pool_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/gemm/gemm.h"
#include "core/ops/conv3d.h"

namespace formwork {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 18;
constexpr int64_t kTaskElements = 65536;  // Worth a task of their own when they are only moved.
// Channels of a pixel that one thread adds to: a cache line or more of them.
constexpr int64_t kChannelsPerTask = 16;

int64_t PatchElements(const Conv3dShape& s) {
  return s.axes[0].taps * s.axes[1].taps * s.axes[2].taps * s.in_channels;
}

int64_t OutputPixels(const Conv3dShape& s) {
  return s.batch * s.axes[0].output * s.axes[1].output * s.axes[2].output;
}

bool IsPointwise(const Conv3dShape& s) {
  return std::all_of(s.axes.begin(), s.axes.end(), [](const ConvAxis& a) {
    return a.taps == 1 && a.stride == 1 && a.pad_before == 0 && a.pad_after == 0;
  });
}

// Calls run(address in the patch, address in the input, elements) for what lies in the input, and
// gap(address in the patch, elements) for what does not, over the patch of output pixel `pixel` of
// the whole batch. The taps of a row lie side by side in both.
template <typename Run, typename Gap>
inline void ForEachRun(const Conv3dShape& s, int64_t pixel, Run run, Gap gap) {
  const ConvAxis& planes = s.axes[0];
  const ConvAxis& rows = s.axes[1];
  const ConvAxis& cols = s.axes[2];
  const int64_t left = pixel % cols.output * cols.stride - cols.pad_before;
  pixel /= cols.output;
  const int64_t top = pixel % rows.output * rows.stride - rows.pad_before;
  pixel /= rows.output;
  const int64_t front = pixel % planes.output * planes.stride - planes.pad_before;
  const int64_t image = pixel / planes.output;
  const int64_t line = cols.taps * s.in_channels;
  const int64_t begin = std::clamp<int64_t>(-left, 0, cols.taps);
  const int64_t end = std::clamp<int64_t>(cols.input - left, begin, cols.taps);
  int64_t at = 0;
  for (int64_t z = front; z < front + planes.taps; ++z) {
    for (int64_t y = top; y < top + rows.taps; ++y, at += line) {
      if (z < 0 || z >= planes.input || y < 0 || y >= rows.input || begin == end) {
        gap(at, line);
        continue;
      }
      const int64_t row = ((image * planes.input + z) * rows.input + y) * cols.input + left;
      if (begin > 0) gap(at, begin * s.in_channels);
      run(at + begin * s.in_channels, (row + begin) * s.in_channels, (end - begin) * s.in_channels);
      if (end < cols.taps) gap(at + end * s.in_channels, (cols.taps - end) * s.in_channels);
    }
  }
}

template <typename T>
void GatherPatches(const Conv3dShape& s, int64_t first, int64_t count, const T* input, T* patches) {
  const int64_t patch = PatchElements(s);
  ParallelFor(count, std::max<int64_t>(1, kTaskElements / patch), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* out = patches + p * patch;
      ForEachRun(
          s, first + p,
          [&](int64_t at, int64_t from, int64_t n) { CopyElements(input + from, n, out + at); },
          [&](int64_t at, int64_t n) { std::fill_n(out + at, n, T(0)); });
    }
  });
}

// The reverse. Patches overlap, so it is channels that are split.
template <typename T>
void AddPatches(const Conv3dShape& s, int64_t first, int64_t count, const T* patches, T* input) {
  const int64_t patch = PatchElements(s);
  const int64_t channels = s.in_channels;
  ParallelFor(channels, kChannelsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t p = 0; p < count; ++p) {
      const T* in = patches + p * patch;
      ForEachRun(
          s, first + p,
          [&](int64_t at, int64_t to, int64_t n) {
            for (int64_t tap = 0; tap < n; tap += channels) {
              for (int64_t c = begin; c < end; ++c) input[to + tap + c] += in[at + tap + c];
            }
          },
          [](int64_t, int64_t) {});
    }
  });
}

// Calls body(first pixel, pixels, scratch for their patches) for pieces that cover the output.
template <typename T, typename Body>
absl::Status ForEachPiece(const Conv3dShape& s, DType dtype, Allocator& allocator, Body body) {
  const int64_t pixels = OutputPixels(s);
  const int64_t patch = PatchElements(s);
  const int64_t step = std::clamp<int64_t>(kPieceElements / patch, 1, pixels);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({step, patch}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch, Tensor::Allocate(allocator, dtype, shape));
  for (int64_t first = 0; first < pixels; first += step) {
    if (WorkIsCut()) break;
    body(first, std::min(step, pixels - first), scratch.mutable_data<T>());
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Forward(const Conv3dShape& s, const Tensor& input, const Tensor& filter,
                     Allocator& allocator, Tensor* output) {
  const int64_t patch = PatchElements(s);
  const T* in = input.data<T>();
  const T* f = filter.data<T>();
  T* out = output->mutable_data<T>();
  if (IsPointwise(s)) {
    Gemm(false, false, OutputPixels(s), s.out_channels, s.in_channels, in, s.in_channels, f,
         s.out_channels, T(0), out, s.out_channels);
    return absl::OkStatus();
  }
  return ForEachPiece<T>(s, input.dtype(), allocator,
                         [&](int64_t first, int64_t count, T* patches) {
                           GatherPatches(s, first, count, in, patches);
                           Gemm(false, false, count, s.out_channels, patch, patches, patch, f,
                                s.out_channels, T(0), out + first * s.out_channels, s.out_channels);
                         });
}

template <typename T>
absl::Status InputGradient(const Conv3dShape& s, const Tensor& filter, const Tensor& out_backprop,
                           Allocator& allocator, Tensor* in_backprop) {
  const int64_t patch = PatchElements(s);
  const T* f = filter.data<T>();
  const T* out = out_backprop.data<T>();
  T* in = in_backprop->mutable_data<T>();
  if (IsPointwise(s)) {
    Gemm(false, true, OutputPixels(s), s.in_channels, s.out_channels, out, s.out_channels, f,
         s.out_channels, T(0), in, s.in_channels);
    return absl::OkStatus();
  }
  ZeroElements(*in_backprop);
  return ForEachPiece<T>(
      s, filter.dtype(), allocator, [&](int64_t first, int64_t count, T* patches) {
        Gemm(false, true, count, patch, s.out_channels, out + first * s.out_channels,
             s.out_channels, f, s.out_channels, T(0), patches, patch);
        AddPatches(s, first, count, patches, in);
      });
}

template <typename T>
absl::Status FilterGradient(const Conv3dShape& s, const Tensor& input, const Tensor& out_backprop,
                            Allocator& allocator, Tensor* filter_backprop) {
  const int64_t patch = PatchElements(s);
  const T* in = input.data<T>();
  const T* out = out_backprop.data<T>();
  T* f = filter_backprop->mutable_data<T>();
  if (IsPointwise(s)) {
    Gemm(true, false, s.in_channels, s.out_channels, OutputPixels(s), in, s.in_channels, out,
         s.out_channels, T(0), f, s.out_channels);
    return absl::OkStatus();
  }
  ZeroElements(*filter_backprop);
  return ForEachPiece<T>(
      s, input.dtype(), allocator, [&](int64_t first, int64_t count, T* patches) {
        GatherPatches(s, first, count, in, patches);
        Gemm(true, false, patch, s.out_channels, count, patches, patch,
             out + first * s.out_channels, s.out_channels, T(1), f, s.out_channels);
      });
}

absl::Status CheckDType(const KernelInit& init, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kDouble:
    case DType::kHalf:
    case DType::kBfloat16:
      return absl::OkStatus();
    default:
      return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeConv3d(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dAttrs attrs, Conv3dAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType(init, init.output_dtypes()[0]));
  auto memo = std::make_unique<PackedFilterMemo>(/*calls_wanted=*/3);
  return KernelFn([attrs, memo = std::move(memo)](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const Conv3dShape s,
                              PrepareConv3d(attrs, input.shape().dims(), filter.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const bool keep = memo->Settled(filter);
    return InFloat(input, filter, ctx.allocator(), output,
                   [&](const Tensor& in, const Tensor& f, Tensor* out) -> absl::Status {
                     const DType dtype = out->dtype();
                     const absl::Status status = OnednnForward(
                         {s, dtype}, in, f, EpilogueOperands(), *memo, keep, ctx.allocator(), out);
                     if (!absl::IsUnimplemented(status) || dtype == DType::kBfloat16) return status;
                     return dtype == DType::kDouble
                                ? Forward<double>(s, in, f, ctx.allocator(), out)
                                : Forward<float>(s, in, f, ctx.allocator(), out);
                   });
  });
}

absl::StatusOr<KernelFn> MakeConv3dBackpropInput(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dAttrs attrs, Conv3dAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType(init, init.output_dtypes()[0]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& filter = ctx.input(1);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Conv3dShape s,
                              PrepareConv3dInputGradient(attrs, ctx.input(0), filter.shape().dims(),
                                                         gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.input_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, gradient.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    if (filter.num_elements() == 0 || gradient.num_elements() == 0) {
      ZeroElements(*output);
      return absl::OkStatus();
    }
    return InFloat(
        filter, gradient, ctx.allocator(), output,
        [&](const Tensor& f, const Tensor& dy, Tensor* dx) -> absl::Status {
          const DType dtype = dx->dtype();
          const absl::Status status = OnednnInputGradient({s, dtype}, f, dy, ctx.allocator(), dx);
          if (!absl::IsUnimplemented(status) || dtype == DType::kBfloat16) return status;
          return dtype == DType::kDouble ? InputGradient<double>(s, f, dy, ctx.allocator(), dx)
                                         : InputGradient<float>(s, f, dy, ctx.allocator(), dx);
        });
  });
}

absl::StatusOr<KernelFn> MakeConv3dBackpropFilter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dAttrs attrs, Conv3dAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType(init, init.output_dtypes()[0]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Conv3dShape s,
                              PrepareConv3dFilterGradient(attrs, input.shape().dims(), ctx.input(1),
                                                          gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.filter_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    if (input.num_elements() == 0 || gradient.num_elements() == 0) {
      ZeroElements(*output);
      return absl::OkStatus();
    }
    return InFloat(
        input, gradient, ctx.allocator(), output,
        [&](const Tensor& in, const Tensor& dy, Tensor* df) -> absl::Status {
          const DType dtype = df->dtype();
          const absl::Status status = OnednnFilterGradient({s, dtype}, in, dy, ctx.allocator(), df);
          if (!absl::IsUnimplemented(status) || dtype == DType::kBfloat16) return status;
          return dtype == DType::kDouble ? FilterGradient<double>(s, in, dy, ctx.allocator(), df)
                                         : FilterGradient<float>(s, in, dy, ctx.allocator(), df);
        });
  });
}

}  // namespace

void AddConv3dCpuKernels(KernelRegistry& registry) {
  registry.Add("Conv3D", MakeConv3d);
  registry.Add("Conv3DBackpropInputV2", MakeConv3dBackpropInput);
  registry.Add("Conv3DBackpropFilterV2", MakeConv3dBackpropFilter);
}

}  // namespace formwork
