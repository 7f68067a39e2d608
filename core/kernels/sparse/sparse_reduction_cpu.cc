// Sums and maxima of a sparse tensor's entries that have the same index but for the reduced
// dimensions, as a dense tensor (0 where there is none) or as a sparse one; softmax over such.

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sort_pieces.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

// The entries in the order of what is left of their indices: those of a group stand together.
struct Groups {
  const int64_t* indices;
  int64_t rank;
  std::vector<int64_t> kept;  // The dimensions that are left.
  std::vector<int64_t> order;

  int Compare(int64_t a, int64_t b) const {
    for (const int64_t d : kept) {
      const int64_t x = indices[a * rank + d], y = indices[b * rank + d];
      if (x != y) return x < y ? -1 : 1;
    }
    return 0;
  }
  // The end of the group that begins at `begin`.
  int64_t EndOf(int64_t begin) const {
    const int64_t n = static_cast<int64_t>(order.size());
    int64_t end = begin + 1;
    while (end < n && !WorkIsCutAt(end) && Compare(At(begin), At(end)) == 0) ++end;
    return end;
  }
  int64_t At(int64_t place) const { return order[static_cast<size_t>(place)]; }
};

absl::StatusOr<Groups> Sort(const Tensor& indices, const ReductionGeometry& geometry) {
  Groups groups = {indices.data<int64_t>(), indices.dim(1), {}, {}};
  for (size_t d = 0; d < geometry.reduced.size(); ++d) {
    if (!geometry.reduced[d]) groups.kept.push_back(static_cast<int64_t>(d));
  }
  FillPositions(groups.order, indices.dim(0));
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  SortPieces(groups.order, [&groups](int64_t a, int64_t b) {
    const int order = groups.Compare(a, b);
    return order < 0 || (order == 0 && a < b);
  });
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  return groups;
}

template <typename T, bool kMax>
T Reduce(const Groups& groups, const T* values, int64_t begin, int64_t end) {
  using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;
  auto total = static_cast<Wide>(values[groups.At(begin)]);
  for (int64_t i = begin + 1; i < end && !WorkIsCutAt(i); ++i) {
    const auto value = static_cast<Wide>(values[groups.At(i)]);
    if constexpr (kMax) {
      // One that is NaN stays.
      if (total < value || value != value) total = value;
    } else {
      total = math::Add(total, value);
    }
  }
  return T(total);
}

// Where in the dense output a group's value stands.
absl::StatusOr<int64_t> PlaceOf(const Groups& groups, int64_t entry, const Tensor& sizes) {
  int64_t flat = 0;
  for (const int64_t d : groups.kept) {
    const int64_t index = groups.indices[entry * groups.rank + d];
    const int64_t size = sizes.data<int64_t>()[d];
    if (index < 0 || index >= size) {
      return InvalidArgument(
          "Index ",
          IndexText({groups.indices + entry * groups.rank, static_cast<size_t>(groups.rank)}),
          " is out of range of shape ", IndexText(sizes.span<int64_t>()));
    }
    flat = flat * size + index;
  }
  return flat;
}

