// Pooling of volumes. Channels lie side by side, and each window is walked over once for all.

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/conv/pool_cpu.h"
#include "core/kernels/elements.h"
#include "core/ops/pool3d.h"

namespace formwork {
namespace {

// What elements are added up and compared in.
template <typename T>
using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;

// Calls use(pixel of the input) for all that lie under window (p, r, c) of an image.
template <typename Use>
void ForWindow(const Pool3dGeometry& s, int64_t p, int64_t r, int64_t c, const Use& use) {
  const auto& [planes, rows, cols] = s.axes;
  for (int64_t z = planes.begin(p); z < planes.end(p); ++z) {
    for (int64_t y = rows.begin(r); y < rows.end(r); ++y) {
      for (int64_t x = cols.begin(c); x < cols.end(c); ++x) {
        use((z * rows.input + y) * cols.input + x);
      }
    }
  }
}

int64_t WindowSize(const Pool3dGeometry& s, int64_t p, int64_t r, int64_t c) {
  const int64_t at[] = {p, r, c};
  int64_t size = 1;
  for (size_t i = 0; i < 3; ++i) {
    size *= std::max<int64_t>(s.axes[i].end(at[i]) - s.axes[i].begin(at[i]), 0);
  }
  return size;
}

// Calls use(image, p, r, c, pixel of the output) for all of images [begin, end).
template <typename Use>
void ForOutputs(const Pool3dGeometry& s, int64_t begin, int64_t end, const Use& use) {
  const auto& [planes, rows, cols] = s.axes;
  for (int64_t line = begin; line < end; ++line) {
    if (WorkIsCut()) return;
    const int64_t r = line % rows.output;
    const int64_t p = line / rows.output % planes.output;
    const int64_t n = line / rows.output / planes.output;
    for (int64_t c = 0; c < cols.output; ++c) {
      if (WorkIsCutAt(c, kDearItems)) return;
      use(n, p, r, c, line * cols.output + c);
    }
  }
}

template <typename T>
Wide<T> Lowest() {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return static_cast<float>(std::bit_cast<bfloat16>(uint16_t{0xff7f}));
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

int64_t InputPixels(const Pool3dGeometry& s) {
  return s.axes[0].input * s.axes[1].input * s.axes[2].input;
}

template <typename T, bool kMax>
void Pool(const Pool3dGeometry& s, const T* in, T* out) {
  const int64_t image = InputPixels(s) * s.channels;
  ParallelFor(s.batch * s.axes[0].output * s.axes[1].output, 1, [&](int64_t begin, int64_t end) {
    std::vector<Wide<T>> made(static_cast<size_t>(s.channels));
    ForOutputs(s, begin, end, [&](int64_t n, int64_t p, int64_t r, int64_t c, int64_t pixel) {
      std::fill(made.begin(), made.end(), kMax ? Lowest<T>() : Wide<T>(0));
      ForWindow(s, p, r, c, [&](int64_t from) {
        const T* values = in + n * image + from * s.channels;
        for (size_t k = 0; k < made.size(); ++k) {
          const auto value = static_cast<Wide<T>>(values[k]);
          made[k] = kMax ? (made[k] < value ? value : made[k]) : made[k] + value;
        }
      });
      const auto count = static_cast<Wide<T>>(WindowSize(s, p, r, c));
      for (size_t k = 0; k < made.size(); ++k) {
        out[pixel * s.channels + static_cast<int64_t>(k)] = T(kMax ? made[k] : made[k] / count);
      }
    });
  });
}

// Adds to `to`, which is all zero, what each pixel of the input gets of the gradient.
template <typename T, bool kMax>
void SpreadGradient(const Pool3dGeometry& s, const T* in, const T* pooled, const T* grad,
                    Wide<T>* to) {
  const int64_t image = InputPixels(s) * s.channels;
  const int64_t lines = s.axes[0].output * s.axes[1].output;
  ParallelFor(s.batch, 1, [&](int64_t begin, int64_t end) {
    ForOutputs(s, begin * lines, end * lines,
               [&](int64_t n, int64_t p, int64_t r, int64_t c, int64_t pixel) {
                 const T* given = grad + pixel * s.channels;
                 const auto count = static_cast<Wide<T>>(WindowSize(s, p, r, c));
                 ForWindow(s, p, r, c, [&](int64_t from) {
                   const int64_t at = n * image + from * s.channels;
                   for (int64_t k = 0; k < s.channels; ++k) {
                     const auto share = static_cast<Wide<T>>(given[k]);
                     if constexpr (!kMax) {
                       to[at + k] += share / count;
                     } else if (static_cast<Wide<T>>(in[at + k]) ==
                                static_cast<Wide<T>>(pooled[pixel * s.channels + k])) {
                       // As TensorFlow: all that are as large get the whole of it.
                       to[at + k] += share;
                     }
                   }
                 });
               });
  });
}

template <typename T, bool kMax>
absl::Status OutputGradient(KernelContext& ctx, const Pool3dGeometry& s, const Tensor& grad) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.input_dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(ctx.allocator(), DTypeOf<Wide<T>>::value, shape));
  ZeroElements(wide);
  SpreadGradient<T, kMax>(s, kMax ? ctx.input(0).data<T>() : nullptr,
                          kMax ? ctx.input(1).data<T>() : nullptr, grad.data<T>(),
                          wide.mutable_data<Wide<T>>());
  if constexpr (math::kIsSmallFloat<T>) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), grad.dtype(), shape));
    ForBlocks(shape.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out.mutable_data<T>()[i] = T(wide.data<float>()[i]);
    });
    ctx.SetOutput(0, std::move(out));
  } else {
    ctx.SetOutput(0, std::move(wide));
  }
  return absl::OkStatus();
}

