// Transpose, ConjugateTranspose, ReverseV2, ReverseSequence and Roll.

#include <complex>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/dims.h"
#include "core/ops/permute.h"

namespace formwork {
namespace {

// True where only dimensions of size 1 change places, so that the elements stay where they are.
bool KeepsOrder(const Shape& shape, const Dims& axes) {
  int64_t last = -1;
  for (int64_t axis : axes) {
    if (shape.dim(static_cast<int>(axis)) == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

absl::StatusOr<Tensor> Transposed(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const TransposeGeometry geometry,
                            PrepareTranspose(x.shape().dims(), ctx.input(1)));
  const auto& [axes, dims] = geometry;
  const Shape shape = Shape::Trusted(dims);
  if (shape.num_elements() == 0 || KeepsOrder(x.shape(), axes)) {
    return ctx.TakeInput(0).Reshaped(shape);
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor y, Tensor::Allocate(ctx.allocator(), x.dtype(), shape));
  const Dims from = RowMajorStrides(x.shape());
  const Dims to = RowMajorStrides(shape);
  CopyDims copy;
  for (size_t d = 0; d < axes.size(); ++d) copy.push_back({dims[d], from[axes[d]], to[d]});
  CopyStrided(x.dtype(), x.raw(), y.mutable_raw(), copy);
  return y;
}

absl::StatusOr<KernelFn> MakeTranspose(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor y, Transposed(ctx));
    ctx.SetOutput(0, std::move(y));
    return absl::OkStatus();
  });
}

template <typename T>
void Conjugate(Tensor& y) {
  T* values = y.mutable_data<T>();
  ParallelFor(y.num_elements(), 1 << 15, [values](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = std::conj(values[i]);
  });
}

absl::StatusOr<KernelFn> MakeConjugateTranspose(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor y, Transposed(ctx));
    if (IsComplex(dtype) && !y.unique()) {
      FORMWORK_ASSIGN_OR_RETURN(y, y.Clone(ctx.allocator()));
    }
    if (dtype == DType::kComplex64) Conjugate<std::complex<float>>(y);
    if (dtype == DType::kComplex128) Conjugate<std::complex<double>>(y);
    ctx.SetOutput(0, std::move(y));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeReverseV2(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    const int rank = x.rank();
    FORMWORK_ASSIGN_OR_RETURN(const ReversedMask reversed,
                              PrepareReverse(x.shape().dims(), ctx.input(1)));
    bool any = false;
    for (int d = 0; d < rank; ++d) any = any || (reversed[d] && x.dim(d) > 1);
    if (!any) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
    const Dims strides = RowMajorStrides(x.shape());
    CopyDims copy;
    int64_t first = 0;
    for (int d = 0; d < rank; ++d) {
      copy.push_back({x.dim(d), reversed[d] ? -strides[d] : strides[d], strides[d]});
      if (reversed[d]) first += (x.dim(d) - 1) * strides[d];
    }
    CopyStrided(x.dtype(), ElementAt(x.dtype(), x.raw(), first), y->mutable_raw(), copy);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeReverseSequence(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ReverseSequenceAttrs attrs,
                            ReverseSequenceAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    const Tensor& lengths = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckReverseSequence(attrs, x.shape().dims(), lengths.shape().dims()));
    const int seq = static_cast<int>(attrs.seq_dim);
    const int batch = static_cast<int>(attrs.batch_dim);
    FORMWORK_ASSIGN_OR_RETURN(Dims n, IntegersOf(lengths, "seq_lengths"));
    for (size_t i = 0; i < n.size(); ++i) {
      if (n[i] < 0) return InvalidArgument("seq_lens(", i, ") < 0");
      if (n[i] > x.dim(seq)) {
        return InvalidArgument("seq_lens(", i, ") > input.dims(", seq, ")");
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
    if (x.num_elements() == 0) return absl::OkStatus();
    const Dims strides = RowMajorStrides(x.shape());
    CopyDims copy;
    for (int d = 0; d < x.rank(); ++d) copy.push_back({x.dim(d), strides[d], strides[d]});
    copy[batch].size = 1;
    for (size_t i = 0; i < n.size(); ++i) {
      const int64_t base = static_cast<int64_t>(i) * strides[batch];
      auto part = [&](int64_t from, int64_t to, int64_t size, int64_t step) {
        copy[seq] = {size, step, strides[seq]};
        CopyStrided(x.dtype(), ElementAt(x.dtype(), x.raw(), base + from * strides[seq]),
                    ElementAt(x.dtype(), y->mutable_raw(), base + to * strides[seq]), copy);
      };
      if (n[i] > 0) part(n[i] - 1, 0, n[i], -strides[seq]);
      if (n[i] < x.dim(seq)) part(n[i], n[i], x.dim(seq) - n[i], strides[seq]);
    }
    return absl::OkStatus();
  });
}

// Each rolled dimension falls into two pieces that change places: copies all combinations of them.
void CopyRolled(const Tensor& x, Tensor& y, const Dims& shifts, const Dims& strides, int d,
                CopyDims& copy, int64_t from, int64_t to) {
  if (d == x.rank()) {
    CopyStrided(x.dtype(), ElementAt(x.dtype(), x.raw(), from),
                ElementAt(x.dtype(), y.mutable_raw(), to), copy);
    return;
  }
  const int64_t n = x.dim(d);
  copy[d].size = n - shifts[d];
  CopyRolled(x, y, shifts, strides, d + 1, copy, from, to + shifts[d] * strides[d]);
  if (shifts[d] == 0) return;
  copy[d].size = shifts[d];
  CopyRolled(x, y, shifts, strides, d + 1, copy, from + (n - shifts[d]) * strides[d], to);
}

absl::StatusOr<KernelFn> MakeRoll(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Dims shifts,
                              PrepareRoll(x.shape().dims(), ctx.input(1), ctx.input(2)));
    int rolled = 0;
    for (int64_t value : shifts) rolled += value != 0;
    if (rolled == 0 || x.num_elements() == 0) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
    const Dims strides = RowMajorStrides(x.shape());
    CopyDims copy;
    for (int d = 0; d < x.rank(); ++d) copy.push_back({x.dim(d), strides[d], strides[d]});
    // Every rolled dimension has two entries or more, so the combinations are bounded by the
    // elements.
    CopyRolled(x, *y, shifts, strides, 0, copy, 0, 0);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayPermuteKernels(KernelRegistry& registry) {
  registry.Add("Transpose", MakeTranspose);
  registry.Add("ConjugateTranspose", MakeConjugateTranspose);
  registry.Add("ReverseV2", MakeReverseV2);
  registry.Add("ReverseSequence", MakeReverseSequence);
  registry.Add("Roll", MakeRoll);
}

}  // namespace formwork
