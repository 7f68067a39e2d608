// Sparse matrices from sparse and dense tensors, and back; their parts.

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/kernels/variant/csr_matrix.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/sparse.h"
#include "core/ops/sparse_matrix.h"

namespace formwork {
namespace {

// --- SparseTensorToCSRSparseMatrix, SparseMatrixZeros ------------------------------------------

absl::StatusOr<KernelFn> MakeFromSparse(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor indices = ctx.input(0), values = ctx.input(1), sizes = ctx.input(2);
    if (indices.rank() != 2) {
      return InvalidArgument("Sparse indices must be rank 2 but is rank ", indices.rank());
    }
    if (values.rank() != 1) {
      return InvalidArgument("Sparse values must be rank 1 but is rank ", values.rank());
    }
    if (sizes.rank() != 1) {
      return InvalidArgument("Sparse shape must be rank 1 but is rank ", sizes.rank());
    }
    if (indices.dim(0) != values.dim(0)) {
      return InvalidArgument("Number of elements in indices (", indices.dim(0), ") and values (",
                             values.dim(0), ") do not match");
    }
    if (indices.dim(1) != sizes.dim(0)) {
      return InvalidArgument("Index rank (", indices.dim(1), ") and shape rank (", sizes.dim(0),
                             ") do not match");
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(sizes));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix,
                              CsrFromEntries(ctx.allocator(), indices, values, shape));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(matrix)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeZeros(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& sizes = ctx.input(0);
    if (sizes.rank() != 1 || (sizes.dim(0) != 2 && sizes.dim(0) != 3)) {
      return InvalidArgument("dense_shape must be a vector of 2 or 3 sizes, but saw shape: ",
                             sizes.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, DenseShapeOf(sizes));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix,
                              NewCsrMatrix(ctx.allocator(), shape));
    FORMWORK_RETURN_IF_ERROR(AllocateEntries(ctx.allocator(), dtype, 0, *matrix));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(matrix)));
    return absl::OkStatus();
  });
}

// --- DenseToCSRSparseMatrix ---------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeFromDense(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor dense = ctx.input(0), indices = ctx.input(1);
    const int64_t rank = dense.rank();
    if (rank != 2 && rank != 3) {
      return InvalidArgument("params must have rank == 2 or 3; but saw shape: ",
                             dense.shape().ToString());
    }
    if (indices.rank() != 2) {
      return InvalidArgument("indices must be a matrix, but saw shape: ",
                             indices.shape().ToString());
    }
    if (indices.dim(1) != rank) {
      return InvalidArgument("indices.shape[1] must be equal to the rank of params, but saw: ",
                             indices.dim(1), " vs. ", rank);
    }
    const int64_t n = indices.dim(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor values,
                              Tensor::Allocate(ctx.allocator(), dense.dtype(), Shape{n}));
    const Dims strides = RowMajorStrides(dense.shape());
    const int64_t* index = indices.data<int64_t>();
    FORMWORK_RETURN_IF_ERROR(ByElement(dense.dtype(), [&](auto tag) -> absl::Status {
      using E = typename decltype(tag)::type;
      const E* from = static_cast<const E*>(dense.raw());
      E* to = static_cast<E*>(values.mutable_raw());
      for (int64_t i = 0; i < n; ++i) {
        if (WorkIsCutAt(i)) return WorkStatus();
        int64_t at = 0;
        for (int64_t d = 0; d < rank; ++d) {
          const int64_t position = index[i * rank + d];
          if (position < 0 || position >= dense.dim(static_cast<int>(d))) {
            return InvalidArgument("indices[", i, "] = [",
                                   absl::StrJoin(absl::MakeConstSpan(index + i * rank, rank), ", "),
                                   "] does not index into param shape ", dense.shape().ToString());
          }
          at += position * strides[static_cast<size_t>(d)];
        }
        to[i] = from[at];
      }
      return absl::OkStatus();
    }));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix,
                              CsrFromEntries(ctx.allocator(), indices, values, dense.shape()));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(matrix)));
    return absl::OkStatus();
  });
}

// --- CSRSparseMatrixToSparseTensor, CSRSparseMatrixToDense ---------------------------------------

absl::StatusOr<KernelFn> MakeToSparse(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr matrix, CsrMatrixOf(ctx.input(0), 0));
    if (matrix->dtype() != dtype) {
      return InvalidArgument("Expected a CSRSparseMatrix of type ", GraphDTypeName(dtype),
                             " but saw type: ", GraphDTypeName(matrix->dtype()));
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor indices, IndicesOf(ctx.allocator(), *matrix));
    ctx.SetOutput(0, std::move(indices));
    ctx.SetOutput(1, matrix->values);
    return OutputIntegers(ctx, 2, DType::kInt64, matrix->shape.dims());
  });
}

