// Bands and diagonals of matrices.

#include <algorithm>

#include "core/base/checked_math.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

absl::StatusOr<int64_t> ScalarOf(const Tensor& tensor, absl::string_view name) {
  if (!tensor.shape().is_scalar()) {
    return InvalidArgument(name, " must be scalar, got shape ", tensor.shape().ToString());
  }
  return IntegerFromTensor(tensor, name);
}

absl::Status CheckMatrix(const Tensor& input) {
  if (input.rank() >= 2) return absl::OkStatus();
  return InvalidArgument("input must be at least 2-dim, received shape: ",
                         input.shape().ToString());
}

absl::StatusOr<KernelFn> MakeMatrixBandPart(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckMatrix(input));
    const int rank = input.rank();
    const int64_t rows = input.dim(rank - 2), cols = input.dim(rank - 1);
    FORMWORK_ASSIGN_OR_RETURN(int64_t lower, ScalarOf(ctx.input(1), "num_lower"));
    FORMWORK_ASSIGN_OR_RETURN(int64_t upper, ScalarOf(ctx.input(2), "num_upper"));
    if (lower > rows) {
      return InvalidArgument("num_lower must be negative or less or equal to number of rows (",
                             rows, ") got: ", lower);
    }
    if (upper > cols) {
      return InvalidArgument("num_upper must be negative or less or equal to number of columns (",
                             cols, ") got: ", upper);
    }
    const DType dtype = input.dtype();
    const Shape shape = input.shape();
    const void* from = input.raw();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, dtype, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    ByElement(dtype, [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* src = static_cast<const E*>(from);
      E* dst = static_cast<E*>(out->mutable_raw());
      const int64_t grain = std::max<int64_t>(MoveGrain<E>() / cols, 1);
      ParallelFor(shape.num_elements() / cols, grain, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t i = row % rows;
          const int64_t low = lower < 0 ? 0 : std::clamp<int64_t>(i - lower, 0, cols);
          const int64_t high = upper < 0 ? cols : std::clamp<int64_t>(i + upper + 1, low, cols);
          E* to = dst + row * cols;
          std::fill(to, to + low, E());
          if (static_cast<const void*>(src) != static_cast<const void*>(dst) && high > low) {
            CopyElements(src + row * cols + low, high - low, to + low);
          }
          std::fill(to + high, to + cols, E());
        }
      });
    });
    return absl::OkStatus();
  });
}

// A band of diagonals: which, and on which side shorter ones lie.
struct Band {
  int64_t lower = 0;
  int64_t upper = 0;
  bool left_super = false;
  bool left_sub = true;

  int64_t count() const { return upper - lower + 1; }
  static int64_t Length(int64_t d, int64_t rows, int64_t cols) {
    return std::min(rows + std::min<int64_t>(d, 0), cols - std::max<int64_t>(d, 0));
  }
  int64_t LongestLength(int64_t rows, int64_t cols) const {
    return std::min(rows + std::min<int64_t>(upper, 0), cols - std::max<int64_t>(lower, 0));
  }
  // Where diagonal d begins among `longest` places.
  int64_t Offset(int64_t d, int64_t length, int64_t longest) const {
    const bool left = (d >= 0 && left_super) || (d <= 0 && left_sub);
    return left ? 0 : longest - length;
  }
};

Band AlignmentOf(const AttrMap& attrs) {
  const std::string align = attrs.GetOr<std::string>("align", "RIGHT_LEFT");
  Band band;
  band.left_super = align == "LEFT_LEFT" || align == "LEFT_RIGHT";
  band.left_sub = align == "LEFT_LEFT" || align == "RIGHT_LEFT";
  return band;
}

absl::Status ReadBand(const Tensor& k, Band& band) {
  if (k.rank() > 1) {
    return InvalidArgument("diag_index must be a scalar or vector, received shape: ",
                           k.shape().ToString());
  }
  if (k.num_elements() < 1 || k.num_elements() > 2) {
    return InvalidArgument("diag_index must have only one or two elements, received ",
                           k.num_elements(), " elements.");
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(k, "k"));
  band.lower = values.front();
  band.upper = values.back();
  if (band.lower > band.upper) {
    return InvalidArgument("lower_diag_index must not be larger than upper_diag_index: ",
                           band.lower, " > ", band.upper);
  }
  return absl::OkStatus();
}

absl::Status CheckWithin(const Band& band, int64_t rows, int64_t cols, absl::string_view stop) {
  const std::pair<absl::string_view, int64_t> ends[] = {{"lower_diag_index", band.lower},
                                                        {"upper_diag_index", band.upper}};
  for (const auto& [name, d] : ends) {
    if ((-rows < d && d < cols) || d == 0) continue;
    return InvalidArgument(name, " is out of bound: ", d, stop, " It must be between ", -rows,
                           " and ", cols);
  }
  return absl::OkStatus();
}

