#include "core/kernels/matmul/batch_matmul.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <vector>

#include "core/base/first_error.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gemm/bfloat_gemm.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/isa.h"
#include "core/kernels/widen.h"

namespace formwork {
namespace {

// Multiplications that are worth a task of their own.
constexpr double kTask = 1 << 20;
// Elements to convert that are.
constexpr int64_t kConvert = 1 << 16;

struct Stack {
  MatrixSide x_side, y_side;
  int64_t m, n, k;
  int64_t batches;
  // Which matrix of x and y a batch takes; empty: the one of its own number.
  std::vector<int64_t> x_index, y_index;
  bool y_shared;  // One matrix of y for all.
};

template <typename R>
struct ComplexRows {
  FORMWORK_ISA_INLINE static void Run(const Stack* stack, const R* x, const R* y, R* out,
                                      int64_t begin, int64_t end) {
    const Stack& s = *stack;
    const int64_t x_row = s.x_side.transpose ? 1 : s.k;
    const int64_t x_column = s.x_side.transpose ? s.m : 1;
    const int64_t y_row = s.y_side.transpose ? 1 : s.n;
    const int64_t y_column = s.y_side.transpose ? s.k : 1;
    const R x_sign = s.x_side.conjugate ? R(-1) : R(1);
    const R y_sign = s.y_side.conjugate ? R(-1) : R(1);
    for (int64_t i = begin; i < end; ++i) {
      R* __restrict row = out + 2 * i * s.n;
      for (int64_t j = 0; j < 2 * s.n; ++j) row[j] = R(0);
      for (int64_t p = 0; p < s.k; ++p) {
        const R re = x[2 * (i * x_row + p * x_column)];
        const R im = x[2 * (i * x_row + p * x_column) + 1] * x_sign;
        const R* from = y + 2 * p * y_row;
        for (int64_t j = 0; j < s.n; ++j) {
          const R y_re = from[2 * j * y_column];
          const R y_im = from[2 * j * y_column + 1] * y_sign;
          row[2 * j] += re * y_re - im * y_im;
          row[2 * j + 1] += re * y_im + im * y_re;
        }
      }
    }
  }
};

template <typename R>
void OneProduct(const Stack& s, const std::complex<R>* x, const std::complex<R>* y,
                std::complex<R>* out) {
  const int64_t row_work = std::max<int64_t>(s.n * s.k, 1);
  ParallelFor(s.m, std::max<int64_t>(static_cast<int64_t>(kTask) / 16 / row_work, 1),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<ComplexRows<R>>(&s, reinterpret_cast<const R*>(x),
                                           reinterpret_cast<const R*>(y), reinterpret_cast<R*>(out),
                                           begin, end);
              });
}

template <typename T>
void OneProduct(const Stack& s, const T* x, const T* y, T* out) {
  Gemm(s.x_side.transpose, s.y_side.transpose, s.m, s.n, s.k, x, s.x_side.transpose ? s.m : s.k, y,
       s.y_side.transpose ? s.k : s.n, T(0), out, s.n);
}

// `product(s, x, y, out)` of each.
template <typename T, typename Product>
void AllProducts(Stack s, const T* x, const T* y, T* out, Product product) {
  if (s.y_shared && !s.x_side.transpose && s.x_index.empty()) {
    // All of x's rows against one matrix.
    s.m *= s.batches;
    s.batches = 1;
  }
  const int64_t x_size = s.m * s.k, y_size = s.k * s.n, out_size = s.m * s.n;
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end && !WorkIsCut(); ++b) {
      const int64_t x_at = s.x_index.empty() ? b : s.x_index[b];
      const int64_t y_at = s.y_shared ? 0 : s.y_index.empty() ? b : s.y_index[b];
      product(s, x + x_at * x_size, y + y_at * y_size, out + b * out_size);
    }
  };
  const double work =
      static_cast<double>(out_size) * static_cast<double>(std::max<int64_t>(s.k, 1));
  if (s.batches == 1 || work >= 2 * kTask) {
    run(0, s.batches);  // Each is split by itself.
  } else {
    ParallelFor(s.batches, std::max<int64_t>(static_cast<int64_t>(kTask / (work + 1)), 1), run);
  }
}

template <typename T>
void AllProducts(const Stack& s, const T* x, const T* y, T* out) {
  AllProducts(s, x, y, out,
              [](const Stack& of, const T* a, const T* b, T* c) { OneProduct(of, a, b, c); });
}

// Elements as the type that is computed in.
template <typename Wide, typename T>
absl::StatusOr<Tensor> AsWide(Allocator& allocator, const Tensor& tensor) {
  if constexpr (std::is_same_v<Wide, float>) return Widened(allocator, tensor);
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DTypeOf<Wide>::value, tensor.shape()));
  const T* from = tensor.data<T>();
  Wide* to = wide.mutable_data<Wide>();
  ParallelFor(tensor.num_elements(), kConvert, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<Wide>(from[i]);
  });
  return wide;
}