template <typename T, bool kMax>
absl::Status ToDense(KernelContext& ctx, const Groups& groups, const ReductionGeometry& geometry) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
  const int64_t n = static_cast<int64_t>(groups.order.size());
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(ctx.allocator(), ctx.input(1).dtype(), shape));
  ZeroElements(out);
  for (int64_t begin = 0, end; begin < n; begin = end) {
    if (WorkIsCutAt(begin)) return WorkStatus();
    end = groups.EndOf(begin);
    FORMWORK_ASSIGN_OR_RETURN(const int64_t at, PlaceOf(groups, groups.At(begin), ctx.input(2)));
    out.mutable_data<T>()[at] = Reduce<T, kMax>(groups, ctx.input(1).data<T>(), begin, end);
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

template <typename T, bool kMax>
absl::Status ToSparse(KernelContext& ctx, const Groups& groups, const ReductionGeometry& geometry) {
  const int64_t n = static_cast<int64_t>(groups.order.size());
  const int64_t rank = static_cast<int64_t>(geometry.output.size());
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin = groups.EndOf(begin)) {
    if (WorkIsCutAt(begin)) return WorkStatus();
    ++count;
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{count, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values,
                            Tensor::Allocate(ctx.allocator(), ctx.input(1).dtype(), Shape{count}));
  ZeroElements(indices);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  // With keep_dims the dimensions stay where they are, and the reduced ones' index is 0.
  const bool in_place = geometry.output.size() == geometry.reduced.size();
  int64_t* index = indices.mutable_data<int64_t>();
  T* value = values.mutable_data<T>();
  for (int64_t begin = 0, end; begin < n; begin = end, index += rank, ++value) {
    if (WorkIsCutAt(begin)) return WorkStatus();
    end = groups.EndOf(begin);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    for (size_t k = 0; k < groups.kept.size(); ++k) {
      const int64_t d = groups.kept[k];
      index[in_place ? d : static_cast<int64_t>(k)] =
          groups.indices[groups.At(begin) * groups.rank + d];
    }
    *value = Reduce<T, kMax>(groups, ctx.input(1).data<T>(), begin, end);
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  return OutputIntegers(ctx, 2, DType::kInt64, geometry.output);
}

absl::Status CheckEntries(KernelContext& ctx) {
  const Shape& indices = ctx.input(0).shape();
  const Shape& values = ctx.input(1).shape();
  if (values.rank() != 1) {
    return InvalidArgument("vals must be a vec, but got: ", values.ToString());
  }
  if (indices.rank() != 2) {
    return InvalidArgument("indices must be a matrix, but got: ", indices.ToString());
  }
  if (indices.dim(0) != values.dim(0)) {
    return InvalidArgument("indices and values rows (indexing dimension) must match. (indices = ",
                           indices.dim(0), ", values = ", values.dim(0), ")");
  }
  if (indices.dim(1) != ctx.input(2).num_elements()) {
    return InvalidArgument("Order length must be SparseTensor rank.");
  }
  return absl::OkStatus();
}

template <bool kMax, bool kSparse>
absl::StatusOr<KernelFn> MakeReduce(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool keep_dims, init.attrs().Get<bool>("keep_dims"));
  return KernelFn([keep_dims](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ReductionGeometry geometry,
                              PrepareSparseReduction(ctx.input(2), ctx.input(3), keep_dims));
    FORMWORK_RETURN_IF_ERROR(CheckEntries(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Groups groups, Sort(ctx.input(0), geometry));
    const auto run = [&](auto tag) {
      using T = decltype(tag);
      if constexpr (kSparse) return ToSparse<T, kMax>(ctx, groups, geometry);
      return ToDense<T, kMax>(ctx, groups, geometry);
    };
    switch (ctx.input(1).dtype()) {
      FORMWORK_REAL_CASES(return run(T()))
      default:
        break;
    }
    if constexpr (!kMax) {
      switch (ctx.input(1).dtype()) {
        FORMWORK_COMPLEX_CASES(return run(T()))
        default:
          break;
      }
    }
    return Unimplemented("dtype ", DTypeName(ctx.input(1).dtype()), " is not supported");
  });
}

// --- SparseSoftmax ------------------------------------------------------------------------------

// Over the entries that differ in their last index alone. As TensorFlow: of entries that are not in
// order the results are in order all the same.
template <typename T>
absl::Status Softmax(const Groups& groups, const T* values, T* to) {
  using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;
  const int64_t n = static_cast<int64_t>(groups.order.size());
  for (int64_t begin = 0, end; begin < n; begin = end) {
    if (WorkIsCutAt(begin)) return WorkStatus();
    end = groups.EndOf(begin);
    const Wide most = static_cast<Wide>(Reduce<T, true>(groups, values, begin, end));
    Wide total = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      total += std::exp(static_cast<Wide>(values[groups.At(i)]) - most);
    }
    for (int64_t i = begin; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      to[i] = T(std::exp(static_cast<Wide>(values[groups.At(i)]) - most) / total);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSoftmax(KernelContext& ctx) {
  if (ctx.input(0).rank() != 2) {
    return InvalidArgument("Input sp_indices should be a matrix but received shape: ",
                           ctx.input(0).shape().ToString());
  }
  if (ctx.input(1).rank() != 1 || ctx.input(2).rank() != 1) {
    return InvalidArgument("Inputs sp_values and sp_shape should be vectors but received shapes: ",
                           ctx.input(1).shape().ToString(), " and ",
                           ctx.input(2).shape().ToString());
  }
  if (ctx.input(2).dim(0) < 2) {
    return InvalidArgument("Input should have rank >= 2, but received shape: ",
                           IndexText(ctx.input(2).span<int64_t>()));
  }
  return CheckEntries(ctx);
}

absl::StatusOr<KernelFn> MakeSoftmax(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckSoftmax(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(ctx.input(2)));
    const ReductionGeometry all = {ReducedMask(static_cast<size_t>(shape.rank()), false), {}};
    FORMWORK_ASSIGN_OR_RETURN(Groups groups, Sort(ctx.input(0), all));
    groups.kept.pop_back();
    const Tensor& values = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                              Tensor::Allocate(ctx.allocator(), values.dtype(), values.shape()));
    const auto run = [&]() -> absl::Status {
      switch (values.dtype()) {
        FORMWORK_FLOAT_CASES(return Softmax<T>(groups, values.data<T>(), out.mutable_data<T>()))
        default:
          return Unimplemented("dtype ", DTypeName(values.dtype()), " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void AddSparseReductionCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseReduceSum", MakeReduce<false, false>);
  registry.Add("SparseReduceSumSparse", MakeReduce<false, true>);
  registry.Add("SparseReduceMax", MakeReduce<true, false>);
  registry.Add("SparseReduceMaxSparse", MakeReduce<true, true>);
  registry.Add("SparseSoftmax", MakeSoftmax);
}

}  // namespace formwork