absl::StatusOr<KernelFn> MakeToDense(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr matrix, CsrMatrixOf(ctx.input(0), 0));
    if (matrix->dtype() != dtype) {
      return InvalidArgument("Asked for a CSRSparseMatrix of type ", GraphDTypeName(dtype),
                             " but saw dtype: ", GraphDTypeName(matrix->dtype()));
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * dense, ctx.AllocateOutput(0, dtype, matrix->shape));
    ZeroElements(*dense);
    return ByElement(dtype, [&](auto tag) -> absl::Status {
      using E = typename decltype(tag)::type;
      const E* from = static_cast<const E*>(matrix->values.raw());
      const int32_t* columns = matrix->columns.data<int32_t>();
      E* to = static_cast<E*>(dense->mutable_raw());
      for (int64_t row = 0; row < matrix->all_rows(); ++row) {
        if (WorkIsCutAt(row)) return WorkStatus();
        // Of entries with the same place the last one stays.
        for (int64_t i = matrix->begin(row); i < matrix->end(row); ++i) {
          if (WorkIsCutAt(i)) return WorkStatus();
          to[row * matrix->cols() + columns[i]] = from[i];
        }
      }
      return absl::OkStatus();
    });
  });
}

// --- CSRSparseMatrixComponents, SparseMatrixNNZ --------------------------------------------------

absl::StatusOr<Tensor> Part(Allocator& allocator, const Tensor& all, int64_t begin, int64_t n) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(allocator, all.dtype(), Shape{n}));
  ByElement(all.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    CopyElements(static_cast<const E*>(all.raw()) + begin, n, static_cast<E*>(part.mutable_raw()));
  });
  return part;
}

absl::StatusOr<KernelFn> MakeComponents(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr matrix, CsrMatrixOf(ctx.input(0), 0));
    if (matrix->dtype() != dtype) {
      return InvalidArgument("dtype of input is not equal to 'type': ",
                             GraphDTypeName(matrix->dtype()), " vs. ", GraphDTypeName(dtype));
    }
    if (ctx.input(1).rank() != 0) {
      return InvalidArgument("index should be a scalar, but saw: ", ctx.input(1).DebugString());
    }
    const int64_t index = ctx.input(1).scalar<int32_t>();
    if (index < 0 || index >= matrix->batch()) {
      return InvalidArgument("index (", index, ") not in [0, ", matrix->batch(), ")");
    }
    const int64_t rows = matrix->rows();
    const auto first = static_cast<int32_t>(matrix->begin(index * rows));
    const int64_t n = matrix->begin((index + 1) * rows) - first;
    FORMWORK_ASSIGN_OR_RETURN(Tensor starts,
                              Part(ctx.allocator(), matrix->starts, index * rows, rows + 1));
    int32_t* start = starts.mutable_data<int32_t>();
    ForBlocks(rows + 1, kCheapItems, [start, first](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) start[i] -= first;
    });
    FORMWORK_ASSIGN_OR_RETURN(Tensor columns, Part(ctx.allocator(), matrix->columns, first, n));
    FORMWORK_ASSIGN_OR_RETURN(Tensor values, Part(ctx.allocator(), matrix->values, first, n));
    ctx.SetOutput(0, std::move(starts));
    ctx.SetOutput(1, std::move(columns));
    ctx.SetOutput(2, std::move(values));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeCount(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr matrix, CsrMatrixOf(ctx.input(0), 0));
    const Shape shape = matrix->shape.rank() == 2 ? Shape() : Shape{matrix->batch()};
    FORMWORK_ASSIGN_OR_RETURN(Tensor * counts, ctx.AllocateOutput(0, DType::kInt32, shape));
    int32_t* to = counts->mutable_data<int32_t>();
    ForBlocks(matrix->batch(), kCheapItems, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        to[b] = static_cast<int32_t>(matrix->begin((b + 1) * matrix->rows()) -
                                     matrix->begin(b * matrix->rows()));
      }
    });
    return absl::OkStatus();
  });
}

// --- SparseMatrixTranspose ----------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeTranspose(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  FORMWORK_ASSIGN_OR_RETURN(const bool conjugate, init.attrs().Get<bool>("conjugate"));
  return KernelFn([dtype, conjugate](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr matrix, CsrMatrixOf(ctx.input(0), 0));
    if (matrix->dtype() != dtype) {
      return InvalidArgument("dtype of input is not equal to 'type': ",
                             GraphDTypeName(matrix->dtype()), " vs. ", GraphDTypeName(dtype));
    }
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> turned,
                              TransposedCsr(ctx.allocator(), *matrix, conjugate));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(turned)));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterSparseMatrixCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseTensorToCSRSparseMatrix", MakeFromSparse);
  registry.Add("CSRSparseMatrixToSparseTensor", MakeToSparse);
  registry.Add("DenseToCSRSparseMatrix", MakeFromDense);
  registry.Add("CSRSparseMatrixToDense", MakeToDense);
  registry.Add("CSRSparseMatrixComponents", MakeComponents);
  registry.Add("SparseMatrixNNZ", MakeCount);
  registry.Add("SparseMatrixZeros", MakeZeros);
  registry.Add("SparseMatrixTranspose", MakeTranspose);
  AddCsrArithmeticCpuKernels(registry);
}

}  // namespace formwork
