// Sums and products of sparse matrices, with dense ones and with each other, and softmax.

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/kernel.h"
#include "core/kernels/sort_pieces.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/kernels/variant/csr_matrix.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/sparse_matrix.h"

namespace formwork {
namespace {

constexpr int64_t kTask = 64 * 1024;  // Multiplications.

// The matrices have those; softmax has the first two alone.
absl::Status CheckIsNumber(absl::string_view op, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kDouble:
    case DType::kComplex64:
    case DType::kComplex128:
      return absl::OkStatus();
    default:
      return Unimplemented(op, ": dtype ", DTypeName(dtype), " is not supported");
  }
}

// Calls run(T()) with the type of the matrix's elements.
template <typename Run>
absl::Status WithNumber(DType dtype, const Run& run) {
  switch (dtype) {
    FORMWORK_CASE(float, return run(T()))
    FORMWORK_CASE(double, return run(T()))
    FORMWORK_COMPLEX_CASES(return run(T()))
    default:
      return Unimplemented("sparse matrices: dtype ", DTypeName(dtype), " is not supported");
  }
}

absl::Status CheckTypesMatch(DType a, DType b) {
  if (a == b) return absl::OkStatus();
  return InvalidArgument("Input types don't match.  a.dtype == ", GraphDTypeName(a),
                         " vs. b.dtype == ", GraphDTypeName(b));
}

absl::Status CheckIsOf(absl::string_view name, const CsrMatrix& matrix, DType dtype) {
  if (matrix.dtype() == dtype) return absl::OkStatus();
  return InvalidArgument("dtype of ", name,
                         " is not equal to 'type': ", GraphDTypeName(matrix.dtype()), " vs. ",
                         GraphDTypeName(dtype));
}

// --- SparseMatrixMatMul --------------------------------------------------------------------------

// Rows [begin, end) of all: of `a` as it is to be multiplied, `b` and `out` as they lie in memory.
template <typename T>
void MultiplyRows(const MatrixProductAttrs& attrs, const MatrixProductGeometry& s,
                  const CsrMatrix& a, const T* b, int64_t begin, int64_t end, T* out) {
  const int32_t* columns = a.columns.data<int32_t>();
  const T* values = a.values.data<T>();
  const int64_t inner_step = attrs.flips_b() ? 1 : s.cols, col_step = attrs.flips_b() ? s.inner : 1;
  for (int64_t row = begin; row < end && !WorkIsCutAt(row - begin); ++row) {
    const T* from = b + row / s.rows * s.inner * s.cols;
    T* to =
        out + row / s.rows * s.rows * s.cols + row % s.rows * (attrs.transpose_output ? 1 : s.cols);
    const int64_t to_step = attrs.transpose_output ? s.rows : 1;
    for (int64_t first = 0; first < s.cols; first += kTask) {
      const int64_t n = std::min(kTask, s.cols - first);
      if (n == kTask && WorkIsCut()) return;
      for (int64_t i = a.begin(row); i < a.end(row); ++i) {
        if (WorkIsCutAt(i, std::max<int64_t>(kTask / n, 1))) return;
        const T* other = from + columns[i] * inner_step + first * col_step;
        T* sums = to + first * to_step;
        if (col_step == 1 && to_step == 1 && !attrs.adjoint_b) {
          for (int64_t c = 0; c < n; ++c) sums[c] += values[i] * other[c];
        } else {
          for (int64_t c = 0; c < n; ++c) {
            sums[c * to_step] += values[i] * ConjugateIf(attrs.adjoint_b, other[c * col_step]);
          }
        }
      }
      if (!attrs.conjugate_output) continue;
      for (int64_t c = first; c < first + n; ++c) {
        to[c * to_step] = ConjugateIf(true, to[c * to_step]);
      }
    }
  }
}

absl::StatusOr<KernelFn> MakeMatMul(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const MatrixProductAttrs attrs,
                            MatrixProductAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckIsNumber("SparseMatrixMatMul", init.output_dtypes()[0]));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(CsrPtr a, CsrMatrixOf(ctx.input(0), 0));
    const Tensor b = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckTypesMatch(a->dtype(), b.dtype()));
    FORMWORK_ASSIGN_OR_RETURN(const MatrixProductGeometry s,
                              PrepareMatrixProduct(attrs, a->shape.dims(), b.shape().dims()));
    if (attrs.flips_a()) {
      FORMWORK_ASSIGN_OR_RETURN(a, TransposedCsr(ctx.allocator(), *a, attrs.adjoint_a));
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, b.dtype(), shape));
    ZeroElements(*out);
    if (shape.num_elements() == 0) return absl::OkStatus();
    // Of a row, on the average.
    const double cost = static_cast<double>(a->num_entries()) * static_cast<double>(s.cols) /
                        static_cast<double>(a->all_rows());
    const auto grain = static_cast<int64_t>(kTask / std::max(cost, 1.0)) + 1;
    return WithNumber(b.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* to = out->mutable_data<T>();
      ParallelFor(a->all_rows(), grain, [&](int64_t begin, int64_t end) {
        MultiplyRows<T>(attrs, s, *a, b.data<T>(), begin, end, to);
      });
      return absl::OkStatus();
    });
  });
}

