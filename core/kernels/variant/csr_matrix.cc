#include "core/kernels/variant/csr_matrix.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/ops/sparse_matrix.h"

namespace formwork {
namespace {

// Where the row of an entry stands among all rows; -1 where the entry is out of bounds.
int64_t RowOf(const CsrMatrix& matrix, const int64_t* index) {
  const absl::Span<const int64_t> dims = matrix.shape.dims();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (index[d] < 0 || index[d] >= dims[d]) return -1;
  }
  return dims.size() == 2 ? index[0] : index[0] * dims[1] + index[1];
}

void Conjugate(Tensor& values) {
  ForBlocks(values.num_elements(), kCheapItems, [&](int64_t begin, int64_t end) {
    const auto run = [begin, end](auto* at) {
      for (int64_t i = begin; i < end; ++i) at[i] = std::conj(at[i]);
    };
    if (values.dtype() == DType::kComplex64) run(values.mutable_data<std::complex<float>>());
    if (values.dtype() == DType::kComplex128) run(values.mutable_data<std::complex<double>>());
  });
}

}  // namespace

absl::StatusOr<std::shared_ptr<CsrMatrix>> NewCsrMatrix(Allocator& allocator, const Shape& shape) {
  FORMWORK_RETURN_IF_ERROR(CheckMatrixShape(shape.dims()));
  auto matrix = std::make_shared<CsrMatrix>();
  matrix->shape = shape;
  FORMWORK_ASSIGN_OR_RETURN(
      matrix->starts, Tensor::Allocate(allocator, DType::kInt32, Shape{matrix->all_rows() + 1}));
  ZeroElements(matrix->starts);
  return matrix;
}

absl::Status AllocateEntries(Allocator& allocator, DType dtype, int64_t entries,
                             CsrMatrix& matrix) {
  if (entries > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("A sparse matrix may have at most Int32Max entries, got ", entries);
  }
  FORMWORK_ASSIGN_OR_RETURN(matrix.columns,
                            Tensor::Allocate(allocator, DType::kInt32, Shape{entries}));
  FORMWORK_ASSIGN_OR_RETURN(matrix.values, Tensor::Allocate(allocator, dtype, Shape{entries}));
  return absl::OkStatus();
}

void SumUpStarts(CsrMatrix& matrix) {
  int32_t* starts = matrix.starts.mutable_data<int32_t>();
  ForBlocks(matrix.all_rows(), kCheapItems, [starts](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) starts[row + 1] += starts[row];
  });
}

absl::StatusOr<std::shared_ptr<CsrMatrix>> CsrFromEntries(Allocator& allocator,
                                                          const Tensor& indices,
                                                          const Tensor& values,
                                                          const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> matrix, NewCsrMatrix(allocator, shape));
  const int64_t rank = shape.rank();
  const int64_t n = values.num_elements();
  FORMWORK_RETURN_IF_ERROR(AllocateEntries(allocator, values.dtype(), n, *matrix));
  const int64_t* index = indices.data<int64_t>();
  int32_t* starts = matrix->starts.mutable_data<int32_t>();
  bool in_order = true;
  int64_t before = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const int64_t row = RowOf(*matrix, index + i * rank);
    if (row < 0) {
      return InvalidArgument("Sparse index tuple indices[", i, ", :] = [",
                             absl::StrJoin(absl::MakeConstSpan(index + i * rank, rank), ", "),
                             "] is out of bounds");
    }
    in_order = in_order && row >= before;
    before = row;
    ++starts[row + 1];
  }
  SumUpStarts(*matrix);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  // TensorFlow takes entries whose rows are out of order, and puts them into the wrong ones.
  std::vector<int32_t> next;
  if (!in_order) next.assign(starts, starts + matrix->all_rows());
  int32_t* columns = matrix->columns.mutable_data<int32_t>();
  return ByElement(values.dtype(), [&](auto tag) -> absl::StatusOr<std::shared_ptr<CsrMatrix>> {
    using E = typename decltype(tag)::type;
    const E* from = static_cast<const E*>(values.raw());
    E* to = static_cast<E*>(matrix->values.mutable_raw());
    for (int64_t i = 0; i < n; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const int64_t at =
          in_order ? i : next[static_cast<size_t>(RowOf(*matrix, index + i * rank))]++;
      columns[at] = static_cast<int32_t>(index[i * rank + rank - 1]);
      to[at] = from[i];
    }
    return matrix;
  });
}

