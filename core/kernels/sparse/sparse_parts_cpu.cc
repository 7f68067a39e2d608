// Sparse tensors put together and cut: SparseConcat, SparseSlice and its gradient, SparseSplit.

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sort_pieces.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/ops/dims.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

struct Entries {
  Tensor indices;
  Tensor values;
};

absl::StatusOr<Entries> AllocateEntries(KernelContext& ctx, DType dtype, int64_t n, int64_t rank) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({n, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(ctx.allocator(), dtype, Shape{n}));
  return Entries{std::move(indices), std::move(values)};
}

// Entry i of `to` is entry order[i] of `from`; of the indices `offset` is taken away, where it is
// not empty.
void PickEntries(const Entries& from, const std::vector<int64_t>& order,
                 absl::Span<const int64_t> offset, Entries& to) {
  const int64_t n = static_cast<int64_t>(order.size());
  const int64_t rank = from.indices.dim(1);
  int64_t* index = to.indices.mutable_data<int64_t>();
  for (int64_t i = 0; i < n; ++i, index += rank) {
    if (WorkIsCutAt(i)) return;
    const int64_t* source = from.indices.data<int64_t>() + order[static_cast<size_t>(i)] * rank;
    for (int64_t d = 0; d < rank; ++d) {
      index[d] = source[d] - (offset.empty() ? 0 : offset[static_cast<size_t>(d)]);
    }
  }
  ByElement(from.values.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E* values = static_cast<const E*>(from.values.raw());
    E* out = static_cast<E*>(to.values.mutable_raw());
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i)) return;
      out[i] = values[order[static_cast<size_t>(i)]];
    }
  });
}

// --- SparseConcat -------------------------------------------------------------------------------

struct ConcatGeometry {
  int64_t n;
  Dims starts;  // Of each input, along the axis.
  Dims output;
  int axis;
};

absl::StatusOr<ConcatGeometry> PrepareConcat(KernelContext& ctx, int count, int64_t concat_dim) {
  ConcatGeometry geometry = {};
  for (int i = 0; i < count; ++i) {
    const Tensor &indices = ctx.input(i), &values = ctx.input(count + i);
    const Tensor& sizes = ctx.input(2 * count + i);
    if (indices.rank() != 2) {
      return InvalidArgument("Input indices should be a matrix but received shape ",
                             indices.shape().ToString(), " at position ", i);
    }
    if (values.rank() != 1) {
      return InvalidArgument("Input values should be a vector but received shape ",
                             values.shape().ToString(), " at position ", i);
    }
    if (sizes.rank() != 1) {
      return InvalidArgument("Input shapes should be a vector but received shape ",
                             sizes.shape().ToString(), " at position ", i);
    }
    if (indices.dim(0) != values.dim(0)) {
      return InvalidArgument("indices and values rows (indexing dimension) must match. (indices = ",
                             indices.dim(0), ", values = ", values.dim(0), ")");
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(sizes));
    if (i == 0) {
      geometry.output.assign(shape.dims().begin(), shape.dims().end());
      geometry.axis = FrontAxis(concat_dim, shape.rank());
      if (geometry.axis < 0) {
        return InvalidArgument("Concat dimension must be in range [", -shape.rank(), ", ",
                               shape.rank(), "), got ", concat_dim);
      }
    }
    const int rank = static_cast<int>(geometry.output.size());
    if (shape.rank() != rank) {
      return InvalidArgument("Ranks of all input tensors must match: expected ", rank, " but got ",
                             shape.rank(), " at position ", i);
    }
    if (indices.dim(1) != rank) {
      return InvalidArgument("Index rank (", indices.dim(1), ") and shape rank (", rank,
                             ") do not match");
    }
    geometry.n += indices.dim(0);
    const auto axis = static_cast<size_t>(geometry.axis);
    geometry.starts.push_back(i == 0 ? 0 : geometry.output[axis]);
    if (i == 0) continue;
    for (int d = 0; d < rank; ++d) {
      if (d == geometry.axis || shape.dim(d) == geometry.output[static_cast<size_t>(d)]) continue;
      return InvalidArgument("Input shapes must match: expected ",
                             geometry.output[static_cast<size_t>(d)], " for dimension ", d,
                             " but got ", shape.dim(d), " at position ", i);
    }
    const std::optional<int64_t> sum = CheckedAdd(geometry.output[axis], shape.dim(geometry.axis));
    if (!sum) return InvalidArgument("Encountered overflow from large input shape.");
    geometry.output[axis] = *sum;
  }
  // What is put together is a shape, too.
  FORMWORK_RETURN_IF_ERROR(Shape::Make(geometry.output).status());
  return geometry;
}

