// Pack, Unpack, ConcatV2, Split and SplitV.

#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/kernels/array_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/stack.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

using TensorPtrs = absl::InlinedVector<const Tensor*, 8>;

// Sizes of one dimension each, made into a shape: no general machinery.
template <typename E>
bool PackScalars(KernelContext& ctx, DType dtype) {
  const int n = ctx.num_inputs();
  for (int i = 0; i < n; ++i) {
    if (!ctx.input(i).shape().is_scalar()) return false;
  }
  absl::StatusOr<Tensor*> out = ctx.AllocateOutput(0, dtype, Shape{n});
  if (!out.ok()) return false;
  E* to = static_cast<E*>((*out)->mutable_raw());
  for (int i = 0; i < n; ++i) to[i] = *static_cast<const E*>(ctx.input(i).raw());
  return true;
}

absl::StatusOr<KernelFn> MakePack(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(int64_t axis, init.attrs().Get<int64_t>("axis"));
  if (axis < -kMaxRank || axis > kMaxRank) return InvalidArgument("Pack: axis = ", axis);
  const DType dtype = init.input_dtypes()[0];
  const bool words4 = IsPlainData(dtype) && DTypeSize(dtype) == 4 && (axis == 0 || axis == -1);
  return KernelFn(
      [axis = static_cast<int>(axis), dtype, words4](KernelContext& ctx) -> absl::Status {
        if (words4 && PackScalars<Word4>(ctx, dtype)) return absl::OkStatus();
        TensorPtrs tensors;
        for (int i = 0; i < ctx.num_inputs(); ++i) tensors.push_back(&ctx.input(i));
        absl::StatusOr<Tensor> result = StackTensors(ctx.allocator(), tensors, axis);
        if (!result.ok()) return std::move(result).status();
        if (ctx.num_inputs() == 1) {
          // Let go of the input's hold, so that the next op may write in place.
          const Shape shape = result->shape();
          result = absl::StatusOr<Tensor>();
          ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
          return absl::OkStatus();
        }
        ctx.SetOutput(0, *std::move(result));
        return absl::OkStatus();
      });
}

