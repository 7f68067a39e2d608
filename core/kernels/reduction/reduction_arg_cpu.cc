#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/reduction/reduction.h"

namespace formwork {
namespace {

constexpr int64_t kChunk = 128;       // Columns at a time.
constexpr int64_t kTask = 32 * 1024;  // Elements worth a task.

template <typename T>
using Comparable =
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float, T>;

// NaN is never larger or smaller, and the lowest number neither: TensorFlow begins with it.
template <typename T, bool kMax>
struct Best {
  using C = Comparable<T>;
  static C First() {
    return kMax ? std::numeric_limits<C>::lowest() : std::numeric_limits<C>::max();
  }
  static bool Beats(C x, C best) { return kMax ? x > best : x < best; }
};

template <typename T, bool kMax, typename Index>
void ArgReduce(const ReduceExtent& e, const void* x_raw, void* out_raw) {
  using B = Best<T, kMax>;
  using C = Comparable<T>;
  const T* x = static_cast<const T*>(x_raw);
  Index* out = static_cast<Index*>(out_raw);
  if (e.inner == 1) {
    ParallelFor(e.outer, std::max<int64_t>(kTask / e.reduced, 1), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* row = x + o * e.reduced;
        C best = B::First();
        int64_t at = 0;
        for (int64_t r = 0; r < e.reduced; ++r) {
          if (WorkIsCutAt(r)) return;
          const C value = static_cast<C>(row[r]);
          if (B::Beats(value, best)) {
            best = value;
            at = r;
          }
        }
        out[o] = static_cast<Index>(at);
      }
    });
    return;
  }
  const int64_t chunks = (e.inner + kChunk - 1) / kChunk;
  const int64_t item_elements = std::min(kChunk, e.inner) * e.reduced;
  ParallelFor(e.outer * chunks, std::max<int64_t>(kTask / item_elements, 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t item = begin; item < end; ++item) {
                  const int64_t o = item / chunks;
                  const int64_t c = item % chunks * kChunk;
                  const int64_t columns = std::min(kChunk, e.inner - c);
                  C best[kChunk];
                  int64_t at[kChunk];
                  for (int64_t i = 0; i < columns; ++i) {
                    best[i] = B::First();
                    at[i] = 0;
                  }
                  for (int64_t r = 0; r < e.reduced; ++r) {
                    if (WorkIsCutAt(r)) return;
                    const T* row = x + (o * e.reduced + r) * e.inner + c;
                    for (int64_t i = 0; i < columns; ++i) {
                      const C value = static_cast<C>(row[i]);
                      const bool beats = B::Beats(value, best[i]);
                      best[i] = beats ? value : best[i];
                      at[i] = beats ? r : at[i];
                    }
                  }
                  Index* to = out + o * e.inner + c;
                  for (int64_t i = 0; i < columns; ++i) to[i] = static_cast<Index>(at[i]);
                }
              });
}

template <typename T, bool kMax>
ReduceFn OfIndex(DType index) {
  switch (index) {
    case DType::kInt16:
    case DType::kUint16:
      return ArgReduce<T, kMax, uint16_t>;  // The same bits.
    case DType::kInt32:
      return ArgReduce<T, kMax, int32_t>;
    case DType::kInt64:
      return ArgReduce<T, kMax, int64_t>;
    default:
      return nullptr;
  }
}

template <bool kMax>
ReduceFn FindArgReduction(DType dtype, DType index) {
  switch (dtype) {
    FORMWORK_REAL_CASES(return OfIndex<T, kMax>(index))
    FORMWORK_CASE(bool, return OfIndex<T, kMax>(index))
    default:
      return nullptr;
  }
}

template <bool kMax>
absl::StatusOr<KernelFn> MakeArgReduction(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const DType index = init.output_dtypes()[0];
  const ReduceFn reduce = FindArgReduction<kMax>(dtype, index);
  if (reduce == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([reduce, index](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(ArgReductionGeometry geometry,
                              PrepareArgReduction(x.shape().dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, index, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    reduce(ExtentAlong(x.shape().dims(), geometry.axis), x.raw(), out->mutable_raw());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArgReductionKernels(KernelRegistry& registry) {
  registry.Add("ArgMax", MakeArgReduction<true>);
  registry.Add("ArgMin", MakeArgReduction<false>);
}

}  // namespace formwork
