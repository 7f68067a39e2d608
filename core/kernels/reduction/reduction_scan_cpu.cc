#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/reduction/reduction.h"

namespace formwork {
namespace {

constexpr int64_t kChunk = 128;       // Columns at a time.
constexpr int64_t kTask = 16 * 1024;  // Elements worth a task.

enum class ScanOp : uint8_t { kSum, kProduct, kLogSumExp };

// log(exp(a) + exp(b)).
template <typename T>
T LogSumExp(T a, T b) {
  const T less = std::min(a, b);
  const T more = std::max(a, b);
  return std::isinf(less) && less < 0 ? more : more + std::log1p(std::exp(less - more));
}

// Each step is rounded to T, as TensorFlow does.
template <typename T, ScanOp kOp>
T Combine(T a, T b) {
  if constexpr (kOp != ScanOp::kLogSumExp) {
    return kOp == ScanOp::kProduct ? math::Mul(a, b) : math::Add(a, b);
  } else if constexpr (math::kIsSmallFloat<T>) {
    return T(LogSumExp(static_cast<float>(a), static_cast<float>(b)));
  } else {
    return LogSumExp(a, b);
  }
}

template <typename T, ScanOp kOp>
T Neutral() {
  if constexpr (kOp == ScanOp::kLogSumExp) {
    return T(-std::numeric_limits<float>::infinity());
  } else if constexpr (math::kIsSmallFloat<T>) {
    return T(kOp == ScanOp::kProduct ? 1.0f : 0.0f);
  } else {
    return T(kOp == ScanOp::kProduct ? 1 : 0);
  }
}

using ScanFn = void (*)(const ReduceExtent& extent, const ScanAttrs& attrs, const void* x,
                        void* out);

template <typename T, ScanOp kOp>
void Scan(const ReduceExtent& e, const ScanAttrs& attrs, const void* x_raw, void* out_raw) {
  const T* x = static_cast<const T*>(x_raw);
  T* out = static_cast<T*>(out_raw);
  const bool exclusive = attrs.exclusive, reverse = attrs.reverse;
  const int64_t chunks = (e.inner + kChunk - 1) / kChunk;
  const int64_t item_elements = std::min(kChunk, e.inner) * e.reduced;
  ParallelFor(e.outer * chunks, std::max<int64_t>(kTask / item_elements, 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t item = begin; item < end; ++item) {
                  const int64_t c = item % chunks * kChunk;
                  const int64_t columns = std::min(kChunk, e.inner - c);
                  const int64_t base = item / chunks * e.reduced * e.inner + c;
                  T running[kChunk];
                  std::fill_n(running, columns, Neutral<T, kOp>());
                  for (int64_t step = 0; step < e.reduced; ++step) {
                    if (WorkIsCutAt(step)) return;
                    const int64_t r = reverse ? e.reduced - 1 - step : step;
                    const T* from = x + base + r * e.inner;
                    T* to = out + base + r * e.inner;
                    for (int64_t i = 0; i < columns; ++i) {
                      const T before = running[i];
                      running[i] = Combine<T, kOp>(before, from[i]);
                      to[i] = exclusive ? before : running[i];
                    }
                  }
                }
              });
}

template <ScanOp kOp>
ScanFn FindScan(DType dtype) {
  switch (dtype) {
    FORMWORK_FLOAT_CASES(return (Scan<T, kOp>))
    default:
      break;
  }
  if constexpr (kOp != ScanOp::kLogSumExp) {
    switch (dtype) {
      FORMWORK_INTEGER_CASES(return (Scan<T, kOp>))
      FORMWORK_COMPLEX_CASES(return (Scan<T, kOp>))
      default:
        break;
    }
  }
  return nullptr;
}

template <ScanOp kOp>
absl::StatusOr<KernelFn> MakeScan(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const ScanFn scan = FindScan<kOp>(dtype);
  if (scan == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const ScanAttrs attrs, ScanAttrs::FromAttrs(init.attrs()));
  return KernelFn([scan, attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(int axis, PrepareScan(x.rank(), ctx.input(1)));
    const bool empty = x.num_elements() == 0;
    const ReduceExtent extent = empty ? ReduceExtent{} : ExtentAlong(x.shape().dims(), axis);
    const void* from = x.raw();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out,
                              ctx.ForwardOrAllocate({0}, 0, x.dtype(), Shape(x.shape())));
    if (!empty) scan(extent, attrs, from, out->mutable_raw());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterScanKernels(KernelRegistry& registry) {
  registry.Add("Cumsum", MakeScan<ScanOp::kSum>);
  registry.Add("Cumprod", MakeScan<ScanOp::kProduct>);
  registry.Add("CumulativeLogsumexp", MakeScan<ScanOp::kLogSumExp>);
}

}  // namespace formwork