// --- SparseMatrixSparseMatMul --------------------------------------------------------------------

// Calls run(entry of a, entry of b) for the products that make up row `row` of all.
template <typename Run>
absl::Status ForProducts(const CsrMatrix& a, const CsrMatrix& b, int64_t row, const Run& run) {
  const int32_t* columns = a.columns.data<int32_t>();
  const int64_t first = row / a.rows() * b.rows();
  int64_t since_look = 0;
  for (int64_t i = a.begin(row); i < a.end(row); ++i) {
    if (since_look >= kTask) {
      since_look = 0;
      if (WorkIsCut()) return WorkStatus();
    }
    const int64_t other = first + columns[i];
    since_look += b.end(other) - b.begin(other) + 1;
    for (int64_t j = b.begin(other); j < b.end(other); ++j) {
      if (WorkIsCutAt(j)) return WorkStatus();
      run(i, j);
    }
  }
  return absl::OkStatus();
}

// Row by row: which columns there are, in order, and then the sums of what falls on each.
// `seen`, which is 0, and `sums` have an element for each column.
template <typename T>
absl::Status Multiply(const CsrMatrix& a, const CsrMatrix& b, Tensor& seen, Tensor& sums,
                      Allocator& allocator, CsrMatrix& product) {
  int32_t* const row_seen = seen.mutable_data<int32_t>();  // The last row with the column, and 1.
  const int32_t* const of_b = b.columns.data<int32_t>();
  int32_t* const starts = product.starts.mutable_data<int32_t>();
  int64_t entries = 0;
  for (int64_t row = 0; row < a.all_rows(); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    const auto mark = static_cast<int32_t>(row + 1);
    FORMWORK_RETURN_IF_ERROR(ForProducts(a, b, row, [&](int64_t, int64_t j) {
      entries += row_seen[of_b[j]] != mark ? 1 : 0;
      row_seen[of_b[j]] = mark;
    }));
    // Beyond what int32 counts, the allocation fails.
    starts[row + 1] = static_cast<int32_t>(entries);
  }
  FORMWORK_RETURN_IF_ERROR(AllocateEntries(allocator, a.dtype(), entries, product));
  ZeroElements(seen);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  T* const sum = sums.mutable_data<T>();
  T* values = product.values.mutable_data<T>();
  int32_t* columns = product.columns.mutable_data<int32_t>();
  std::vector<int64_t> in_row;
  for (int64_t row = 0; row < a.all_rows(); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    const auto mark = static_cast<int32_t>(row + 1);
    in_row.clear();
    FORMWORK_RETURN_IF_ERROR(ForProducts(a, b, row, [&](int64_t i, int64_t j) {
      const int32_t column = of_b[j];
      if (row_seen[column] != mark) {
        row_seen[column] = mark;
        sum[column] = T();
        in_row.push_back(column);
      }
      sum[column] += a.values.data<T>()[i] * b.values.data<T>()[j];
    }));
    SortPieces(in_row, [](int64_t x, int64_t y) { return x < y; });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    for (const int64_t column : in_row) {
      *columns++ = static_cast<int32_t>(column);
      *values++ = sum[column];
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSparseMatMul(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const MatrixProductAttrs attrs,
                            MatrixProductAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(CsrPtr a, CsrMatrixOf(ctx.input(0), 0));
    FORMWORK_ASSIGN_OR_RETURN(CsrPtr b, CsrMatrixOf(ctx.input(1), 1));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("a", *a, dtype));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("b", *b, dtype));
    FORMWORK_ASSIGN_OR_RETURN(const MatrixProductGeometry s,
                              PrepareMatrixProduct(attrs, a->shape.dims(), b->shape.dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.output));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> product,
                              NewCsrMatrix(ctx.allocator(), shape));
    if (attrs.flips_a()) {
      FORMWORK_ASSIGN_OR_RETURN(a, TransposedCsr(ctx.allocator(), *a, attrs.adjoint_a));
    }
    if (attrs.flips_b()) {
      FORMWORK_ASSIGN_OR_RETURN(b, TransposedCsr(ctx.allocator(), *b, attrs.adjoint_b));
    }
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor seen, Tensor::Allocate(ctx.allocator(), DType::kInt32, Shape{product->cols()}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor sums,
                              Tensor::Allocate(ctx.allocator(), dtype, Shape{product->cols()}));
    ZeroElements(seen);
    FORMWORK_RETURN_IF_ERROR(WithNumber(dtype, [&](auto zero) {
      return Multiply<decltype(zero)>(*a, *b, seen, sums, ctx.allocator(), *product);
    }));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(product)));
    return absl::OkStatus();
  });
}

