// Transpose, ConjugateTranspose, ReverseV2, ReverseSequence and Roll.

#include <complex>

#include "absl/strings/str_join.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

absl::StatusOr<Dims> Permutation(const Tensor& perm, int rank) {
  if (perm.rank() != 1) {
    return InvalidArgument("perm must be rank 1, got shape ", perm.shape().ToString());
  }
  if (perm.num_elements() != rank) {
    return InvalidArgument("transpose expects a vector of size ", rank,
                           ". But input(1) is a vector of size ", perm.num_elements());
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims axes, IntegersOf(perm, "Transpose: perm"));
  absl::InlinedVector<bool, 8> seen(static_cast<size_t>(rank), false);
  for (int64_t& axis : axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
      return InvalidArgument(axis, " is out of range [0 .. ", rank, ")");
    }
    seen[axis] = true;
  }
  for (int d = 0; d < rank; ++d) {
    if (!seen[d]) {
      return InvalidArgument(d, " is missing from {", absl::StrJoin(axes, ","), "}.");
    }
  }
  return axes;
}

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
  FORMWORK_ASSIGN_OR_RETURN(Dims axes, Permutation(ctx.input(1), x.rank()));
  Dims dims;
  for (int64_t axis : axes) dims.push_back(x.dim(static_cast<int>(axis)));
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
    if (ctx.input(1).rank() != 1) {
      return InvalidArgument("'dims' must be 1-dimension, not ", ctx.input(1).rank());
    }
    FORMWORK_ASSIGN_OR_RETURN(Dims axes, IntegersOf(ctx.input(1), "ReverseV2: axis"));
    absl::InlinedVector<bool, 8> reversed(static_cast<size_t>(rank), false);
    bool any = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t at = axes[i] < 0 ? axes[i] + rank : axes[i];
      if (at < 0 || at >= rank) {
        return InvalidArgument("'axis'[", i, "] = ", axes[i], " is out of valid range [0, ",
                               rank - 1);
      }
      if (reversed[at]) return InvalidArgument("axis ", at, " specified more than once.");
      reversed[at] = true;
      any = any || x.dim(static_cast<int>(at)) > 1;
    }
    if (!any || x.num_elements() == 0) {
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
  const int64_t seq_dim = init.attrs().GetOr<int64_t>("seq_dim", 0);
  const int64_t batch_dim = init.attrs().GetOr<int64_t>("batch_dim", 0);
  return KernelFn([seq_dim, batch_dim](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    const Tensor& lengths = ctx.input(1);
    const int rank = x.rank();
    if (lengths.rank() != 1) {
      return InvalidArgument("seq_lengths must be 1-dim, not ", lengths.rank());
    }
    if (batch_dim == seq_dim) return InvalidArgument("batch_dim == seq_dim == ", seq_dim);
    if (seq_dim < 0 || seq_dim >= rank) {
      return InvalidArgument("seq_dim must be < input rank ( ", seq_dim, " vs. ", rank, ")");
    }
    if (batch_dim < 0 || batch_dim >= rank) {
      return InvalidArgument("batch_dim must be < input rank ( ", batch_dim, " vs. ", rank, ")");
    }
    const int seq = static_cast<int>(seq_dim);
    const int batch = static_cast<int>(batch_dim);
    if (lengths.num_elements() != x.dim(batch)) {
      return InvalidArgument("Length of seq_lengths != input.dims(", batch, "), (",
                             lengths.num_elements(), " vs. ", x.dim(batch), ")");
    }
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
    for (int d = 0; d < rank; ++d) copy.push_back({x.dim(d), strides[d], strides[d]});
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
    const Tensor& shift = ctx.input(1);
    const Tensor& axis = ctx.input(2);
    const int rank = x.rank();
    if (rank < 1) return InvalidArgument("input must be 1-D or higher");
    if (shift.rank() > 1) {
      return InvalidArgument("shift must be a scalar or a 1-D vector. Found: ",
                             shift.shape().ToString());
    }
    if (axis.rank() > 1) {
      return InvalidArgument("axis must be a scalar or a 1-D vector. Found: ",
                             axis.shape().ToString());
    }
    if (shift.shape() != axis.shape()) {
      return InvalidArgument("shift and axis must have the same size");
    }
    FORMWORK_ASSIGN_OR_RETURN(Dims by, IntegersOf(shift, "shift"));
    FORMWORK_ASSIGN_OR_RETURN(Dims axes, IntegersOf(axis, "axis"));
    Dims shifts(static_cast<size_t>(rank), 0);
    int rolled = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t at = axes[i] < 0 ? axes[i] + rank : axes[i];
      if (at < 0 || at >= rank) return InvalidArgument("axis ", axes[i], " is out of range");
      const int64_t n = x.dim(static_cast<int>(at));
      if (n == 0) continue;
      shifts[at] = ((shifts[at] + by[i] % n) % n + n) % n;
    }
    for (int64_t value : shifts) rolled += value != 0;
    if (rolled == 0 || x.num_elements() == 0) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.dtype(), x.shape()));
    const Dims strides = RowMajorStrides(x.shape());
    CopyDims copy;
    for (int d = 0; d < rank; ++d) copy.push_back({x.dim(d), strides[d], strides[d]});
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
