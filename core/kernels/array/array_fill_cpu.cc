// Ops whose result is larger than what they are given: Fill, ZerosLike, OnesLike, Range, Tile,
// BroadcastTo, Empty, FakeParam.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/checked_math.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeFill(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(0), "dims"));
    if (value.num_elements() != 1) {
      return InvalidArgument("value must represent a scalar, got shape ", value.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, value.dtype(), shape));
    FillElements(value.dtype(), value.raw(), shape.num_elements(), out->mutable_raw());
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeZerosLike(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZerosLike(ctx.allocator(), ctx.input(0)));
    ctx.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  });
}

absl::StatusOr<Tensor> OneOf(DType dtype) {
  switch (dtype) {
    FORMWORK_INTEGER_CASES(return Tensor::Scalar<T>(1))
    FORMWORK_FLOAT_CASES(return Tensor::Scalar<T>(T(1.0f)))
    FORMWORK_COMPLEX_CASES(return Tensor::Scalar<T>(T(1)))
    case DType::kBool:
      return Tensor::Scalar<bool>(true);
    default:
      return Unimplemented("OnesLike: dtype ", DTypeName(dtype), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeOnesLike(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor one, OneOf(init.input_dtypes()[0]));
  return KernelFn([one = std::move(one)](KernelContext& ctx) -> absl::Status {
    const Shape shape = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, one.dtype(), shape));
    FillElements(one.dtype(), one.raw(), shape.num_elements(), out->mutable_raw());
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeEmpty(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(DType dtype, init.attrs().Get<DType>("dtype"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(0), "shape"));
    // Zeros even where `init` is false: memory of other calls must not be seen.
    FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dtype, shape));
    ctx.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  });
}

// Stands for a value that the branch of a conditional has not made, and that nobody looks at.
// TensorFlow gives dimensions that are not known the size 0.
absl::StatusOr<KernelFn> MakeFakeParam(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(DType dtype, init.attrs().Get<DType>("dtype"));
  FORMWORK_ASSIGN_OR_RETURN(PartialShape declared, init.attrs().Get<PartialShape>("shape"));
  for (int i = 0; i < declared.rank(); ++i) {
    declared.set_dim(i, std::max<int64_t>(declared.dim(i), 0));
  }
  if (!declared.known_rank()) declared = PartialShape::OfRank(0);
  const std::optional<Shape> shape = declared.ToShape();
  if (!shape) return InvalidArgument("FakeParam: shape is too large: ", declared.ToString());
  return KernelFn([dtype, shape = *shape](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dtype, shape));
    ctx.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  });
}

absl::Status TooManySteps() {
  return InvalidArgument("Requires ((limit - start) / delta) <= ",
                         std::numeric_limits<int64_t>::max());
}

// In unsigned arithmetic no distance overflows.
template <typename T>
absl::StatusOr<int64_t> CountSteps(T start, T limit, T delta) {
  static_assert(std::is_integral_v<T>);
  const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
  const uint64_t distance = delta > 0 ? to - from : from - to;
  const uint64_t width = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
  const uint64_t n = distance / width + (distance % width != 0 ? 1 : 0);
  if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return TooManySteps();
  return static_cast<int64_t>(n);
}

absl::StatusOr<int64_t> CountRoundedSteps(double quotient) {
  const double n = std::ceil(std::abs(quotient));
  if (!(n < 9223372036854775807.0)) return TooManySteps();
  return static_cast<int64_t>(n);
}

// The quotient is rounded as T rounds it: whether a last step fits depends on that.
template <typename T>
double StepQuotient(T start, T limit, T delta) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>((limit - start) / delta);
  } else {
    const T distance(static_cast<float>(limit) - static_cast<float>(start));
    return static_cast<float>(T(static_cast<float>(distance) / static_cast<float>(delta)));
  }
}