// --- SparseMatrixMul, SparseMatrixAdd ------------------------------------------------------------

// The same entries; their values are for the caller to write.
absl::StatusOr<std::shared_ptr<CsrMatrix>> WithNewValues(Allocator& allocator,
                                                         const CsrMatrix& like) {
  auto matrix = std::make_shared<CsrMatrix>();
  matrix->shape = like.shape;
  matrix->starts = like.starts;
  matrix->columns = like.columns;
  FORMWORK_ASSIGN_OR_RETURN(matrix->values,
                            Tensor::Allocate(allocator, like.dtype(), like.values.shape()));
  return matrix;
}

absl::StatusOr<KernelFn> MakeMul(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckIsNumber("SparseMatrixMul", init.input_dtypes()[1]));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr a, CsrMatrixOf(ctx.input(0), 0));
    const Tensor b = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckTypesMatch(a->dtype(), b.dtype()));
    FORMWORK_RETURN_IF_ERROR(CheckMatrixFactor(a->shape.dims(), b.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> scaled,
                              WithNewValues(ctx.allocator(), *a));
    FORMWORK_RETURN_IF_ERROR(WithNumber(b.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* from = a->values.template data<T>();
      T* to = scaled->values.template mutable_data<T>();
      for (int64_t m = 0; m < a->batch() && !WorkIsCutAt(m, kDearItems); ++m) {
        const T factor = b.data<T>()[b.rank() == 0 ? 0 : m];
        const int64_t first = a->begin(m * a->rows());
        ForBlocks(a->begin((m + 1) * a->rows()) - first, kCheapItems,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = first + begin; i < first + end; ++i) to[i] = from[i] * factor;
                  });
      }
      return absl::OkStatus();
    }));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(scaled)));
    return absl::OkStatus();
  });
}

// The entries of a row of one matrix or two, those of a second one counted on from the first one's,
// in order of their columns.
class OrderedRow {
 public:
  explicit OrderedRow(const CsrMatrix& a, const CsrMatrix* b = nullptr) : a_(a), b_(b) {}