absl::Status NoSuchType(const KernelInit& init, DType dtype) {
  return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
}

// As TensorFlow's kernels for the CPU.
bool IsPooled(DType dtype) { return dtype == DType::kFloat || dtype == DType::kBfloat16; }

template <bool kMax>
absl::StatusOr<KernelFn> MakePool(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, Pool3dAttrs::FromAttrs(init.attrs()));
  if (!IsPooled(init.input_dtypes()[0])) return NoSuchType(init, init.input_dtypes()[0]);
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry s, PreparePool3d(attrs, input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    switch (input.dtype()) {
      FORMWORK_CASE(float, Pool<T, kMax>(s, input.data<T>(), out->mutable_data<T>()))
      FORMWORK_CASE(bfloat16, Pool<T, kMax>(s, input.data<T>(), out->mutable_data<T>()))
      default:
        break;
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMaxGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, Pool3dAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[2];
  if (!IsPooled(dtype) || init.input_dtypes()[0] != dtype) return NoSuchType(init, dtype);
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor grad = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const Pool3dGeometry s,
        PrepareMaxPool3dGrad(attrs, ctx.input(0).shape(), ctx.input(1).shape(), grad.shape()));
    switch (grad.dtype()) {
      FORMWORK_CASE(float, return (OutputGradient<T, true>(ctx, s, grad)))
      FORMWORK_CASE(bfloat16, return (OutputGradient<T, true>(ctx, s, grad)))
      default:
        return absl::OkStatus();
    }
  });
}

absl::StatusOr<KernelFn> MakeAvgGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, Pool3dAttrs::FromAttrs(init.attrs()));
  if (!IsPooled(init.input_dtypes()[1])) return NoSuchType(init, init.input_dtypes()[1]);
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor grad = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry s,
                              PrepareAvgPool3dGrad(attrs, ctx.input(0), grad.shape()));
    switch (grad.dtype()) {
      FORMWORK_CASE(float, return (OutputGradient<T, false>(ctx, s, grad)))
      FORMWORK_CASE(bfloat16, return (OutputGradient<T, false>(ctx, s, grad)))
      default:
        return absl::OkStatus();
    }
  });
}

}  // namespace

void AddPool3dCpuKernels(KernelRegistry& registry) {
  registry.Add("MaxPool3D", MakePool<true>);
  registry.Add("MaxPool3DGrad", MakeMaxGrad);
  registry.Add("AvgPool3D", MakePool<false>);
  registry.Add("AvgPool3DGrad", MakeAvgGrad);
}

}  // namespace formwork