// For all matrices and diagonals of a band, calls f(index of the first element within the matrices,
// index of the first element within the diagonals, length, places before, places after).
template <typename F>
void ForEachDiagonal(const Band& band, int64_t matrices, int64_t rows, int64_t cols,
                     int64_t longest, F&& f) {
  int64_t since_look = 0;
  for (int64_t m = 0; m < matrices; ++m) {
    for (int64_t d = band.upper; d >= band.lower; --d) {
      const int64_t length = std::max<int64_t>(Band::Length(d, rows, cols), 0);
      const int64_t offset = band.Offset(d, length, longest);
      const int64_t y = std::max<int64_t>(-d, 0), x = std::max<int64_t>(d, 0);
      const int64_t row = m * band.count() + (band.upper - d);
      since_look += longest;
      if (since_look > kCheapItems) {
        if (WorkIsCut()) return;
        since_look = 0;
      }
      f(m * rows * cols + y * cols + x, row * longest, length, offset, longest - offset - length);
    }
  }
}

absl::StatusOr<KernelFn> MakeMatrixDiagPart(KernelInit& init) {
  return KernelFn([aligned = AlignmentOf(init.attrs())](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckMatrix(input));
    Band band = aligned;
    FORMWORK_RETURN_IF_ERROR(ReadBand(ctx.input(1), band));
    const Tensor& padding = ctx.input(2);
    if (padding.num_elements() != 1) {
      return InvalidArgument("padding_value must be a scalar, received shape: ",
                             padding.shape().ToString());
    }
    const int rank = input.rank();
    const int64_t rows = input.dim(rank - 2), cols = input.dim(rank - 1);
    FORMWORK_RETURN_IF_ERROR(CheckWithin(band, rows, cols, "."));
    const int64_t longest = band.LongestLength(rows, cols);
    Dims dims(input.shape().dims().begin(), input.shape().dims().end() - 2);
    if (band.count() > 1) dims.push_back(band.count());
    dims.push_back(longest);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    ByElement(input.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* src = static_cast<const E*>(input.raw());
      const E& pad = *static_cast<const E*>(padding.raw());
      E* dst = static_cast<E*>(out->mutable_raw());
      ForEachDiagonal(band, shape.num_elements() / (band.count() * longest), rows, cols, longest,
                      [&](int64_t from, int64_t to, int64_t n, int64_t before, int64_t after) {
                        E* at = std::fill_n(dst + to, before, pad);
                        for (int64_t i = 0; i < n; ++i) at[i] = src[from + i * (cols + 1)];
                        std::fill_n(at + n, after, pad);
                      });
    });
    return absl::OkStatus();
  });
}

// Writes the diagonals into the matrices.
void WriteDiagonals(const Band& band, const Tensor& diagonal, int64_t matrices, int64_t rows,
                    int64_t cols, int64_t longest, Tensor& out) {
  ByElement(out.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E* src = static_cast<const E*>(diagonal.raw());
    E* dst = static_cast<E*>(out.mutable_raw());
    ForEachDiagonal(band, matrices, rows, cols, longest,
                    [&](int64_t to, int64_t from, int64_t n, int64_t before, int64_t) {
                      const E* values = src + from + before;
                      for (int64_t i = 0; i < n; ++i) dst[to + i * (cols + 1)] = values[i];
                    });
  });
}

