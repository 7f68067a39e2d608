#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/radix_sort.h"
#include "core/kernels/sort_pieces.h"
#include "core/ops/host_values.h"
#include "core/ops/nn.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 8 * 1024;  // Elements worth a task.

template <typename T>
using Comparable =
    std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float, T>;

// As TensorFlow compares for k < n: NaN equals anything. No order, which a heap survives.
template <typename T>
struct BeforeInHeap {
  const T* row;
  bool operator()(int64_t a, int64_t b) const {
    const auto x = static_cast<Comparable<T>>(row[a]);
    const auto y = static_cast<Comparable<T>>(row[b]);
    return y < x || (!(y > x) && a < b);
  }
};

// The first largest; NaN counts as smallest, as in TensorFlow for k = 1.
template <typename T>
int64_t Largest(const T* row, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (WorkIsCutAt(i)) return best;
    const auto x = static_cast<Comparable<T>>(row[i]);
    const auto y = static_cast<Comparable<T>>(row[best]);
    if (x > y || (y != y && x == x)) best = i;
  }
  return best;
}

// As std::make_heap and std::sort_heap of libstdc++, whose order clients can see; these can be
// stopped.
template <typename Less>
void MakeHeap(std::vector<int64_t>& heap, Less before) {
  const int64_t n = static_cast<int64_t>(heap.size());
  for (int64_t top = n / 2; top-- > 0;) {
    if (WorkIsCutAt(top)) return;
    const int64_t value = heap[top];
    int64_t hole = top;
    for (int64_t child = 2 * hole + 2; child <= n; child = 2 * hole + 2) {
      if (child == n || before(heap[child], heap[child - 1])) --child;
      heap[hole] = heap[child];
      hole = child;
    }
    for (int64_t parent = (hole - 1) / 2; hole > top && before(heap[parent], value);
         parent = (hole - 1) / 2) {
      heap[hole] = heap[parent];
      hole = parent;
    }
    heap[hole] = value;
  }
}
template <typename Less>
void SortHeap(std::vector<int64_t>& heap, Less before) {
  for (auto end = heap.end(); end - heap.begin() > 1; --end) {
    if (WorkIsCutAt(end - heap.begin())) return;
    std::pop_heap(heap.begin(), end, before);
  }
}

// The positions of the k largest of n > k by TensorFlow's way, a heap of k whose smallest is in
// front and makes room for a larger one: clients see the heap's own order where none is asked for,
// and where NaN is among the values it decides what is kept.
template <typename T>
void HeapOfLargest(const T* row, int64_t n, int64_t k, bool sorted, std::vector<int64_t>& order) {
  const BeforeInHeap<T> before{row};
  FillPositions(order, k + 1);
  MakeHeap(order, before);
  if (!WorkStatus().ok()) return;
  std::pop_heap(order.begin(), order.end(), before);
  order.pop_back();
  for (int64_t i = k + 1; i < n; ++i) {
    if (WorkIsCutAt(i)) return;
    if (!before(i, order.front())) continue;
    std::pop_heap(order.begin(), order.end(), before);
    order.back() = i;
    std::push_heap(order.begin(), order.end(), before);
  }
  if (sorted) SortHeap(order, before);
}

// Sorts whole rows: larger values first, NaN before them, then lower indices.
template <typename T, typename Index>
class RowSorter {
 public:
  void Sort(const T* row, int64_t n, T* values, Index* indices) {
    Order(row, n);
    if (!WorkStatus().ok()) return;
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i)) return;
      const auto at = items_[static_cast<size_t>(i)].index;
      values[i] = row[at];
      indices[i] = static_cast<Index>(at);
    }
  }
  // The element that would stand there.
  T At(const T* row, int64_t n, int64_t place) {
    Order(row, n);
    return WorkStatus().ok() ? row[items_[static_cast<size_t>(place)].index] : T{};
  }

 private:
  using Item = Keyed<KeyOf<T>>;

  void Order(const T* row, int64_t n) {
    items_.clear();
    items_.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i)) return;
      items_.push_back({DescendingKey(row[i]), static_cast<decltype(Item::index)>(i)});
    }
    RadixSort(items_, room_);
  }

  std::vector<Item> items_, room_;
};

using TopKFn = void (*)(int64_t rows, int64_t n, int64_t k, bool sorted, const void* x,
                        void* values, void* indices);

