// Bands and diagonals of matrices.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/diagonal.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeMatrixBandPart(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const BandPart part,
        PrepareMatrixBandPart(input.shape().dims(), ctx.input(1), ctx.input(2)));
    const int64_t lower = part.lower, upper = part.upper;
    const int64_t rows = input.dim(input.rank() - 2), cols = input.dim(input.rank() - 1);
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

// For all matrices and diagonals of a band, calls f(index of the first element within the matrices,
// index of the first element within the diagonals, length, places before, places after).
template <typename F>
void ForEachDiagonal(const Band& band, int64_t matrices, F&& f) {
  const int64_t rows = band.rows, cols = band.cols, longest = band.longest;
  int64_t since_look = 0;
  for (int64_t m = 0; m < matrices; ++m) {
    for (int64_t d = band.upper; d >= band.lower; --d) {
      const int64_t length = std::max<int64_t>(band.Length(d), 0);
      const int64_t offset = band.Offset(d, length);
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

// The ops' first version has the main diagonal alone, and zeros around it.
Tensor DiagonalInput(const KernelContext& ctx, int i, int32_t otherwise) {
  return i < ctx.num_inputs() ? ctx.input(i) : Tensor::Scalar(otherwise);
}
absl::StatusOr<Tensor> PaddingInput(KernelContext& ctx, int i, DType dtype) {
  if (i < ctx.num_inputs()) return ctx.input(i);
  return ZeroTensor(ctx.allocator(), dtype, Shape());
}

absl::StatusOr<KernelFn> MakeMatrixDiagPart(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Tensor padding, PaddingInput(ctx, 2, input.dtype()));
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band, PrepareMatrixDiagPart(attrs, input.shape().dims(),
                                               DiagonalInput(ctx, 1, 0), padding.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(band.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    ByElement(input.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      const E* src = static_cast<const E*>(input.raw());
      const E& pad = *static_cast<const E*>(padding.raw());
      E* dst = static_cast<E*>(out->mutable_raw());
      ForEachDiagonal(band, shape.num_elements() / (band.count() * band.longest),
                      [&](int64_t from, int64_t to, int64_t n, int64_t before, int64_t after) {
                        E* at = std::fill_n(dst + to, before, pad);
                        for (int64_t i = 0; i < n; ++i) at[i] = src[from + i * (band.cols + 1)];
                        std::fill_n(at + n, after, pad);
                      });
    });
    return absl::OkStatus();
  });
}

// Writes the diagonals into the matrices.
void WriteDiagonals(const Band& band, const Tensor& diagonal, int64_t matrices, Tensor& out) {
  ByElement(out.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E* src = static_cast<const E*>(diagonal.raw());
    E* dst = static_cast<E*>(out.mutable_raw());
    ForEachDiagonal(band, matrices,
                    [&](int64_t to, int64_t from, int64_t n, int64_t before, int64_t) {
                      const E* values = src + from + before;
                      for (int64_t i = 0; i < n; ++i) dst[to + i * (band.cols + 1)] = values[i];
                    });
  });
}

absl::StatusOr<KernelFn> MakeMatrixDiag(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Tensor padding, PaddingInput(ctx, 4, diagonal.dtype()));
    const Tensor rows = DiagonalInput(ctx, 2, -1);
    const Tensor cols = DiagonalInput(ctx, 3, -1);
    FORMWORK_ASSIGN_OR_RETURN(
        const Band band, PrepareMatrixDiag(attrs, diagonal.shape().dims(), DiagonalInput(ctx, 1, 0),
                                           &rows, &cols, padding.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(band.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, diagonal.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    FillElements(diagonal.dtype(), padding.raw(), shape.num_elements(), out->mutable_raw());
    if (band.longest == 0) return absl::OkStatus();
    WriteDiagonals(band, diagonal, shape.num_elements() / (band.rows * band.cols), *out);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeMatrixSetDiag(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DiagonalAttrs attrs, DiagonalAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(1);
    const Shape shape = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const Band band,
                              PrepareMatrixSetDiag(attrs, shape.dims(), diagonal.shape().dims(),
                                                   DiagonalInput(ctx, 2, 0)));
    Tensor result;
    if (ctx.CanOverwrite(0)) {
      result = ctx.TakeInput(0);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(result, ctx.input(0).Clone(ctx.allocator()));
    }
    if (shape.num_elements() != 0) {
      WriteDiagonals(band, diagonal, shape.num_elements() / (band.rows * band.cols), result);
    }
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// The matrix (of any even rank) with the input as its diagonal.
absl::StatusOr<KernelFn> MakeDiag(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& diagonal = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDiag(diagonal.shape().dims()));
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
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDiagPart(input.shape().dims()));
    const Shape shape = Shape::Trusted(dims);
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
  for (const char* version : {"", "V2"}) {
    registry.Add(absl::StrCat("MatrixDiagPart", version), MakeMatrixDiagPart);
    registry.Add(absl::StrCat("MatrixDiag", version), MakeMatrixDiag);
    registry.Add(absl::StrCat("MatrixSetDiag", version), MakeMatrixSetDiag);
  }
  registry.Add("Diag", MakeDiag);
  registry.Add("DiagPart", MakeDiagPart);
}

}  // namespace formwork
