// Max pooling that tells where the largest are, and its gradient.

#include <algorithm>
#include <type_traits>

#include "core/base/first_error.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/conv/pool_cpu.h"
#include "core/kernels/elements.h"
#include "core/ops/pool_argmax.h"

namespace formwork {
namespace {

// Calls f(T()) with the type of the elements, which are all numbers that are real.
template <typename F>
absl::Status ByNumber(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat:
      return f(float());
    case DType::kDouble:
      return f(double());
    case DType::kHalf:
      return f(half());
    case DType::kBfloat16:
      return f(bfloat16());
    case DType::kInt8:
      return f(int8_t());
    case DType::kInt16:
      return f(int16_t());
    case DType::kInt32:
      return f(int32_t());
    case DType::kInt64:
      return f(int64_t());
    case DType::kUint8:
      return f(uint8_t());
    case DType::kUint16:
      return f(uint16_t());
    case DType::kUint32:
      return f(uint32_t());
    case DType::kUint64:
      return f(uint64_t());
    default:
      return Unimplemented("Max pooling: dtype ", DTypeName(dtype), " is not supported");
  }
}

template <typename T>
bool Less(T a, T b) {
  if constexpr (math::kIsSmallFloat<T>) {
    return static_cast<float>(a) < static_cast<float>(b);
  } else {
    return a < b;
  }
}

// The first element under a window, and what is larger than that: a NaN that is first stays.
template <typename T, typename Index>
void Pool(const ConvShape& s, bool include_batch, const T* in, T* out, Index* at) {
  const ConvAxis& rows = s.rows;
  const ConvAxis& cols = s.cols;
  const int64_t depth = s.in_channels;
  ParallelFor(s.batch * rows.output, 1, [&](int64_t first, int64_t last) {
    for (int64_t line = first; line < last; ++line) {
      if (WorkIsCut()) return;
      const int64_t image = line / rows.output * rows.input * cols.input * depth;
      const int64_t base = include_batch ? image : 0;
      const int64_t top = line % rows.output * rows.stride - rows.pad_before;
      for (int64_t x = 0; x < cols.output; ++x) {
        if (WorkIsCutAt(x, kDearItems)) return;
        const int64_t left = x * cols.stride - cols.pad_before;
        T* best = out + (line * cols.output + x) * depth;
        Index* place = at + (line * cols.output + x) * depth;
        bool begun = false;
        for (int64_t r = std::max<int64_t>(top, 0); r < std::min(top + rows.taps, rows.input);
             ++r) {
          for (int64_t c = std::max<int64_t>(left, 0); c < std::min(left + cols.taps, cols.input);
               ++c) {
            const int64_t pixel = (r * cols.input + c) * depth;
            for (int64_t d = 0; d < depth; ++d) {
              const T value = in[image + pixel + d];
              if (begun && !Less(best[d], value)) continue;
              best[d] = value;
              place[d] = static_cast<Index>(base + pixel + d);
            }
            begun = true;
          }
        }
      }
    }
  });
}

// Adds each gradient where it came from. Errors: kInvalidArgument for a place outside of its image.
template <typename T, typename Index>
absl::Status Spread(const ConvShape& s, bool include_batch, const T* grad, const Index* at,
                    T* out) {
  const int64_t in_image = s.rows.input * s.cols.input * s.in_channels;
  const int64_t out_image = s.rows.output * s.cols.output * s.in_channels;
  FirstError error;
  ParallelFor(s.batch, std::max<int64_t>(1, 65536 / std::max<int64_t>(out_image, 1)),
              [&](int64_t first, int64_t last) {
                for (int64_t n = first; n < last; ++n) {
                  const int64_t base = include_batch ? n * in_image : 0;
                  for (int64_t i = n * out_image; i < (n + 1) * out_image; ++i) {
                    if (WorkIsCutAt(i)) return;
                    const auto place = static_cast<int64_t>(at[i]);
                    if (place < base || place >= base + in_image) {
                      error.Note(InvalidArgument("Invalid output gradient index: ", place, ", ",
                                                 base, ", ", base + in_image));
                      return;
                    }
                    T& to = out[n * in_image + place - base];
                    to = math::Add(to, grad[i]);
                  }
                }
              });
  return error.Take();
}

absl::StatusOr<KernelFn> MakePoolArgmax(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PoolArgmaxAttrs attrs, PoolArgmaxAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs, index = init.output_dtypes()[1]](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape s, PreparePoolArgmax(attrs, input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * at, ctx.AllocateOutput(1, index, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return ByNumber(input.dtype(), [&](auto of) {
      using T = decltype(of);
      if (index == DType::kInt32) {
        Pool(s, attrs.include_batch_in_index, input.data<T>(), out->mutable_data<T>(),
             at->mutable_data<int32_t>());
      } else {
        Pool(s, attrs.include_batch_in_index, input.data<T>(), out->mutable_data<T>(),
             at->mutable_data<int64_t>());
      }
      return absl::OkStatus();
    });
  });
}

absl::StatusOr<KernelFn> MakePoolArgmaxGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PoolArgmaxAttrs attrs, PoolArgmaxAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& grad = ctx.input(1);
    const Tensor& at = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const ConvShape s,
        PreparePoolArgmaxGrad(attrs, input.shape().dims(), grad.shape().dims(), at.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), input.shape()));
    ZeroElements(*out);
    if (grad.num_elements() == 0) return absl::OkStatus();
    return ByNumber(input.dtype(), [&](auto of) -> absl::Status {
      using T = decltype(of);
      if (at.dtype() == DType::kInt32) {
        return Spread(s, attrs.include_batch_in_index, grad.data<T>(), at.data<int32_t>(),
                      out->mutable_data<T>());
      }
      return Spread(s, attrs.include_batch_in_index, grad.data<T>(), at.data<int64_t>(),
                    out->mutable_data<T>());
    });
  });
}

}  // namespace

void AddPoolArgmaxCpuKernels(KernelRegistry& registry) {
  registry.Add("MaxPoolWithArgmax", MakePoolArgmax);
  registry.Add("MaxPoolGradWithArgmax", MakePoolArgmaxGrad);
}

}  // namespace formwork