template <typename T, typename Index>
void TopK(int64_t rows, int64_t n, int64_t k, bool sorted, const void* x_raw, void* values_raw,
          void* indices_raw) {
  const T* x = static_cast<const T*>(x_raw);
  T* values = static_cast<T*>(values_raw);
  Index* indices = static_cast<Index*>(indices_raw);
  ParallelFor(rows, std::max<int64_t>(kTask / n, 1), [&](int64_t begin, int64_t end) {
    std::vector<int64_t> order;
    RowSorter<T, Index> sorter;
    for (int64_t r = begin; r < end && !WorkIsCut(); ++r) {
      const T* row = x + r * n;
      if (k == 1) {
        const int64_t at = Largest(row, n);
        values[r] = row[at];
        indices[r] = static_cast<Index>(at);
        continue;
      }
      if (k == n) {
        sorter.Sort(row, n, values + r * n, indices + r * n);
        continue;
      }
      HeapOfLargest(row, n, k, sorted, order);
      if (!WorkStatus().ok()) return;
      for (int64_t i = 0; i < k; ++i) {
        if (WorkIsCutAt(i)) return;
        values[r * k + i] = row[order[i]];
        indices[r * k + i] = static_cast<Index>(order[i]);
      }
    }
  });
}

template <typename T>
TopKFn OfIndex(DType index) {
  switch (index) {
    case DType::kInt16:
      return TopK<T, int16_t>;
    case DType::kInt32:
      return TopK<T, int32_t>;
    case DType::kInt64:
      return TopK<T, int64_t>;
    default:
      return nullptr;
  }
}

TopKFn FindTopK(DType dtype, DType index) {
  switch (dtype) {
    FORMWORK_REAL_CASES(return OfIndex<T>(index))
    default:
      return nullptr;
  }
}

