// Dilation2D: the largest of what lies under a window, each with the filter's value added; and its
// gradients, which go where that largest was.

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/conv/pool_cpu.h"
#include "core/kernels/elements.h"
#include "core/ops/dilation.h"

namespace formwork {
namespace {

template <typename T>
using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;

// Where the largest is, and what it is: the first of those that are as large.
template <typename T>
struct Peak {
  Wide<T> value;
  int64_t input;   // Elements from the input's begin; -1 where all is NaN or nothing is there.
  int64_t filter;  // From the filter's.
};

template <typename T>
Peak<T> FindPeak(const DilationGeometry& s, const T* in, const T* filter, int64_t n, int64_t r,
                 int64_t c, int64_t k) {
  Peak<T> peak;
  if constexpr (std::is_same_v<T, half>) {
    peak.value = -65504.0f;
  } else {
    peak.value = std::numeric_limits<Wide<T>>::lowest();
  }
  peak.input = peak.filter = -1;
  for (int64_t i = 0; i < s.rows.window; ++i) {
    const int64_t y = r * s.rows.stride - s.rows.pad_before + i * s.rows.rate;
    if (y < 0 || y >= s.rows.input) continue;
    for (int64_t j = 0; j < s.cols.window; ++j) {
      const int64_t x = c * s.cols.stride - s.cols.pad_before + j * s.cols.rate;
      if (x < 0 || x >= s.cols.input) continue;
      const int64_t from = ((n * s.rows.input + y) * s.cols.input + x) * s.channels + k;
      const int64_t by = (i * s.cols.window + j) * s.channels + k;
      const auto value = static_cast<Wide<T>>(math::Add(in[from], filter[by]));
      if (value > peak.value) peak = {value, from, by};
    }
  }
  return peak;
}

// Calls use(flat output, peak) for lines [begin, end) of the outputs.
template <typename T, typename Use>
void ForPeaks(const DilationGeometry& s, const T* in, const T* filter, int64_t begin, int64_t end,
              const Use& use) {
  for (int64_t line = begin; line < end; ++line) {
    if (WorkIsCut()) return;
    for (int64_t c = 0; c < s.cols.output; ++c) {
      if (WorkIsCutAt(c, kDearItems)) return;
      for (int64_t k = 0; k < s.channels; ++k) {
        use((line * s.cols.output + c) * s.channels + k,
            FindPeak(s, in, filter, line / s.rows.output, line % s.rows.output, c, k));
      }
    }
  }
}

template <typename T>
void Dilate(const DilationGeometry& s, const T* in, const T* filter, T* out) {
  ParallelFor(s.batch * s.rows.output, 1, [&](int64_t begin, int64_t end) {
    ForPeaks(s, in, filter, begin, end,
             [out](int64_t at, const Peak<T>& peak) { out[at] = T(peak.value); });
  });
}

// Adds gradients to `to`, all zero, in order: several may go to one place.
template <typename T, bool kFilter>
void Spread(const DilationGeometry& s, const T* in, const T* filter, const T* grad, T* to) {
  ForPeaks(s, in, filter, 0, s.batch * s.rows.output, [&](int64_t at, const Peak<T>& peak) {
    const int64_t place = kFilter ? peak.filter : peak.input;
    if (place >= 0) to[place] = math::Add(to[place], grad[at]);
  });
}

absl::Status NoSuchType(DType dtype) {
  return Unimplemented("Dilation2D: dtype ", DTypeName(dtype), " is not supported");
}

absl::StatusOr<KernelFn> MakeDilation(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DilationAttrs attrs, DilationAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    const Tensor filter = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const DilationGeometry s,
                              PrepareDilation(attrs, input.shape().dims(), filter.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    switch (input.dtype()) {
      FORMWORK_REAL_CASES(Dilate(s, input.data<T>(), filter.data<T>(), out->mutable_data<T>());
                          return absl::OkStatus())
      default:
        return NoSuchType(input.dtype());
    }
  });
}

template <bool kFilter>
absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DilationAttrs attrs, DilationAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor input = ctx.input(0);
    const Tensor filter = ctx.input(1);
    const Tensor grad = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const DilationGeometry s,
                              PrepareDilation(attrs, input.shape().dims(), filter.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output_dims()));
    if (grad.shape() != shape) {
      return InvalidArgument("out_backprop has incompatible size: ", grad.shape().ToString(),
                             ", not ", shape.ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor out,
        Tensor::Allocate(ctx.allocator(), input.dtype(), kFilter ? filter.shape() : input.shape()));
    ZeroElements(out);
    const auto run = [&]() -> absl::Status {
      switch (input.dtype()) {
        FORMWORK_REAL_CASES((Spread<T, kFilter>(s, input.data<T>(), filter.data<T>(),
                                                grad.data<T>(), out.mutable_data<T>()));
                            return absl::OkStatus())
        default:
          return NoSuchType(input.dtype());
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void AddDilationCpuKernels(KernelRegistry& registry) {
  registry.Add("Dilation2D", MakeDilation);
  registry.Add("Dilation2DBackpropInput", MakeGradient<false>);
  registry.Add("Dilation2DBackpropFilter", MakeGradient<true>);
}

}  // namespace formwork