  absl::Status Read(int64_t row) {
    const int64_t of_a = a_.end(row) - a_.begin(row);
    const int64_t of_b = b_ == nullptr ? 0 : b_->end(row) - b_->begin(row);
    row_ = row;
    count_a_ = of_a;
    FillPositions(order_, of_a + of_b);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    const auto before = [this](int64_t x, int64_t y) {
      const int32_t of_x = Column(x), of_y = Column(y);
      return of_x != of_y ? of_x < of_y : x < y;
    };
    SortPieces(order_, before);
    return WorkStatus();
  }
  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  int32_t column(int64_t i) const { return Column(order_[static_cast<size_t>(i)]); }
  bool of_a(int64_t i) const { return order_[static_cast<size_t>(i)] < count_a_; }
  /// Among all of its matrix.
  int64_t entry(int64_t i) const {
    const int64_t at = order_[static_cast<size_t>(i)];
    return at < count_a_ ? a_.begin(row_) + at : b_->begin(row_) + at - count_a_;
  }

 private:
  int32_t Column(int64_t at) const {
    return at < count_a_ ? a_.columns.data<int32_t>()[a_.begin(row_) + at]
                         : b_->columns.data<int32_t>()[b_->begin(row_) + at - count_a_];
  }

  const CsrMatrix& a_;
  const CsrMatrix* const b_;
  int64_t row_ = 0;
  int64_t count_a_ = 0;
  std::vector<int64_t> order_;
};

// An entry wherever one of the matrices has one, though the sum may be 0.
template <typename T>
absl::Status Add(const CsrMatrix& a, const CsrMatrix& b, T alpha, T beta, Allocator& allocator,
                 CsrMatrix& sum) {
  OrderedRow ordered(a, &b);
  int32_t* starts = sum.starts.mutable_data<int32_t>();
  int64_t entries = 0;
  for (int64_t row = 0; row < a.all_rows(); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(ordered.Read(row));
    for (int64_t i = 0; i < ordered.size(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      if (i == 0 || ordered.column(i) != ordered.column(i - 1)) ++entries;
    }
    // Beyond what int32 counts, the allocation fails.
    starts[row + 1] = static_cast<int32_t>(entries);
  }
  FORMWORK_RETURN_IF_ERROR(AllocateEntries(allocator, a.dtype(), entries, sum));
  int32_t* columns = sum.columns.mutable_data<int32_t>();
  T* values = sum.values.mutable_data<T>();
  int64_t at = -1;
  for (int64_t row = 0; row < a.all_rows(); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(ordered.Read(row));
    for (int64_t i = 0; i < ordered.size(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      const T value = ordered.of_a(i) ? alpha * a.values.data<T>()[ordered.entry(i)]
                                      : beta * b.values.data<T>()[ordered.entry(i)];
      if (i > 0 && ordered.column(i) == ordered.column(i - 1)) {
        values[at] += value;
        continue;
      }
      columns[++at] = ordered.column(i);
      values[at] = value;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeAdd(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("T"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr a, CsrMatrixOf(ctx.input(0), 0));
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr b, CsrMatrixOf(ctx.input(1), 1));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("a", *a, dtype));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("b", *b, dtype));
    for (const int i : {2, 3}) {
      if (ctx.input(i).rank() == 0) continue;
      return InvalidArgument("Expected ", i == 2 ? "alpha" : "beta",
                             " to be a scalar, saw shape: ", ctx.input(i).shape().ToString());
    }
    if (a->shape != b->shape) {
      return InvalidArgument("Shapes of a and b must match, saw: ", a->shape.ToString(), " vs. ",
                             b->shape.ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> sum,
                              NewCsrMatrix(ctx.allocator(), a->shape));
    FORMWORK_RETURN_IF_ERROR(WithNumber(dtype, [&](auto zero) {
      using T = decltype(zero);
      return Add<T>(*a, *b, ctx.input(2).scalar<T>(), ctx.input(3).scalar<T>(), ctx.allocator(),
                    *sum);
    }));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(sum)));
    return absl::OkStatus();
  });
}

// --- SparseMatrixSoftmax -------------------------------------------------------------------------

// Over the entries of each row: elsewhere the logits are as good as minus infinity.
template <typename T>
absl::Status Softmax(const CsrMatrix& logits, CsrMatrix& softmax) {
  const T* from = logits.values.data<T>();
  T* to = softmax.values.mutable_data<T>();
  for (int64_t row = 0; row < logits.all_rows(); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    const int64_t begin = logits.begin(row), end = logits.end(row);
    T largest = -std::numeric_limits<T>::infinity(), sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      largest = std::max(largest, from[i]);
    }
    for (int64_t i = begin; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      to[i] = std::exp(from[i] - largest);
      sum += to[i];
    }
    for (int64_t i = begin; i < end; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      to[i] /= sum;
    }
  }
  return absl::OkStatus();
}