absl::StatusOr<Entries> Append(KernelContext& ctx, int count, const ConcatGeometry& geometry) {
  const int64_t rank = static_cast<int64_t>(geometry.output.size());
  FORMWORK_ASSIGN_OR_RETURN(Entries all,
                            AllocateEntries(ctx, ctx.input(count).dtype(), geometry.n, rank));
  int64_t* index = all.indices.mutable_data<int64_t>();
  int64_t at = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t n = ctx.input(i).dim(0);
    const int64_t* from = ctx.input(i).data<int64_t>();
    for (int64_t k = 0; k < n * rank; ++k, ++index) {
      if (WorkIsCutAt(k)) return WorkStatus();
      *index = from[k];
      if (k % rank != geometry.axis) continue;
      const std::optional<int64_t> moved =
          CheckedAdd(from[k], geometry.starts[static_cast<size_t>(i)]);
      if (!moved) {
        return InvalidArgument("Index ", from[k], " of dimension ", geometry.axis,
                               " is out of range at position ", i);
      }
      *index = *moved;
    }
    ByElement(all.values.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      CopyElements(static_cast<const E*>(ctx.input(count + i).raw()), n,
                   static_cast<E*>(all.values.mutable_raw()) + at);
    });
    at += n;
  }
  return all;
}

absl::StatusOr<KernelFn> MakeConcat(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t concat_dim, init.attrs().Get<int64_t>("concat_dim"));
  return KernelFn([concat_dim](KernelContext& ctx) -> absl::Status {
    const int count = ctx.num_inputs() / 3;
    FORMWORK_ASSIGN_OR_RETURN(const ConcatGeometry geometry, PrepareConcat(ctx, count, concat_dim));
    const int64_t rank = static_cast<int64_t>(geometry.output.size());
    FORMWORK_ASSIGN_OR_RETURN(const Entries all, Append(ctx, count, geometry));
    std::vector<int64_t> order;
    FillPositions(order, geometry.n);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const int64_t* indices = all.indices.data<int64_t>();
    SortPieces(order, [indices, rank](int64_t a, int64_t b) {
      const int64_t *x = indices + a * rank, *y = indices + b * rank;
      for (int64_t d = 0; d < rank; ++d) {
        if (x[d] != y[d]) return x[d] < y[d];
      }
      return a < b;
    });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    FORMWORK_ASSIGN_OR_RETURN(Entries sorted,
                              AllocateEntries(ctx, all.values.dtype(), geometry.n, rank));
    PickEntries(all, order, {}, sorted);
    ctx.SetOutput(0, std::move(sorted.indices));
    ctx.SetOutput(1, std::move(sorted.values));
    return OutputIntegers(ctx, 2, DType::kInt64, geometry.output);
  });
}

// --- SparseSlice --------------------------------------------------------------------------------

struct SliceGeometry {
  absl::Span<const int64_t> start;
  Dims end;
  Dims output;
};

absl::StatusOr<SliceGeometry> PrepareSlice(KernelContext& ctx) {
  FORMWORK_RETURN_IF_ERROR(CheckSparse(
      {ctx.input(0).shape().dims(), ctx.input(1).shape().dims(), ctx.input(2).shape().dims()}));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(ctx.input(2)));
  for (int i = 3; i < 5; ++i) {
    const char* name = i == 3 ? "start" : "size";
    if (ctx.input(i).rank() != 1) {
      return InvalidArgument("Input ", name, " should be a vector but received shape ",
                             ctx.input(i).shape().ToString());
    }
    if (ctx.input(i).dim(0) != shape.rank()) {
      return InvalidArgument("Expected ", name, " to be a vector of length ", shape.rank(),
                             " but got length ", ctx.input(i).dim(0));
    }
  }
  SliceGeometry geometry = {ctx.input(3).span<int64_t>(), {}, {}};
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t start = geometry.start[static_cast<size_t>(d)];
    const int64_t size = ctx.input(4).data<int64_t>()[d];
    if (size < 0) return InvalidArgument("Expected a non-negative size, got ", size);
    geometry.end.push_back(CheckedAdd(start, size).value_or(std::numeric_limits<int64_t>::max()));
    const int64_t left = start < shape.dim(d) - size ? size : shape.dim(d) - start;
    geometry.output.push_back(start < shape.dim(d) ? left : 0);
  }
  return geometry;
}