absl::StatusOr<KernelFn> MakeTopK(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const DType index = init.output_dtypes()[1];
  const TopKFn top = FindTopK(dtype, index);
  if (top == nullptr) {
    return Unimplemented("TopKV2: dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const bool sorted, init.attrs().Get<bool>("sorted"));
  return KernelFn([top, index, sorted](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TopKGeometry geometry,
                              PrepareTopK(x.shape().dims(), &ctx.input(1)));
    const int64_t k = geometry.k;
    if (k > std::numeric_limits<uint32_t>::max()) {
      return Unimplemented("TopKV2: k=", k, " of more than 2^32 - 1");
    }
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(0, x.dtype(), shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(1, index, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    top(shape.num_elements() / k, geometry.columns, k, sorted, x.raw(), values->mutable_raw(),
        indices->mutable_raw());
    return absl::OkStatus();
  });
}

// ApproxTopK, exactly: the k largest, or smallest, along any dimension. Where TensorFlow's compiler
// would leave more than k for the caller to choose from (aggregate_to_topk is false) these are the
// k, as its CPU kernel has it.
template <typename T>
absl::Status ApproxTopK(KernelContext& ctx, const ApproxTopKAttrs& attrs) {
  const Tensor& x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const ApproxTopKGeometry geometry,
                            PrepareApproxTopK(attrs, x.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(0, x.dtype(), shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(1, DType::kInt32, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t n = x.dim(geometry.dimension), k = attrs.k;
  const int64_t rows = shape.num_elements() / k;
  int64_t inner = 1;
  for (int d = geometry.dimension + 1; d < x.rank(); ++d) inner *= x.dim(d);
  if (inner == 1 && attrs.largest) {
    TopK<T, int32_t>(rows, n, k, /*sorted=*/true, x.raw(), values->mutable_raw(),
                     indices->mutable_raw());
    return absl::OkStatus();
  }
  // Each line by itself, negated where the smallest are wanted.
  FORMWORK_ASSIGN_OR_RETURN(Tensor lines,
                            Tensor::Allocate(ctx.allocator(), x.dtype(), Shape{rows, n}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor best,
                            Tensor::Allocate(ctx.allocator(), x.dtype(), Shape{rows, k}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor at,
                            Tensor::Allocate(ctx.allocator(), DType::kInt32, Shape{rows, k}));
  const bool largest = attrs.largest;
  const T* from = x.data<T>();
  T* line = lines.mutable_data<T>();
  ForBlocks(rows * n, kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / n;
      const T value = from[(row / inner * n + i % n) * inner + row % inner];
      line[i] = largest ? value : static_cast<T>(-static_cast<float>(value));
    }
  });
  TopK<T, int32_t>(rows, n, k, /*sorted=*/true, line, best.mutable_raw(), at.mutable_raw());
  ForBlocks(rows * k, kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / k, to = (row / inner * k + i % k) * inner + row % inner;
      const T value = best.data<T>()[i];
      values->mutable_data<T>()[to] = largest ? value : static_cast<T>(-static_cast<float>(value));
      indices->mutable_data<int32_t>()[to] = at.data<int32_t>()[i];
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeApproxTopK(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ApproxTopKAttrs attrs, ApproxTopKAttrs::FromAttrs(init.attrs()));
  switch (init.input_dtypes()[0]) {
    case DType::kHalf:
      return KernelFn([attrs](KernelContext& ctx) { return ApproxTopK<half>(ctx, attrs); });
    case DType::kBfloat16:
      return KernelFn([attrs](KernelContext& ctx) { return ApproxTopK<bfloat16>(ctx, attrs); });
    default:
      return KernelFn([attrs](KernelContext& ctx) { return ApproxTopK<float>(ctx, attrs); });
  }
}

// Whether the target is among the k largest; no where a prediction on the way is not finite.
bool InTop(const float* row, int64_t n, int64_t target, int64_t k) {
  if (target < 0 || target >= n || !std::isfinite(row[target])) return false;
  int64_t larger = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i) || !std::isfinite(row[i])) return false;
    if (row[i] > row[target]) ++larger;
  }
  return larger < k;
}

// Of InTopK k is an attr, of InTopKV2 an input.
absl::StatusOr<KernelFn> MakeInTopK(KernelInit& init) {
  const int64_t attr = init.attrs().GetOr<int64_t>("k", 0);
  return KernelFn([attr](KernelContext& ctx) -> absl::Status {
    const Tensor given = ctx.num_inputs() > 2 ? ctx.input(2) : Tensor::Scalar(attr);
    const Tensor& predictions = ctx.input(0);
    const Tensor& targets = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(
        CheckInTopK(predictions.shape().dims(), targets.shape().dims(), given.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(int64_t k, IntegerFromTensor(given, "k"));
    const int64_t n = predictions.dim(1);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kBool, targets.shape()));
    const int64_t grain = std::max<int64_t>(kTask / std::max<int64_t>(n, 1), 1);
    ParallelFor(targets.num_elements(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t target = targets.dtype() == DType::kInt32
                                   ? int64_t{targets.data<int32_t>()[r]}
                                   : targets.data<int64_t>()[r];
        out->mutable_data<bool>()[r] = InTop(predictions.data<float>() + r * n, n, target, k);
      }
    });
    return absl::OkStatus();
  });
}

// The nth of each row in order; NaN is the largest, where TensorFlow finds any.
template <typename T>
absl::Status NthElement(KernelContext& ctx, bool reverse) {
  const Tensor input = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const NthElementGeometry s,
                            PrepareNthElement(input.shape().dims(), &ctx.input(1)));
  if (s.columns > std::numeric_limits<uint32_t>::max()) {
    return Unimplemented("NthElement: rows of more than 2^32 - 1 elements");
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const values,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, Shape::Trusted(s.output)));
  const int64_t place = reverse ? s.n : s.columns - 1 - s.n;
  T* const to = values->mutable_data<T>();
  ParallelFor(values->num_elements(), std::max<int64_t>(kTask / s.columns, 1),
              [&](int64_t begin, int64_t end) {
                RowSorter<T, int32_t> sorter;
                for (; begin < end && !WorkIsCut(); ++begin) {
                  to[begin] = sorter.At(input.data<T>() + begin * s.columns, s.columns, place);
                }
              });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeNthElement(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool reverse, init.attrs().Get<bool>("reverse"));
  const DType dtype = init.input_dtypes()[0];
  switch (dtype) {
    FORMWORK_REAL_CASES(
        return KernelFn([reverse](KernelContext& ctx) { return NthElement<T>(ctx, reverse); }))
    default:
      return Unimplemented("NthElement: dtype ", DTypeName(dtype), " is not supported");
  }
}

}  // namespace

void RegisterTopKKernels(KernelRegistry& registry) {
  registry.Add("TopKV2", MakeTopK);
  registry.Add("ApproxTopK", MakeApproxTopK);
  registry.Add("InTopK", MakeInTopK);
  registry.Add("InTopKV2", MakeInTopK);
  registry.Add("NthElement", MakeNthElement);
}

}  // namespace formwork