absl::StatusOr<KernelFn> MakeMatrixDiag(KernelInit& init) {
  return KernelFn([aligned = AlignmentOf(init.attrs())](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(0);
    Band band = aligned;
    FORMWORK_RETURN_IF_ERROR(ReadBand(ctx.input(1), band));
    FORMWORK_ASSIGN_OR_RETURN(int64_t rows, ScalarOf(ctx.input(2), "num_rows"));
    FORMWORK_ASSIGN_OR_RETURN(int64_t cols, ScalarOf(ctx.input(3), "num_cols"));
    const Tensor& padding = ctx.input(4);
    if (padding.num_elements() != 1) {
      return InvalidArgument("padding_value must be a scalar, received shape: ",
                             padding.shape().ToString());
    }
    const int rank = diagonal.rank();
    if (rank < 1) {
      return InvalidArgument("diagonal must be at least 1-dim, received shape: ",
                             diagonal.shape().ToString());
    }
    const int extra = band.count() > 1 ? 2 : 1;
    if (extra == 2 && (rank < 2 || diagonal.dim(rank - 2) != band.count())) {
      return InvalidArgument(
          "The number of diagonals provided in the input does not match the "
          "lower_diag_index and upper_diag_index range.");
    }
    const int64_t longest = diagonal.dim(rank - 1);
    const int64_t min_rows = longest - std::min<int64_t>(band.upper, 0);
    const int64_t min_cols = longest + std::max<int64_t>(band.lower, 0);
    if (rows != -1 && rows < min_rows) {
      return InvalidArgument("The number of rows is too small.");
    }
    if (cols != -1 && cols < min_cols) {
      return InvalidArgument("The number of columns is too small.");
    }
    if (rows == -1 && cols == -1) {
      rows = cols = std::max(min_rows, min_cols);
    } else if (rows == -1) {
      rows = min_rows;
    } else if (cols == -1) {
      cols = min_cols;
    }
    if (rows != min_rows && cols != min_cols) {
      return InvalidArgument(
          "The number of rows or columns is not consistent with the specified "
          "d_lower, d_upper, and diagonal.");
    }
    FORMWORK_RETURN_IF_ERROR(CheckWithin(band, rows, cols, "."));
    Dims dims(diagonal.shape().dims().begin(), diagonal.shape().dims().end() - extra);
    dims.push_back(rows);
    dims.push_back(cols);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, diagonal.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    FillElements(diagonal.dtype(), padding.raw(), shape.num_elements(), out->mutable_raw());
    if (longest == 0) return absl::OkStatus();
    WriteDiagonals(band, diagonal, shape.num_elements() / (rows * cols), rows, cols, longest, *out);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMatrixSetDiag(KernelInit& init) {
  return KernelFn([aligned = AlignmentOf(init.attrs())](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckMatrix(ctx.input(0)));
    Band band = aligned;
    FORMWORK_RETURN_IF_ERROR(ReadBand(ctx.input(2), band));
    const Shape shape = ctx.input(0).shape();
    const int rank = shape.rank();
    const int64_t rows = shape.dim(rank - 2), cols = shape.dim(rank - 1);
    FORMWORK_RETURN_IF_ERROR(CheckWithin(band, rows, cols, ""));
    const int64_t longest = band.LongestLength(rows, cols);
    Dims dims(shape.dims().begin(), shape.dims().end() - 2);
    if (band.count() > 1) dims.push_back(band.count());
    dims.push_back(longest);
    if (diagonal.shape().dims() != absl::MakeConstSpan(dims)) {
      return InvalidArgument(
          "Either first dimensions of diagonal don't match input.shape[:-2], or "
          "diagonal.shape[:-1] is not equal to the longests diagonal in range "
          "[lower_diag_index:upper_diag_index].\nInput shape: ",
          shape.ToString(), "\nDiagonal shape: ", diagonal.shape().ToString());
    }
    Tensor result;
    if (ctx.CanOverwrite(0)) {
      result = ctx.TakeInput(0);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(result, ctx.input(0).Clone(ctx.allocator()));
    }
    if (shape.num_elements() != 0) {
      WriteDiagonals(band, diagonal, shape.num_elements() / (rows * cols), rows, cols, longest,
                     result);
    }
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// The matrix (of any even rank) with the input as its diagonal.
absl::StatusOr<KernelFn> MakeDiag(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(0);
    if (diagonal.rank() < 1) {
      return InvalidArgument("Input must be at least rank 1, got 0");
    }
    Dims dims(diagonal.shape().dims().begin(), diagonal.shape().dims().end());
    const size_t rank = dims.size();
    for (size_t d = 0; d < rank; ++d) dims.push_back(dims[d]);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), diagonal.dtype(), shape));
    const int64_t n = diagonal.num_elements();
    CopyStrided(diagonal.dtype(), diagonal.raw(), out.mutable_raw(), {{n, 1, n + 1}});
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeDiagPart(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const int half_rank = input.rank() / 2;
    if (input.rank() % 2 != 0 || input.rank() == 0) {
      return InvalidArgument("The rank of the tensor should be even and positive, got shape ",
                             input.shape().ToString());
    }
    for (int d = 0; d < half_rank; ++d) {
      if (input.dim(d) != input.dim(d + half_rank)) {
        return InvalidArgument("Invalid shape ", input.shape().ToString(), ": dimensions ", d,
                               " and ", d + half_rank, " do not match.");
      }
    }
    const Shape shape = Shape::Trusted(input.shape().dims().first(half_rank));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    const int64_t n = shape.num_elements();
    CopyStrided(input.dtype(), input.raw(), out->mutable_raw(), {{n, n + 1, 1}});
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayDiagKernels(KernelRegistry& registry) {
  registry.Add("MatrixBandPart", MakeMatrixBandPart);
  registry.Add("MatrixDiagPartV3", MakeMatrixDiagPart);
  registry.Add("MatrixDiagV3", MakeMatrixDiag);
  registry.Add("MatrixSetDiagV3", MakeMatrixSetDiag);
  registry.Add("Diag", MakeDiag);
  registry.Add("DiagPart", MakeDiagPart);
}

}  // namespace formwork