template <typename Wide, typename T>
absl::Status ThroughWide(Allocator& allocator, const Stack& s, const Tensor& x, const Tensor& y,
                         Tensor& out) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide_x, (AsWide<Wide, T>(allocator, x)));
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide_y, (AsWide<Wide, T>(allocator, y)));
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DTypeOf<Wide>::value, out.shape()));
  AllProducts(s, wide_x.data<Wide>(), wide_y.data<Wide>(), wide.mutable_data<Wide>());
  const Wide* from = wide.data<Wide>();
  if constexpr (std::is_same_v<Wide, float>) {
    NarrowTo(out.dtype(), from, out.num_elements(), out.mutable_raw());
    return absl::OkStatus();
  }
  T* to = out.mutable_data<T>();
  ParallelFor(out.num_elements(), kConvert, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i]);
  });
  return absl::OkStatus();
}

// By instructions for bfloat16, unless so little is to be done that a call costs more.
bool TakesBfloatProducts(const Stack& s) {
  const double work =
      static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  return work >= kTask && HasBfloatProducts();
}

absl::Status BfloatProducts(Allocator& allocator, const Stack& s, const Tensor& x, const Tensor& y,
                            Tensor& out) {
  FirstError error;
  AllProducts(s, x.data<bfloat16>(), y.data<bfloat16>(), out.mutable_data<bfloat16>(),
              [&](const Stack& of, const bfloat16* a, const bfloat16* b, bfloat16* c) {
                error.Note(BfloatGemm(allocator, of.x_side.transpose, of.y_side.transpose, of.m,
                                      of.n, of.k, a, b, c));
              });
  return error.Take();
}

}  // namespace

bool CanMultiply(DType dtype) {
  return IsInteger(dtype) || IsComplex(dtype) || dtype == DType::kFloat ||
         dtype == DType::kDouble || dtype == DType::kHalf || dtype == DType::kBfloat16;
}

std::vector<int64_t> BatchIndex(absl::Span<const int64_t> dims, absl::Span<const int64_t> out,
                                int64_t batches) {
  if (dims == out) return {};
  std::vector<int64_t> index(static_cast<size_t>(batches), 0);
  const size_t missing = out.size() - dims.size();
  int64_t block = batches;  // Batches that share the dimensions so far.
  int64_t stride = 1;
  for (int64_t dim : dims) stride *= dim;
  for (size_t d = 0; d < out.size(); ++d) {
    block /= out[d];
    if (d < missing) continue;
    const int64_t dim = dims[d - missing];
    stride /= dim;
    if (dim == 1) continue;
    for (int64_t b = 0; b < batches; ++b) index[b] += b / block % out[d] * stride;
  }
  return index;
}

absl::StatusOr<Tensor> Multiply(Allocator& allocator, const ProductGeometry& geometry,
                                const Tensor& x, MatrixSide x_side, const Tensor& y,
                                MatrixSide y_side) {
  Stack s;
  s.x_side = x_side;
  s.y_side = y_side;
  s.m = geometry.m;
  s.n = geometry.n;
  s.k = geometry.k;
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(allocator, x.dtype(), shape));
  if (shape.num_elements() == 0) return out;
  const absl::Span<const int64_t> batch = geometry.batch();
  s.batches = 1;
  for (int64_t dim : batch) s.batches *= dim;
  s.y_shared = y.num_elements() == s.k * s.n;
  if (!batch.empty()) {
    s.x_index = BatchIndex(x.shape().dims().first(x.rank() - 2), batch, s.batches);
    if (!s.y_shared) {
      s.y_index = BatchIndex(y.shape().dims().first(y.rank() - 2), batch, s.batches);
    }
  }
  switch (x.dtype()) {
    FORMWORK_CASE(float, AllProducts(s, x.data<T>(), y.data<T>(), out.mutable_data<T>());
                  return out)
    FORMWORK_CASE(double, AllProducts(s, x.data<T>(), y.data<T>(), out.mutable_data<T>());
                  return out)
    FORMWORK_COMPLEX_CASES(AllProducts(s, x.data<T>(), y.data<T>(), out.mutable_data<T>());
                           return out)
    FORMWORK_CASE(half, FORMWORK_RETURN_IF_ERROR((ThroughWide<float, T>(allocator, s, x, y, out)));
                  return out)
    FORMWORK_CASE(
        bfloat16,
        if (TakesBfloatProducts(s)) {
          FORMWORK_RETURN_IF_ERROR(BfloatProducts(allocator, s, x, y, out));
        } else {
          FORMWORK_RETURN_IF_ERROR((ThroughWide<float, T>(allocator, s, x, y, out)));
        } return out)
    FORMWORK_INTEGER_CASES(
        if constexpr (sizeof(T) >= 4) {
          // Signed and unsigned products have the same bits.
          using U = std::make_unsigned_t<T>;
          AllProducts(s, x.data<U>(), y.data<U>(), out.mutable_data<U>());
        } else {
          FORMWORK_RETURN_IF_ERROR((ThroughWide<uint32_t, T>(allocator, s, x, y, out)));
        } return out)
    default:
      return Unimplemented("dtype ", DTypeName(x.dtype()), " is not supported");
  }
}

}  // namespace formwork
