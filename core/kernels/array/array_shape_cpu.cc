// Ops that look at shapes or change nothing but the shape: no element is touched.

#include <algorithm>
#include <limits>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/ops/host_values.h"

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

absl::StatusOr<Shape> ReshapedShape(const Tensor& input, const Tensor& sizes) {
  if (sizes.rank() > 1) {
    return InvalidArgument("sizes input must be 1-D, not ", sizes.shape().ToString());
  }
  if (sizes.num_elements() > kMaxRank) {
    return InvalidArgument("shape has too many dimensions: rank=", sizes.num_elements(),
                           " limit=", kMaxRank);
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, IntegersOf(sizes, "Reshape: shape"));
  int unknown = -1;
  int64_t product = 1;
  bool zero = false;  // A zero excuses any overflow of the others.
  bool overflow = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      if (unknown >= 0) {
        return InvalidArgument("Only one input size may be -1, not both ", unknown, " and ", i);
      }
      unknown = static_cast<int>(i);
    } else if (dims[i] < 0) {
      return InvalidArgument("Size ", i, " must be non-negative, not ", dims[i]);
    } else if (dims[i] == 0) {
      zero = true;
    } else {
      std::optional<int64_t> next = CheckedMul(product, dims[i]);
      overflow = overflow || !next;
      product = next.value_or(0);
    }
  }
  if (overflow) {
    return InvalidArgument("Shape [", absl::StrJoin(dims, ", "), "] has too many elements");
  }
  const int64_t elements = input.num_elements();
  if (unknown >= 0) {
    if (zero) {
      // As TensorFlow: among zeros the missing size follows from the sizes that are not zero,
      // rounded down.
      if (elements != 0) {
        return InvalidArgument("Input to reshape is a tensor with ", elements,
                               " values, but the requested shape has 0");
      }
      int64_t nonzero = 1;
      for (int64_t dim : input.shape().dims()) {
        if (dim != 0 && __builtin_mul_overflow(nonzero, dim, &nonzero)) nonzero = 0;
      }
      dims[unknown] = nonzero / product;
    } else {
      if (elements % product != 0) {
        return InvalidArgument("Input to reshape is a tensor with ", elements,
                               " values, but the requested shape requires a multiple of ", product);
      }
      dims[unknown] = elements / product;
    }
  } else if ((zero ? 0 : product) != elements) {
    return InvalidArgument("Input to reshape is a tensor with ", elements,
                           " values, but the requested shape has ", zero ? 0 : product);
  }
  return Shape::Make(dims);
}

absl::StatusOr<KernelFn> MakeReshape(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ReshapedShape(ctx.input(0), ctx.input(1)));
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSqueeze(KernelInit& init) {
  auto axes = init.attrs().GetOr<std::vector<int64_t>>("squeeze_dims", {});
  return KernelFn([axes = std::move(axes)](KernelContext& ctx) -> absl::Status {
    const Shape& shape = ctx.input(0).shape();
    const int rank = shape.rank();
    absl::InlinedVector<bool, 8> squeezed(static_cast<size_t>(rank), axes.empty());
    for (int64_t axis : axes) {
      if (axis < -rank || axis >= rank) {
        return InvalidArgument("Tried to squeeze dim index ", axis, " for tensor with ", rank,
                               " dimensions.");
      }
      const int64_t at = axis < 0 ? axis + rank : axis;
      if (shape.dim(static_cast<int>(at)) != 1) {
        return InvalidArgument("Can not squeeze dim[", at, "], expected a dimension of 1, got ",
                               shape.dim(static_cast<int>(at)));
      }
      squeezed[at] = true;
    }
    Dims dims;
    for (int d = 0; d < rank; ++d) {
      if (!squeezed[d] || shape.dim(d) != 1) dims.push_back(shape.dim(d));
    }
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(Shape::Trusted(dims)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeExpandDims(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    if (ctx.input(1).num_elements() != 1) {
      return InvalidArgument("'dim' must be a tensor with a single value");
    }
    FORMWORK_ASSIGN_OR_RETURN(int64_t dim, IntegerFromTensor(ctx.input(1), "dim"));
    const int rank = input.rank();
    if (dim < -1 - rank || dim > rank) {
      return InvalidArgument("Tried to expand dim index ", dim, " for tensor with ", rank,
                             " dimensions.");
    }
    if (dim < 0) dim += rank + 1;
    Dims dims(input.shape().dims().begin(), input.shape().dims().end());
    dims.insert(dims.begin() + dim, 1);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(shape));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBitcast(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(DType to, init.attrs().Get<DType>("type"));
  const DType from = init.input_dtypes()[0];
  if (!IsPlainData(from) || !IsPlainData(to)) {
    return Unimplemented("Bitcast: dtypes ", DTypeName(from), " to ", DTypeName(to),
                         " are not supported");
  }
  const int64_t from_size = static_cast<int64_t>(DTypeSize(from));
  const int64_t to_size = static_cast<int64_t>(DTypeSize(to));
  return KernelFn([from, to, from_size, to_size](KernelContext& ctx) -> absl::Status {
    const Shape& shape = ctx.input(0).shape();
    Dims dims(shape.dims().begin(), shape.dims().end());
    if (from_size > to_size) {
      dims.push_back(from_size / to_size);
    } else if (from_size < to_size) {
      const int64_t ratio = to_size / from_size;
      if (dims.empty() || dims.back() != ratio) {
        return InvalidArgument("Cannot bitcast from ", static_cast<int>(from), " to ",
                               static_cast<int>(to), ": ", DTypeName(from), shape.ToString(),
                               " to ", DTypeName(to));
      }
      dims.pop_back();
    }
    FORMWORK_ASSIGN_OR_RETURN(Shape out, Shape::Make(dims));
    ctx.SetOutput(0, ctx.TakeInput(0).Reshaped(out).Recast(to));
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
