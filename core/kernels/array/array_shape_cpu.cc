// Ops that look at shapes or change nothing but the shape: no element is touched.

#include <algorithm>
#include <limits>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/ops/host_values.h"
#include "core/ops/reshape.h"

namespace formwork {
namespace {

absl::Status OutputShape(KernelContext& ctx, int i, DType dtype, const Shape& shape) {
  if (dtype == DType::kInt32) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) > std::numeric_limits<int32_t>::max()) {
        return InvalidArgument("Shape output type is 32-bit but dim ", d, " is ", shape.dim(d));
      }
    }
  }
  return OutputIntegers(ctx, i, dtype, shape.dims());
}

// Shape and ShapeN: one vector for each input.
absl::StatusOr<KernelFn> MakeShape(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      FORMWORK_RETURN_IF_ERROR(OutputShape(ctx, i, dtype, ctx.input(i).shape()));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSize(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const int64_t size = ctx.input(0).num_elements();
    if (dtype == DType::kInt64) {
      ctx.SetOutput(0, Tensor::Scalar<int64_t>(size));
    } else if (size > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument(
          "Number of elements was larger than representable by 32-bit output "
          "type: ",
          size);
    } else {
      ctx.SetOutput(0, Tensor::Scalar<int32_t>(static_cast<int32_t>(size)));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeRank(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    ctx.SetOutput(0, Tensor::Scalar<int32_t>(ctx.input(0).rank()));
    return absl::OkStatus();
  });
}

// Output 0: input 0 as `dims`, which have as many elements.
absl::Status OutputReshaped(KernelContext& ctx, const Dims& dims) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeReshape(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareReshape(ctx.input(0).shape().dims(), ctx.input(1)));
    return OutputReshaped(ctx, dims);
  });
}

absl::StatusOr<KernelFn> MakeSqueeze(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(SqueezeAttrs attrs, SqueezeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareSqueeze(attrs, ctx.input(0).shape().dims()));
    return OutputReshaped(ctx, dims);
  });
}

absl::StatusOr<KernelFn> MakeExpandDims(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareExpandDims(ctx.input(0).shape().dims(), ctx.input(1)));
    return OutputReshaped(ctx, dims);
  });
}

absl::StatusOr<KernelFn> MakeBitcast(KernelInit& init) {
  const DType from = init.input_dtypes()[0];
  const DType to = init.output_dtypes()[0];
  if (!IsPlainData(from) || !IsPlainData(to)) {
    return Unimplemented("Bitcast: dtypes ", DTypeName(from), " to ", DTypeName(to),
                         " are not supported");
  }
  return KernelFn([from, to](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              PrepareBitcast(ctx.input(0).shape().dims(), from, to));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape).Recast(to));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeConcatOffset(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& dim_tensor = ctx.input(0);
    if (!dim_tensor.shape().is_scalar()) {
      return InvalidArgument("Concat dim tensor should be a scalar, but got shape ",
                             dim_tensor.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(int64_t concat_dim, IntegerFromTensor(dim_tensor, "concat_dim"));
    Dims first;
    Dims offset;
    int64_t at = 0;
    int64_t position = 0;
    for (int i = 1; i < ctx.num_inputs(); ++i) {
      const Tensor& input = ctx.input(i);
      if (input.rank() != 1) {
        return InvalidArgument("input ", i - 1, " should be a vector, but got shape ",
                               input.shape().ToString());
      }
      FORMWORK_ASSIGN_OR_RETURN(Dims dims, IntegersOf(input, "ConcatOffset: shape"));
      const int64_t rank = static_cast<int64_t>(dims.size());
      if (i == 1) {
        at = concat_dim < 0 ? concat_dim + rank : concat_dim;
        if (at < 0 || at >= rank) {
          return InvalidArgument("Concat dim is out of range: ", concat_dim, " vs. ", rank);
        }
        first = dims;
        offset.assign(dims.size(), 0);
      } else if (dims.size() != first.size()) {
        return InvalidArgument("input ", i - 1, " should contain ", first.size(),
                               " elements, but got ", dims.size());
      }
      for (int64_t d = 0; d < rank; ++d) {
        if (d == at || dims[d] == first[d]) continue;
        return InvalidArgument("All dimensions except ", at, " must match. Input ", i - 1,
                               " has shape [", absl::StrJoin(dims, " "),
                               "] and doesn't match input 0 with shape [",
                               absl::StrJoin(first, " "), "].");
      }
      offset[at] = position;
      FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, i - 1, dtype, offset));
      if (__builtin_add_overflow(position, dims[at], &position)) {
        return InvalidArgument("ConcatOffset: the offsets overflow");
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<Dims> VectorInput(const KernelContext& ctx, int i) {
  const Tensor& input = ctx.input(i);
  if (input.rank() != 1) {
    return InvalidArgument("In[", i, "] must be a vector.", input.shape().ToString());
  }
  return IntegersOf(input, "shape");
}

absl::Status Incompatible(const Dims& a, const Dims& b) {
  return InvalidArgument("Incompatible shapes: [", absl::StrJoin(a, ","), "] vs. [",
                         absl::StrJoin(b, ","), "]");
}

// Which axes a gradient is summed over to take the shape of each operand of a broadcast.
absl::StatusOr<KernelFn> MakeBroadcastGradientArgs(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Dims a, VectorInput(ctx, 0));
    FORMWORK_ASSIGN_OR_RETURN(Dims b, VectorInput(ctx, 1));
    Dims reduce_a, reduce_b;
    if (a != b) {
      const size_t rank = std::max(a.size(), b.size());
      const size_t pad_a = rank - a.size();
      const size_t pad_b = rank - b.size();
      for (size_t d = 0; d < rank; ++d) {
        const int64_t x = d < pad_a ? 1 : a[d - pad_a];
        const int64_t y = d < pad_b ? 1 : b[d - pad_b];
        if (x != y && x != 1 && y != 1) return Incompatible(a, b);
        // Where both are 1 both are listed, as TensorFlow does.
        if (x == 1) reduce_a.push_back(static_cast<int64_t>(d));
        if (y == 1) reduce_b.push_back(static_cast<int64_t>(d));
      }
    }
    FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, 0, dtype, reduce_a));
    return OutputIntegers(ctx, 1, dtype, reduce_b);
  });
}

