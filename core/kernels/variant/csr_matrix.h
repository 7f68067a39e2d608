#pragma once

// Sparse matrices as elements of dtype variant: CSR, row by row.

#include <complex>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// One sparse matrix, or a batch of them. Never changed once others may hold it.
class CsrMatrix final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "tensorflow::CSRSparseMatrix"; }

  DType dtype() const { return values.dtype(); }
  int64_t batch() const { return shape.rank() == 3 ? shape.dim(0) : 1; }
  int64_t rows() const { return shape.dim(shape.rank() - 2); }  ///< Of one matrix.
  int64_t cols() const { return shape.dim(shape.rank() - 1); }
  int64_t all_rows() const { return batch() * rows(); }
  int64_t num_entries() const { return values.num_elements(); }
  /// The first entry of row `row`, counted over the batch; of all_rows(): how many there are.
  int64_t begin(int64_t row) const { return starts.data<int32_t>()[row]; }
  int64_t end(int64_t row) const { return begin(row + 1); }

  Shape shape;     ///< [rows, cols] or [batch, rows, cols].
  Tensor starts;   ///< int32: of all rows, and the end. Ascending.
  Tensor columns;  ///< int32: each entry's column, which is one of the matrix.
  Tensor values;
};
using CsrPtr = std::shared_ptr<const CsrMatrix>;

/// A matrix without entries: its starts are 0, columns and values are not there yet. Errors:
/// CheckMatrixShape's, the allocator's.
absl::StatusOr<std::shared_ptr<CsrMatrix>> NewCsrMatrix(Allocator& allocator, const Shape& shape);
/// Columns and values for so many entries, uninitialised. Errors: more than int32 can count.
absl::Status AllocateEntries(Allocator& allocator, DType dtype, int64_t entries, CsrMatrix& matrix);
/// Where `starts` has the number of each row's entries at the place behind the row's, makes them
/// what they are to be.
void SumUpStarts(CsrMatrix& matrix);

/// The matrix of entries, of which `indices`, a matrix of int64, says where they are. They may be
/// in any order; those of a row keep theirs. Errors: one is out of bounds.
absl::StatusOr<std::shared_ptr<CsrMatrix>> CsrFromEntries(Allocator& allocator,
                                                          const Tensor& indices,
                                                          const Tensor& values, const Shape& shape);
/// Where the entries are, in order: the reverse.
absl::StatusOr<Tensor> IndicesOf(Allocator& allocator, const CsrMatrix& matrix);

/// The columns as rows, each of whose entries are in order of their new columns.
absl::StatusOr<std::shared_ptr<CsrMatrix>> TransposedCsr(Allocator& allocator,
                                                         const CsrMatrix& matrix, bool conjugate);

/// The same entries with the values' conjugates.
absl::StatusOr<std::shared_ptr<CsrMatrix>> ConjugatedCsr(Allocator& allocator,
                                                         const CsrMatrix& matrix);

/// The matrix that `tensor`, input `i`, is. Errors: it is none.
absl::StatusOr<CsrPtr> CsrMatrixOf(const Tensor& tensor, int i);

template <typename T>
T ConjugateIf(bool conjugate, const T& value) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return conjugate ? std::conj(value) : value;
  } else {
    return value;
  }
}

}  // namespace formwork