absl::StatusOr<KernelFn> MakeConcatV2(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const int n = ctx.num_inputs() - 1;
    const Tensor& axis_tensor = ctx.input(n);
    if (axis_tensor.num_elements() != 1) {
      return InvalidArgument("axis tensor should be a scalar integer, but got shape ",
                             axis_tensor.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(int64_t axis, IntegerFromTensor(axis_tensor, "axis"));
    TensorPtrs tensors;
    for (int i = 0; i < n; ++i) tensors.push_back(&ctx.input(i));
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, ConcatTensors(ctx.allocator(), tensors, axis));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

// Writes value[..., begin : begin + size, ...] along `axis` to output i, as `shape`.
absl::Status OutputPart(KernelContext& ctx, int i, const Tensor& value, int axis, int64_t begin,
                        int64_t size, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i, value.dtype(), shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const absl::Span<const int64_t> dims = value.shape().dims();
  const int64_t inner = ProductOf(dims.subspan(static_cast<size_t>(axis) + 1));
  const int64_t rows = ProductOf(dims.first(static_cast<size_t>(axis)));
  CopyStrided(value.dtype(), ElementAt(value.dtype(), value.raw(), begin * inner),
              out->mutable_raw(),
              {{rows, value.dim(axis) * inner, size * inner}, {size * inner, 1, 1}});
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeUnpack(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(int64_t axis, init.attrs().Get<int64_t>("axis"));
  return KernelFn([axis](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    const int rank = value.rank();
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) {
      return InvalidArgument("axis = ", axis, " not in [", -rank, ", ", rank, ")");
    }
    const int n = ctx.num_outputs();
    if (value.dim(static_cast<int>(at)) != n) {
      return InvalidArgument("Input shape axis ", at, " must equal ", n, ", got shape ",
                             value.shape().ToString());
    }
    Dims dims(value.shape().dims().begin(), value.shape().dims().end());
    dims.erase(dims.begin() + at);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    if (n == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
      return absl::OkStatus();
    }
    for (int i = 0; i < n; ++i) {
      FORMWORK_RETURN_IF_ERROR(OutputPart(ctx, i, value, static_cast<int>(at), i, 1, shape));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<int> SplitDim(const Tensor& split_dim, int rank) {
  if (split_dim.num_elements() != 1 || split_dim.rank() > 0) {
    return InvalidArgument("split_dim must be a scalar but has rank ", split_dim.rank());
  }
  FORMWORK_ASSIGN_OR_RETURN(int64_t dim, IntegerFromTensor(split_dim, "split_dim"));
  const int64_t at = dim < 0 ? dim + rank : dim;
  if (at < 0 || at >= rank) {
    return InvalidArgument("-input rank(-", rank, ") <= split_dim < input rank (", rank,
                           "), but got ", dim);
  }
  return static_cast<int>(at);
}

absl::StatusOr<KernelFn> MakeSplit(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(int axis, SplitDim(ctx.input(0), value.rank()));
    const int n = ctx.num_outputs();
    if (value.dim(axis) % n != 0) {
      return InvalidArgument(
          "Number of ways to split should evenly divide the split dimension, "
          "but got split_dim ",
          axis, " (size = ", value.dim(axis), ") and num_split ", n);
    }
    if (n == 1) {
      ctx.SetOutput(0, ctx.TakeInput(1));
      return absl::OkStatus();
    }
    const int64_t size = value.dim(axis) / n;
    Dims dims(value.shape().dims().begin(), value.shape().dims().end());
    dims[axis] = size;
    const Shape shape = Shape::Trusted(dims);
    for (int i = 0; i < n; ++i) {
      FORMWORK_RETURN_IF_ERROR(OutputPart(ctx, i, value, axis, i * size, size, shape));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Dims> SplitSizes(const Tensor& sizes, int n, int64_t total) {
  if (sizes.rank() != 1 || sizes.num_elements() != n) {
    return InvalidArgument(
        "size of the split_tensor must be 1-D and have the same elements as "
        "outputs got ",
        sizes.rank(), " -D and ", sizes.num_elements(), " elements");
  }
  Dims values;
  if (sizes.dtype() == DType::kInt8) {
    for (int8_t size : sizes.span<int8_t>()) values.push_back(size);
  } else {
    FORMWORK_ASSIGN_OR_RETURN(values, IntegersOf(sizes, "SplitV: size_splits"));
  }
  int unknown = -1;
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) {
    if (values[i] == -1) {
      if (unknown >= 0) return InvalidArgument("There can only be one -1 in the input.");
      unknown = i;
      continue;
    }
    if (values[i] < 0) {
      return InvalidArgument("Split size at index ", i, " must be >= 0. Got: ", values[i]);
    }
    if (__builtin_add_overflow(sum, values[i], &sum)) {
      return InvalidArgument("SplitV: the sum of the sizes overflows");
    }
  }
  if (unknown >= 0 ? sum > total : sum != total) {
    return InvalidArgument(
        "Determined shape must either match input shape along split_dim exactly if fully "
        "specified, or be less than the size of the input along split_dim if not fully specified. "
        " Got: ",
        sum);
  }
  if (unknown >= 0) values[unknown] = total - sum;
  return values;
}

absl::StatusOr<KernelFn> MakeSplitV(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(int axis, SplitDim(ctx.input(2), value.rank()));
    const int n = ctx.num_outputs();
    FORMWORK_ASSIGN_OR_RETURN(Dims sizes, SplitSizes(ctx.input(1), n, value.dim(axis)));
    if (n == 1) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    Dims dims(value.shape().dims().begin(), value.shape().dims().end());
    int64_t begin = 0;
    for (int i = 0; i < n; ++i) {
      dims[axis] = sizes[i];
      FORMWORK_RETURN_IF_ERROR(
          OutputPart(ctx, i, value, axis, begin, sizes[i], Shape::Trusted(dims)));
      begin += sizes[i];
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayJoinKernels(KernelRegistry& registry) {
  registry.Add("Pack", MakePack);
  registry.Add("Unpack", MakeUnpack);
  registry.Add("ConcatV2", MakeConcatV2);
  registry.Add("Split", MakeSplit);
  registry.Add("SplitV", MakeSplitV);
}

}  // namespace formwork