// What TensorFlow requires of Range's inputs, in its words. `Wide` is a type to compare and print.
template <typename Wide>
absl::Status CheckRange(Wide start, Wide limit, Wide delta) {
  if (delta == 0) return InvalidArgument("Requires delta != 0: ", delta);
  if (delta > 0 && !(start <= limit)) {
    return InvalidArgument("Requires start <= limit when delta > 0: ", start, "/", limit);
  }
  if (!(delta > 0) && !(start >= limit)) {
    return InvalidArgument("Requires start >= limit when delta < 0: ", start, "/", limit);
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if constexpr (std::is_integral_v<T>) {
    FORMWORK_RETURN_IF_ERROR(CheckRange<T>(start, limit, delta));
    return CountSteps(start, limit, delta);
  } else {
    // Through float, which half and bfloat16 convert to; double stays.
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    FORMWORK_RETURN_IF_ERROR(CheckRange<Wide>(static_cast<Wide>(start), static_cast<Wide>(limit),
                                              static_cast<Wide>(delta)));
    return CountRoundedSteps(StepQuotient(start, limit, delta));
  }
}

template <typename T>
absl::Status Range(KernelContext& ctx) {
  const T start = ctx.input(0).scalar<T>();
  const T delta = ctx.input(2).scalar<T>();
  FORMWORK_ASSIGN_OR_RETURN(int64_t n, RangeSize<T>(start, ctx.input(1).scalar<T>(), delta));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DTypeOf<T>::value, Shape{n}));
  T* to = out->mutable_data<T>();
  ParallelFor(n, 1 << 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_integral_v<T>) {
        // The product stays within the limits for every element that exists.
        to[i] = static_cast<T>(static_cast<uint64_t>(start) +
                               static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
      } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        to[i] = start + static_cast<T>(i) * delta;
      } else {
        // TensorFlow rounds the index and the product too.
        const T product(static_cast<float>(T(static_cast<float>(i))) * static_cast<float>(delta));
        to[i] = T(static_cast<float>(start) + static_cast<float>(product));
      }
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeRange(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    constexpr absl::string_view kNames[] = {"start", "limit", "delta"};
    for (int i = 0; i < 3; ++i) {
      if (ctx.input(i).num_elements() != 1) {
        return InvalidArgument(kNames[i], " must be a scalar, not shape ",
                               ctx.input(i).shape().ToString());
      }
    }
    switch (dtype) {
      FORMWORK_REAL_CASES(return Range<T>(ctx))
      default:
        return Unimplemented("Range: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

absl::StatusOr<KernelFn> MakeTile(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& multiples = ctx.input(1);
    const int rank = input.rank();
    if (multiples.rank() != 1) {
      return InvalidArgument("Expected multiples to be 1-D, but got shape ",
                             multiples.shape().ToString());
    }
    if (multiples.num_elements() != rank) {
      return InvalidArgument("Expected multiples argument to be a vector of length ", rank,
                             " but got length ", multiples.num_elements());
    }
    FORMWORK_ASSIGN_OR_RETURN(Dims times, IntegersOf(multiples, "Tile: multiples"));
    Dims dims;
    bool same = true;
    for (int d = 0; d < rank; ++d) {
      if (times[d] < 0) {
        return InvalidArgument("Expected multiples[", d, "] >= 0, but got ", times[d]);
      }
      std::optional<int64_t> dim = CheckedMul(input.dim(d), times[d]);
      if (!dim) {
        return InvalidArgument("Tile: dimension ", d, " overflows: ", input.dim(d), " * ",
                               times[d]);
      }
      dims.push_back(*dim);
      same = same && times[d] == 1;
    }
    if (same) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const Dims from = RowMajorStrides(input.shape());
    const Dims to = RowMajorStrides(shape);
    CopyDims copy;
    for (int d = 0; d < rank; ++d) {
      copy.push_back({times[d], 0, input.dim(d) * to[d]});
      copy.push_back({input.dim(d), from[d], to[d]});
    }
    CopyStrided(input.dtype(), input.raw(), out->mutable_raw(), copy);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBroadcastTo(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    if (ctx.input(1).rank() != 1) {
      return InvalidArgument("shape must be a vector of {int32,int64}, got shape ",
                             ctx.input(1).shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(1), "shape"));
    if (shape == input.shape()) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    const int rank = shape.rank();
    if (input.rank() > rank) {
      return InvalidArgument("Rank of input (", input.rank(),
                             ") must be no greater than rank of output shape (", rank, ").");
    }
    const int pad = rank - input.rank();
    for (int d = pad; d < rank; ++d) {
      if (input.dim(d - pad) != shape.dim(d) && input.dim(d - pad) != 1) {
        return InvalidArgument("Incompatible shapes: ", input.shape().ToString(), " vs. ",
                               shape.ToString());
      }
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const Dims from = RowMajorStrides(input.shape());
    const Dims to = RowMajorStrides(shape);
    CopyDims copy;
    for (int d = 0; d < rank; ++d) {
      const bool repeated = d < pad || input.dim(d - pad) == 1;
      copy.push_back({shape.dim(d), repeated ? 0 : from[d - pad], to[d]});
    }
    CopyStrided(input.dtype(), input.raw(), out->mutable_raw(), copy);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayFillKernels(KernelRegistry& registry) {
  registry.Add("Fill", MakeFill);
  registry.Add("ZerosLike", MakeZerosLike);
  registry.Add("OnesLike", MakeOnesLike);
  registry.Add("Empty", MakeEmpty);
  registry.Add("FakeParam", MakeFakeParam);
  registry.Add("Range", MakeRange);
  registry.Add("Tile", MakeTile);
  registry.Add("BroadcastTo", MakeBroadcastTo);
}

}  // namespace formwork