// softmax * (grad - sum(softmax * grad)) of each row. Entries of `grad` that softmax has not do not
// count, and those that it has and `grad` has not are 0.
template <typename T>
absl::Status SoftmaxGrad(const CsrMatrix& softmax, const CsrMatrix& grad, CsrMatrix& gradient) {
  OrderedRow ordered(softmax, &grad);
  const T* values = softmax.values.data<T>();
  T* to = gradient.values.mutable_data<T>();
  for (int64_t row = 0; row < softmax.all_rows(); ++row) {
    if (WorkIsCutAt(row)) return WorkStatus();
    FORMWORK_RETURN_IF_ERROR(ordered.Read(row));
    T sum = 0;
    // Of one column stand first the softmax's entries, then the gradient's.
    for (int64_t i = 0, same = 0; i < ordered.size(); i = same) {
      T of_column = 0;
      for (same = i; same < ordered.size() && ordered.column(same) == ordered.column(i); ++same) {
        if (WorkIsCutAt(same)) return WorkStatus();
        if (!ordered.of_a(same)) of_column += grad.values.data<T>()[ordered.entry(same)];
      }
      for (int64_t j = i; j < same && ordered.of_a(j); ++j) {
        if (WorkIsCutAt(j)) return WorkStatus();
        to[ordered.entry(j)] = of_column;
        sum += values[ordered.entry(j)] * of_column;
      }
    }
    for (int64_t i = softmax.begin(row); i < softmax.end(row); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      to[i] = values[i] * (to[i] - sum);
    }
  }
  return absl::OkStatus();
}

template <typename Run>
absl::Status WithReal(DType dtype, const Run& run) {
  switch (dtype) {
    FORMWORK_CASE(float, return run(T()))
    FORMWORK_CASE(double, return run(T()))
    default:
      return Unimplemented("softmax of sparse matrices: dtype ", DTypeName(dtype),
                           " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeSoftmax(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr logits, CsrMatrixOf(ctx.input(0), 0));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("logits", *logits, dtype));
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> softmax,
                              WithNewValues(ctx.allocator(), *logits));
    FORMWORK_RETURN_IF_ERROR(
        WithReal(dtype, [&](auto zero) { return Softmax<decltype(zero)>(*logits, *softmax); }));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(softmax)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSoftmaxGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("type"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr softmax, CsrMatrixOf(ctx.input(0), 0));
    FORMWORK_ASSIGN_OR_RETURN(const CsrPtr grad, CsrMatrixOf(ctx.input(1), 1));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("softmax", *softmax, dtype));
    FORMWORK_RETURN_IF_ERROR(CheckIsOf("grad_softmax", *grad, dtype));
    if (softmax->shape != grad->shape) {
      return InvalidArgument("Shapes of softmax and grad_softmax matrices must match, saw: ",
                             softmax->shape.ToString(), " vs. ", grad->shape.ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> gradient,
                              WithNewValues(ctx.allocator(), *softmax));
    FORMWORK_RETURN_IF_ERROR(WithReal(
        dtype, [&](auto zero) { return SoftmaxGrad<decltype(zero)>(*softmax, *grad, *gradient); }));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(gradient)));
    return absl::OkStatus();
  });
}

}  // namespace

void AddCsrArithmeticCpuKernels(KernelRegistry& registry) {
  registry.Add("SparseMatrixMatMul", MakeMatMul);
  registry.Add("SparseMatrixSparseMatMul", MakeSparseMatMul);
  registry.Add("SparseMatrixMul", MakeMul);
  registry.Add("SparseMatrixAdd", MakeAdd);
  registry.Add("SparseMatrixSoftmax", MakeSoftmax);
  registry.Add("SparseMatrixSoftmaxGrad", MakeSoftmaxGrad);
}

}  // namespace formwork