absl::StatusOr<Tensor> IndicesOf(Allocator& allocator, const CsrMatrix& matrix) {
  const int64_t rank = matrix.shape.rank();
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(allocator, DType::kInt64,
                                                             Shape{matrix.num_entries(), rank}));
  const int32_t* columns = matrix.columns.data<int32_t>();
  int64_t* to = indices.mutable_data<int64_t>();
  int64_t row = 0;
  for (int64_t i = 0; i < matrix.num_entries(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    for (int64_t passed = 0; matrix.end(row) <= i; ++row, ++passed) {
      if (WorkIsCutAt(passed)) return WorkStatus();
    }
    if (rank == 3) *to++ = row / matrix.rows();
    *to++ = row % matrix.rows();
    *to++ = columns[i];
  }
  return indices;
}

absl::StatusOr<std::shared_ptr<CsrMatrix>> TransposedCsr(Allocator& allocator,
                                                         const CsrMatrix& matrix, bool conjugate) {
  Dims dims(matrix.shape.dims().begin(), matrix.shape.dims().end());
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> turned, NewCsrMatrix(allocator, shape));
  FORMWORK_RETURN_IF_ERROR(
      AllocateEntries(allocator, matrix.dtype(), matrix.num_entries(), *turned));
  const int32_t* columns = matrix.columns.data<int32_t>();
  int32_t* starts = turned->starts.mutable_data<int32_t>();
  // Calls run(entry, row in its matrix, row among all of the result) for the entries in order.
  const auto for_entries = [&](const auto& run) -> absl::Status {
    for (int64_t row = 0; row < matrix.all_rows(); ++row) {
      if (WorkIsCutAt(row)) return WorkStatus();
      const int64_t first = row / matrix.rows() * matrix.cols();
      for (int64_t i = matrix.begin(row); i < matrix.end(row); ++i) {
        if (WorkIsCutAt(i)) return WorkStatus();
        run(i, row % matrix.rows(), first + columns[i]);
      }
    }
    return absl::OkStatus();
  };
  FORMWORK_RETURN_IF_ERROR(
      for_entries([starts](int64_t, int64_t, int64_t to) { ++starts[to + 1]; }));
  SumUpStarts(*turned);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  std::vector<int32_t> next(starts, starts + turned->all_rows());
  int32_t* to_columns = turned->columns.mutable_data<int32_t>();
  FORMWORK_RETURN_IF_ERROR(ByElement(matrix.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E* from = static_cast<const E*>(matrix.values.raw());
    E* to = static_cast<E*>(turned->values.mutable_raw());
    return for_entries([&](int64_t i, int64_t row, int64_t to_row) {
      const int32_t at = next[static_cast<size_t>(to_row)]++;
      to_columns[at] = static_cast<int32_t>(row);
      to[at] = from[i];
    });
  }));
  if (conjugate) Conjugate(turned->values);
  return turned;
}

absl::StatusOr<std::shared_ptr<CsrMatrix>> ConjugatedCsr(Allocator& allocator,
                                                         const CsrMatrix& matrix) {
  auto conjugated = std::make_shared<CsrMatrix>(matrix);
  if (!IsComplex(matrix.dtype())) return conjugated;
  FORMWORK_ASSIGN_OR_RETURN(conjugated->values, matrix.values.Clone(allocator));
  Conjugate(conjugated->values);
  return conjugated;
}

absl::StatusOr<CsrPtr> CsrMatrixOf(const Tensor& tensor, int i) {
  if (tensor.rank() != 0) {
    return InvalidArgument("Invalid input matrix: Shape must be rank 0 but is rank ",
                           tensor.rank());
  }
  CsrPtr matrix = std::dynamic_pointer_cast<const CsrMatrix>(tensor.scalar<Variant>());
  if (matrix == nullptr) return InvalidArgument("Could not retrieve Variant input ", i);
  return matrix;
}

}  // namespace formwork
