#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elementwise/elementwise_math.h"
#include "core/kernels/isa.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/widen.h"
#include "core/ops/nn.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 64 * 1024;  // Elements worth a task.

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

// Half precision as floats, so many at a time that conversions take the machine's instructions.
template <typename T>
class AddInFloat {
 public:
  AddInFloat(const BiasGeometry& l, const T* x, const T* bias, T* out)
      : l_(l), x_(x), out_(out), bias_(static_cast<size_t>(l.channels)) {
    WidenRun(bias, l.channels, bias_.data());
  }

  void Rows(int64_t begin, int64_t end) const {
    const int64_t channels = l_.channels, together = std::max<int64_t>(kRun / channels, 1);
    for (int64_t r = begin; r < end; r += together) {
      const int64_t rows = std::min(together, end - r);
      for (int64_t c = 0; c < channels; c += kRun) {
        const int64_t count = std::min(kRun, channels - c);
        Run(r * channels + c, rows * count, [&](float* run) {
          ForHostIsa<AddLast<float>>(int64_t{0}, rows, count, run, bias_.data() + c, run);
        });
      }
    }
  }
  void Stretches(int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < l_.inner; i += kRun) {
        const int64_t count = std::min(kRun, l_.inner - i);
        Run(r * l_.inner + i, count, [&](float* run) {
          ForHostIsa<AddFirst<float>>(int64_t{0}, int64_t{1}, int64_t{1}, count, run,
                                      bias_.data() + r % l_.channels, run);
        });
      }
    }
  }

 private:
  static constexpr int64_t kRun = 4096;

  template <typename Add>
  void Run(int64_t first, int64_t n, Add add) const {
    float run[kRun];
    WidenRun(x_ + first, n, run);
    add(static_cast<float*>(run));
    NarrowRun(run, n, out_ + first);
  }

  const BiasGeometry& l_;
  const T* const x_;
  T* const out_;
  std::vector<float> bias_;
};

using BiasFn = void (*)(const BiasGeometry& channels, const void* x, const void* bias, void* out);

template <typename T>
void AddBias(const BiasGeometry& l, const void* x_raw, const void* bias_raw, void* out_raw) {
  const T* x = static_cast<const T*>(x_raw);
  const T* bias = static_cast<const T*>(bias_raw);
  T* out = static_cast<T*>(out_raw);
  if constexpr (math::kIsSmallFloat<T>) {
    const AddInFloat<T> add(l, x, bias, out);
    const int64_t items = l.inner == 1 ? l.outer : l.outer * l.channels;
    const int64_t elements = l.inner == 1 ? l.channels : l.inner;
    return ParallelFor(items, std::max<int64_t>(kTask / elements, 1),
                       [&](int64_t begin, int64_t end) {
                         l.inner == 1 ? add.Rows(begin, end) : add.Stretches(begin, end);
                       });
  }
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

absl::StatusOr<KernelFn> MakeBiasAdd(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const BiasFn add = FindBias(dtype);
  if (add == nullptr) {
    return Unimplemented("BiasAdd: dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(init.attrs()));
  return KernelFn([add, attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    const Tensor& bias = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const BiasGeometry geometry,
                              PrepareBiasAdd(attrs, value.shape().dims(), bias.shape().dims()));
    const Shape shape = value.shape();
    const void* from = value.raw();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, value.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    add(geometry, from, bias.raw(), out->mutable_raw());
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBiasAddGrad(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const ReduceFn sum = FindReduction(Reduction::kSum, dtype);
  if (sum == nullptr) {
    return Unimplemented("BiasAddGrad: dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(init.attrs()));
  return KernelFn([sum, attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const BiasGeometry l,
                              PrepareBiasAddGrad(attrs, value.shape().dims()));
    const int64_t channels = l.channels;
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make({channels}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, value.dtype(), shape));
    if (channels == 0) return absl::OkStatus();
    if (value.num_elements() == 0) {
      sum({1, 0, channels}, value.raw(), out->mutable_raw());
      return absl::OkStatus();
    }
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
  registry.Add("BiasAddV1", MakeBiasAdd);
  registry.Add("BiasAddGrad", MakeBiasAddGrad);
}

}  // namespace formwork