absl::StatusOr<KernelFn> MakeSlice(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const SliceGeometry geometry, PrepareSlice(ctx));
    const Entries from = {ctx.input(0), ctx.input(1)};
    const int64_t rank = from.indices.dim(1);
    const int64_t* index = from.indices.data<int64_t>();
    std::vector<int64_t> within;
    for (int64_t i = 0; i < from.indices.dim(0); ++i, index += rank) {
      if (WorkIsCutAt(i)) return WorkStatus();
      bool inside = true;
      for (size_t d = 0; d < geometry.end.size(); ++d) {
        inside = inside && index[d] >= geometry.start[d] && index[d] < geometry.end[d];
      }
      if (inside) within.push_back(i);
    }
    FORMWORK_ASSIGN_OR_RETURN(
        Entries cut,
        AllocateEntries(ctx, from.values.dtype(), static_cast<int64_t>(within.size()), rank));
    PickEntries(from, within, geometry.start, cut);
    ctx.SetOutput(0, std::move(cut.indices));
    ctx.SetOutput(1, std::move(cut.values));
    return OutputIntegers(ctx, 2, DType::kInt64, geometry.output);
  });
}

absl::Status CheckSliceGrad(KernelContext& ctx) {
  const Shape &grad = ctx.input(0).shape(), &input = ctx.input(1).shape();
  const Shape &start = ctx.input(2).shape(), &output = ctx.input(3).shape();
  if (input.rank() != 2 || output.rank() != 2) {
    return InvalidArgument("Input and output indices should be matrices but received shapes: ",
                           input.ToString(), " and ", output.ToString());
  }
  if (grad.rank() != 1) {
    return InvalidArgument("Input backprop_val_grad should be a vector but received shape: ",
                           grad.ToString());
  }
  if (input.dim(1) != output.dim(1)) {
    return InvalidArgument("The input and output should have the same ndims: got: ", input.dim(1),
                           " and ", output.dim(1));
  }
  if (output.dim(0) != grad.dim(0)) {
    return InvalidArgument(
        "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): "
        "got ",
        grad.dim(0), " and ", output.dim(0));
  }
  if (start.rank() != 1) {
    return InvalidArgument("The input_start should be a vector but received shape ",
                           start.ToString());
  }
  if (start.dim(0) != input.dim(1)) {
    return InvalidArgument("Expected input_start to be a vector of length ", input.dim(1),
                           " but got length ", start.dim(0));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSliceGrad(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckSliceGrad(ctx));
    const Tensor& grad = ctx.input(0);
    const int64_t n = ctx.input(1).dim(0), rank = ctx.input(1).dim(1);
    const int64_t* start = ctx.input(2).data<int64_t>();
    const int64_t* index = ctx.input(1).data<int64_t>();
    const int64_t* kept = ctx.input(3).data<int64_t>();
    FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                              Tensor::Allocate(ctx.allocator(), grad.dtype(), Shape{n}));
    ZeroElements(out);
    const size_t width = DTypeSize(grad.dtype());
    int64_t used = 0;
    for (int64_t i = 0; i < n && used < grad.num_elements(); ++i, index += rank) {
      if (WorkIsCutAt(i)) return WorkStatus();
      bool same = true;
      for (int64_t d = 0; d < rank; ++d) same = same && index[d] == math::Add(kept[d], start[d]);
      if (!same) continue;
      std::memcpy(ElementAt(out.dtype(), out.mutable_raw(), i),
                  ElementAt(grad.dtype(), grad.raw(), used), width);
      ++used;
      kept += rank;
    }
    if (used != grad.num_elements()) {
      return InvalidArgument("Elements of backprop_val_grad aren't all propagated. Num elements:",
                             grad.num_elements(), ", used: ", used);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

// --- SparseSplit --------------------------------------------------------------------------------

// The first `larger` parts have `size` + 1 of the dimension, the rest `size`.
struct SplitGeometry {
  int axis;
  int64_t size;
  int64_t larger;
  Dims dims;

  int64_t PartOf(int64_t index) const {
    const int64_t in_larger = larger * (size + 1);
    return index < in_larger ? index / (size + 1) : larger + (index - in_larger) / size;
  }
  int64_t StartOf(int64_t part) const { return part * size + std::min(part, larger); }
};

absl::StatusOr<SplitGeometry> PrepareSplit(KernelContext& ctx, int64_t num_split) {
  const Tensor& split_dim = ctx.input(0);
  const Tensor &indices = ctx.input(1), &values = ctx.input(2), &sizes = ctx.input(3);
  if (split_dim.rank() != 0) {
    return InvalidArgument("Input axis should be a scalar but received shape ",
                           split_dim.shape().ToString());
  }
  if (indices.rank() != 2) {
    return InvalidArgument("Input indices should be a matrix but received shape ",
                           indices.shape().ToString());
  }
  if (values.rank() != 1) {
    return InvalidArgument("Input values should be a vector but received shape ",
                           values.shape().ToString());
  }
  if (sizes.rank() != 1) {
    return InvalidArgument("Input shape should be a vector but received shape ",
                           sizes.shape().ToString());
  }
  FORMWORK_RETURN_IF_ERROR(
      CheckSparse({indices.shape().dims(), values.shape().dims(), sizes.shape().dims()}));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(sizes));
  const int64_t given = split_dim.scalar<int64_t>();
  const int axis = FrontAxis(given, shape.rank());
  if (axis < 0) {
    return InvalidArgument("Input axis should be in range [", -shape.rank(), ", ", shape.rank(),
                           "), got ", given);
  }
  if (num_split > shape.dim(axis)) {
    return InvalidArgument("Input num_split should be between 1 and the splitting dimension size (",
                           shape.dim(axis), "), got ", num_split);
  }
  return SplitGeometry{axis, shape.dim(axis) / num_split, shape.dim(axis) % num_split,
                       Dims(shape.dims().begin(), shape.dims().end())};
}

absl::StatusOr<KernelFn> MakeSplit(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t num_split, init.attrs().Get<int64_t>("num_split"));
  return KernelFn([num_split](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const SplitGeometry geometry, PrepareSplit(ctx, num_split));
    const Entries from = {ctx.input(1), ctx.input(2)};
    FORMWORK_RETURN_IF_ERROR(CheckIndexTuples(from.indices, geometry.dims));
    const int64_t rank = from.indices.dim(1);
    const int64_t* index = from.indices.data<int64_t>();
    std::vector<std::vector<int64_t>> parts(static_cast<size_t>(num_split));
    for (int64_t i = 0; i < from.indices.dim(0); ++i, index += rank) {
      if (WorkIsCutAt(i)) return WorkStatus();
      parts[static_cast<size_t>(geometry.PartOf(index[geometry.axis]))].push_back(i);
    }
    Dims dims = geometry.dims;
    Dims offset(static_cast<size_t>(rank), 0);
    for (int64_t p = 0; p < num_split; ++p) {
      if (WorkIsCutAt(p, kDearItems)) return WorkStatus();
      const std::vector<int64_t>& order = parts[static_cast<size_t>(p)];
      FORMWORK_ASSIGN_OR_RETURN(
          Entries part,
          AllocateEntries(ctx, from.values.dtype(), static_cast<int64_t>(order.size()), rank));
      const auto axis = static_cast<size_t>(geometry.axis);
      offset[axis] = geometry.StartOf(p);
      dims[axis] = geometry.StartOf(p + 1) - offset[axis];
      PickEntries(from, order, offset, part);
      const int at = static_cast<int>(p), n = static_cast<int>(num_split);
      ctx.SetOutput(at, std::move(part.indices));
      ctx.SetOutput(n + at, std::move(part.values));
      FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, 2 * n + at, DType::kInt64, dims));
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status CheckIndexTuples(const Tensor& indices, absl::Span<const int64_t> dims) {
  const int64_t* index = indices.data<int64_t>();
  const int64_t rank = indices.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i, index += rank) {
    if (WorkIsCutAt(i)) return WorkStatus();
    for (int64_t d = 0; d < rank; ++d) {
      if (index[d] >= 0 && index[d] < dims[static_cast<size_t>(d)]) continue;
      return InvalidArgument("Sparse index tuple indices[", i,
                             ", :] = ", IndexText({index, static_cast<size_t>(rank)}),
                             " is out of bounds");
    }
  }
  return absl::OkStatus();
}

void AddSparsePartsCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseConcat", MakeConcat);
  registry.Add("SparseSlice", MakeSlice);
  registry.Add("SparseSliceGrad", MakeSliceGrad);
  registry.Add("SparseSplit", MakeSplit);
}

}  // namespace formwork