absl::StatusOr<KernelFn> MakeBroadcastArgs(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Dims a, VectorInput(ctx, 0));
    FORMWORK_ASSIGN_OR_RETURN(Dims b, VectorInput(ctx, 1));
    const Dims& longer = a.size() >= b.size() ? a : b;
    const Dims& shorter = a.size() >= b.size() ? b : a;
    Dims out = longer;
    const size_t pad = longer.size() - shorter.size();
    for (size_t d = 0; d < shorter.size(); ++d) {
      const int64_t x = longer[d + pad];
      const int64_t y = shorter[d];
      if (x != y && x != 1 && y != 1) return Incompatible(a, b);
      out[d + pad] = x == 1 ? y : x;
    }
    return OutputIntegers(ctx, 0, dtype, out);
  });
}

template <typename T>
absl::Status InvertPermutation(KernelContext& ctx, const Tensor& x) {
  const int64_t n = x.num_elements();
  const T* from = x.data<T>();
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, x.dtype(), x.shape()));
  T* to = out->mutable_data<T>();
  const T none{-1};
  FillElements(x.dtype(), &none, n, to);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  for (int64_t i = 0; i < n; ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const T at = from[i];
    if (at < 0 || at >= n) return InvalidArgument(at, " is not between 0 and ", n);
    if (to[at] != -1) return InvalidArgument(at, " is duplicated in the input.");
    to[at] = static_cast<T>(i);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeInvertPermutation(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    if (x.rank() != 1) return InvalidArgument("invert_permutation expects a 1D vector.");
    if (x.dtype() == DType::kInt32) return InvertPermutation<int32_t>(ctx, x);
    return InvertPermutation<int64_t>(ctx, x);
  });
}

}  // namespace

void RegisterArrayShapeKernels(KernelRegistry& registry) {
  registry.Add("Shape", MakeShape);
  registry.Add("ShapeN", MakeShape);
  registry.Add("Size", MakeSize);
  registry.Add("Rank", MakeRank);
  registry.Add("Reshape", MakeReshape);
  registry.Add("Squeeze", MakeSqueeze);
  registry.Add("ExpandDims", MakeExpandDims);
  registry.Add("Bitcast", MakeBitcast);
  registry.Add("ConcatOffset", MakeConcatOffset);
  registry.Add("BroadcastGradientArgs", MakeBroadcastGradientArgs);
  registry.Add("BroadcastArgs", MakeBroadcastArgs);
  registry.Add("InvertPermutation", MakeInvertPermutation);
}

}  // namespace formwork
