#include <algorithm>
#include <complex>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elementwise/elementwise_math.h"
#include "core/kernels/isa.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 64 * 1024;  // Elements worth a task.

// A value as [outer, channels, inner]; channels are last where inner is 1.
struct Channels {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};

Channels ChannelsOf(const Shape& shape, bool channels_first) {
  const int at = channels_first ? 1 : shape.rank() - 1;
  const auto dims = shape.dims();
  return {ProductOf(dims.first(at)), dims[at], ProductOf(dims.subspan(at + 1))};
}

// Rows [begin, end) of channels that are last.
template <typename T>
struct AddLast {
  FORMWORK_ISA_INLINE static void Run(int64_t begin, int64_t end, int64_t channels, const T* x,
                                      const T* bias, T* out) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < channels; ++c) {
        out[r * channels + c] = math::Add(x[r * channels + c], bias[c]);
      }
    }
  }
};

// Stretches [begin, end) of `inner` elements, one channel each.
template <typename T>
struct AddFirst {
  FORMWORK_ISA_INLINE static void Run(int64_t begin, int64_t end, int64_t channels, int64_t inner,
                                      const T* x, const T* bias, T* out) {
    for (int64_t r = begin; r < end; ++r) {
      const T by = bias[r % channels];
      for (int64_t i = 0; i < inner; ++i) out[r * inner + i] = math::Add(x[r * inner + i], by);
    }
  }
};

using BiasFn = void (*)(const Channels& channels, const void* x, const void* bias, void* out);

template <typename T>
void AddBias(const Channels& l, const void* x_raw, const void* bias_raw, void* out_raw) {
  const T* x = static_cast<const T*>(x_raw);
  const T* bias = static_cast<const T*>(bias_raw);
  T* out = static_cast<T*>(out_raw);
  constexpr bool kByIsa = std::is_same_v<T, float>;
  if (l.inner == 1) {
    ParallelFor(l.outer, std::max<int64_t>(kTask / l.channels, 1), [&](int64_t begin, int64_t end) {
      if constexpr (kByIsa) {
        ForHostIsa<AddLast<T>>(begin, end, l.channels, x, bias, out);
      } else {
        AddLast<T>::Run(begin, end, l.channels, x, bias, out);
      }
    });
    return;
  }
  ParallelFor(l.outer * l.channels, std::max<int64_t>(kTask / l.inner, 1),
              [&](int64_t begin, int64_t end) {
                if constexpr (kByIsa) {
                  ForHostIsa<AddFirst<T>>(begin, end, l.channels, l.inner, x, bias, out);
                } else {
                  AddFirst<T>::Run(begin, end, l.channels, l.inner, x, bias, out);
                }
              });
}

BiasFn FindBias(DType dtype) {
  switch (dtype) {
    FORMWORK_NUMBER_CASES(return AddBias<T>)
    default:
      return nullptr;
  }
}

bool ChannelsFirst(KernelInit& init) {
  return init.attrs().GetOr<std::string>("data_format", "NHWC") == "NCHW";
}

absl::Status CheckRank(const Tensor& value) {
  if (value.rank() >= 2) return absl::OkStatus();
  return InvalidArgument("Input tensor must be at least 2D: ", value.shape().ToString());
}

absl::StatusOr<KernelFn> MakeBiasAdd(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const BiasFn add = FindBias(dtype);
  if (add == nullptr) {
    return Unimplemented("BiasAdd: dtype ", DTypeName(dtype), " is not supported");
  }
  const bool channels_first = ChannelsFirst(init);
  return KernelFn([add, channels_first](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    const Tensor& bias = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckRank(value));
    if (bias.rank() != 1) {
      return InvalidArgument("Biases must be 1D: ", bias.shape().ToString());
    }
    if (bias.dim(0) != value.dim(channels_first ? 1 : value.rank() - 1)) {
      return InvalidArgument(
          "Must provide as many biases as the last dimension of the input tensor: ",
          bias.shape().ToString(), " vs. ", value.shape().ToString());
    }
    const Shape shape = value.shape();
    const void* from = value.raw();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, value.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    add(ChannelsOf(shape, channels_first), from, bias.raw(), out->mutable_raw());
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBiasAddGrad(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const ReduceFn sum = FindReduction(Reduction::kSum, dtype);
  if (sum == nullptr) {
    return Unimplemented("BiasAddGrad: dtype ", DTypeName(dtype), " is not supported");
  }
  const bool channels_first = ChannelsFirst(init);
  return KernelFn([sum, channels_first](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckRank(value));
    const int64_t channels = value.dim(channels_first ? 1 : value.rank() - 1);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make({channels}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, value.dtype(), shape));
    if (channels == 0) return absl::OkStatus();
    if (value.num_elements() == 0) {
      sum({1, 0, channels}, value.raw(), out->mutable_raw());
      return absl::OkStatus();
    }
    const Channels l = ChannelsOf(value.shape(), channels_first);
    if (l.inner == 1) {
      sum({1, l.outer, l.channels}, value.raw(), out->mutable_raw());
      return absl::OkStatus();
    }
    // Each image's channels first, then those over the images.
    FORMWORK_ASSIGN_OR_RETURN(Shape partial_shape, Shape::Make({l.outer, l.channels}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor partial,
                              Tensor::Allocate(ctx.allocator(), value.dtype(), partial_shape));
    sum({l.outer * l.channels, l.inner, 1}, value.raw(), partial.mutable_raw());
    sum({1, l.outer, l.channels}, partial.raw(), out->mutable_raw());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterBiasKernels(KernelRegistry& registry) {
  registry.Add("BiasAdd", MakeBiasAdd);
  registry.Add("BiasAddGrad", MakeBiasAddGrad);
}

}  // namespace formwork
