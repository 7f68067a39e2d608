// Ops whose result is larger than what they are given: Fill, ZerosLike, OnesLike, Range, LinSpace,
// Tile, BroadcastTo, Empty, FakeParam.

#include <algorithm>
#include <optional>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/array/array_cpu.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/dims.h"
#include "core/ops/fill.h"
#include "core/ops/function.h"
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
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(ctx.input(0), "shape"));
    // Zeros even where `init` is false: memory of other calls must not be seen.
    FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dtype, shape));
    ctx.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  });
}

// Stands for a value that the branch of a conditional has not made, and that nobody looks at.
absl::StatusOr<KernelFn> MakeFakeParam(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const ShapeAttrs attrs, ShapeAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, PrepareFakeParam(attrs));
  return KernelFn([dtype, shape = std::move(shape)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dtype, shape));
    ctx.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  });
}

template <typename T>
absl::Status Range(KernelContext& ctx, int64_t n) {
  const T start = ctx.input(0).scalar<T>();
  const T delta = ctx.input(2).scalar<T>();
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DTypeOf<T>::value, Shape{n}));
  T* to = out->mutable_data<T>();
  ParallelFor(n, 1 << 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T index;
      if constexpr (math::kIsSmallFloat<T>) {
        index = T(static_cast<float>(i));  // Which TensorFlow rounds too.
      } else {
        index = static_cast<T>(i);
      }
      to[i] = math::Add(start, math::Mul(index, delta));
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeRange(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t n,
                              PrepareRange(ctx.input(0), ctx.input(1), ctx.input(2)));
    switch (dtype) {
      FORMWORK_REAL_CASES(return Range<T>(ctx, n))
      default:
        return Unimplemented("Range: dtype ", DTypeName(dtype), " is not supported");
    }
  });
}

template <typename T>
absl::Status LinSpace(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      const int64_t n,
      PrepareLinSpace(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(), &ctx.input(2)));
  const T start = ctx.input(0).scalar<T>(), stop = ctx.input(1).scalar<T>();
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, DTypeOf<T>::value, Shape{n}));
  T* const to = out->mutable_data<T>();
  const T step = (stop - start) / static_cast<T>(std::max<int64_t>(n - 1, 1));
  ParallelFor(n, 1 << 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = start + step * static_cast<T>(i);
  });
  to[n - 1] = stop;
  to[0] = start;
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeLinSpace(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  switch (dtype) {
    FORMWORK_CASE(float, return KernelFn(LinSpace<T>))
    FORMWORK_CASE(double, return KernelFn(LinSpace<T>))
    default:
      return Unimplemented("LinSpace: dtype ", DTypeName(dtype), " is not supported");
  }
}

absl::StatusOr<KernelFn> MakeTile(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TileGeometry geometry,
                              PrepareTile(input.shape().dims(), ctx.input(1)));
    const Dims& times = geometry.times;
    if (std::all_of(times.begin(), times.end(), [](int64_t n) { return n == 1; })) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, input.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const Dims from = RowMajorStrides(input.shape());
    const Dims to = RowMajorStrides(shape);
    CopyDims copy;
    for (int d = 0; d < input.rank(); ++d) {
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
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                              PrepareBroadcastTo(input.shape().dims(), ctx.input(1)));
    if (shape == input.shape()) {
      ctx.SetOutput(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    const int rank = shape.rank();
    const int pad = rank - input.rank();
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
  registry.Add("LinSpace", MakeLinSpace);
  registry.Add("Tile", MakeTile);
  registry.Add("BroadcastTo", MakeBroadcastTo);
}

}  // namespace formwork
