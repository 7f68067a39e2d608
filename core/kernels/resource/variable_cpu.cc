// Variables: reading, assigning, counting up and writing rows.

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/array/slice.h"
#include "core/kernels/gather/gather.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/ops/variable.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeRead(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor value, ctx.resources().Read(handle));
    FORMWORK_RETURN_IF_ERROR(CheckVariableRead(dtype, value));
    ctx.SetOutput(0, std::move(value));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeAssign(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool validate, init.attrs().Get<bool>("validate_shape"));
  return KernelFn([validate](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    if (validate && ctx.resources().IsInitialized(handle)) {
      FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ctx.resources().Read(handle));
      FORMWORK_RETURN_IF_ERROR(CheckVariableShape(value.shape(), ctx.input(1).shape()));
    }
    return ctx.resources().Assign(handle, ctx.TakeInput(1));
  });
}

// --- AssignAdd, AssignSub -----------------------------------------------------------------------

// `target` is the value, or the delta where kIntoDelta.
template <typename T, bool kSubtract, bool kIntoDelta>
void Accumulate(Tensor& target, const Tensor& other) {
  T* to = target.mutable_data<T>();
  const T* from = other.data<T>();
  const auto run = [to, from](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T value = kIntoDelta ? from[i] : to[i];
      const T delta = kIntoDelta ? to[i] : from[i];
      to[i] = kSubtract ? math::Sub(value, delta) : math::Add(value, delta);
    }
  };
  if (target.num_elements() <= 1 << 15) {
    run(0, target.num_elements());
  } else {
    ParallelFor(target.num_elements(), 1 << 15, run);
  }
}

using AccumulateFn = void (*)(Tensor& target, const Tensor& other);

template <bool kSubtract, bool kIntoDelta>
AccumulateFn AccumulateFor(DType dtype) {
  switch (dtype) {
    FORMWORK_NUMBER_CASES(return (&Accumulate<T, kSubtract, kIntoDelta>))
    default:
      return nullptr;
  }
}

// From here on the sum is made in the memory of a delta that nobody else needs: a stop can cut
// that, as it cannot where the variable's value is changed in place.
constexpr size_t kLargeDelta = size_t{16} << 20;

template <bool kSubtract>
absl::StatusOr<KernelFn> MakeAccumulate(KernelInit& init) {
  const DType dtype = init.input_dtypes()[1];
  const AccumulateFn into_value = AccumulateFor<kSubtract, false>(dtype);
  const AccumulateFn into_delta = AccumulateFor<kSubtract, true>(dtype);
  if (into_value == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([into_value, into_delta](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    const Tensor& delta = ctx.input(1);
    if (delta.bytes() >= kLargeDelta && ctx.CanOverwrite(1)) {
      FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ctx.resources().Read(handle));
      FORMWORK_RETURN_IF_ERROR(CheckVariableUpdate(value, delta));
      Tensor result = ctx.TakeInput(1);
      into_delta(result, value);
      return ctx.resources().Assign(handle, std::move(result));
    }
    return ctx.resources().Update(handle, 3 * delta.bytes(), [&](Tensor& value) -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(CheckVariableUpdate(value, delta));
      into_value(value, delta);
      return absl::OkStatus();
    });
  });
}

template <typename T>
absl::StatusOr<KernelFn> CountUpTo(int64_t limit) {
  return KernelFn([limit](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor* const output,
                              ctx.AllocateOutput(0, DTypeOf<T>::value, Shape()));
    return ctx.resources().Update(handle, 0, [&](Tensor& value) -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(CheckVariableRead(DTypeOf<T>::value, value));
      if (value.rank() != 0) {
        return InvalidArgument("Shape must be rank 0 but is rank ", value.rank());
      }
      const T before = value.scalar<T>();
      if (before >= limit) return absl::OutOfRangeError(absl::StrCat("Reached limit of ", limit));
      *output->mutable_data<T>() = before;
      *value.mutable_data<T>() = before + 1;
      return absl::OkStatus();
    });
  });
}

// Counts up by one, as far as the limit.
absl::StatusOr<KernelFn> MakeCountUpTo(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t limit, init.attrs().Get<int64_t>("limit"));
  return init.output_dtypes()[0] == DType::kInt64 ? CountUpTo<int64_t>(limit)
                                                  : CountUpTo<int32_t>(limit);
}

// Changes what a slice of the value holds.
absl::StatusOr<KernelFn> MakeAssignSlice(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SliceMasks masks, SliceMasks::FromAttrs(init.attrs()));
  return KernelFn([masks](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    const Tensor slice = ctx.input(4);
    return ctx.resources().Update(handle, 2 * slice.bytes(), [&](Tensor& value) -> absl::Status {
      FORMWORK_ASSIGN_OR_RETURN(const SliceBounds bounds,
                                PrepareStridedSlice(masks, value.shape().dims(), ctx.input(1),
                                                    ctx.input(2), ctx.input(3)));
      return AssignSlice(value, bounds, slice);
    });
  });
}

// --- What is known of a variable ----------------------------------------------------------------

absl::StatusOr<KernelFn> MakeVariableShape(KernelInit& init) {
  const bool wide = init.output_dtypes()[0] == DType::kInt64;
  return KernelFn([wide](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ctx.resources().Read(handle));
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor * output,
        ctx.AllocateOutput(0, wide ? DType::kInt64 : DType::kInt32, Shape({value.rank()})));
    for (int i = 0; i < value.rank(); ++i) {
      const int64_t dim = value.dim(i);
      if (wide) {
        output->mutable_data<int64_t>()[i] = dim;
      } else if (dim <= std::numeric_limits<int32_t>::max()) {
        output->mutable_data<int32_t>()[i] = static_cast<int32_t>(dim);
      } else {
        return InvalidArgument("VariableShape: dimension does not fit int32: ", dim);
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeIsInitialized(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    ctx.SetOutput(0, Tensor::Scalar(ctx.resources().IsInitialized(handle)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeDestroy(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool ignore, init.attrs().Get<bool>("ignore_lookup_error"));
  return KernelFn([ignore](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    return ctx.resources().Destroy(handle, ignore);
  });
}

// How TensorFlow shares a variable's buffer; ours are always copied on write where they are shared.
absl::StatusOr<KernelFn> MakeDisableCopyOnRead(KernelInit&) {
  return KernelFn([](KernelContext&) { return absl::OkStatus(); });
}

// --- Rows ---------------------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeGatherRows(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const GatherAttrs attrs, GatherAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor params, ctx.resources().Read(handle));
    FORMWORK_RETURN_IF_ERROR(CheckVariableRead(dtype, params));
    FORMWORK_ASSIGN_OR_RETURN(
        const GatherGeometry geometry,
        PrepareGatherRows(attrs, params.shape().dims(), ctx.input(1).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor output,
                              Gather(ctx.allocator(), geometry, params, ctx.input(1)));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGatherNd(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor params, ctx.resources().Read(handle));
    FORMWORK_RETURN_IF_ERROR(CheckVariableRead(dtype, params));
    FORMWORK_ASSIGN_OR_RETURN(Tensor output,
                              GatherNd(ctx.allocator(), params, ctx.input(1), BadIndices()));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

enum class ScatterBy : uint8_t { kRow, kDepth };

template <ScatterOp kOp, ScatterBy kBy>
absl::StatusOr<KernelFn> MakeScatter(KernelInit& init) {
  BadIndices bad;
  if (kBy == ScatterBy::kDepth) {
    FORMWORK_ASSIGN_OR_RETURN(bad, BadIndices::FromAttrs(init.attrs()));
  }
  const DType dtype = init.input_dtypes()[2];
  return KernelFn([dtype, bad](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    const Tensor& indices = ctx.input(1);
    const Tensor& updates = ctx.input(2);
    // A line of the cache for each row, read and written, and what is wider.
    const size_t rows = static_cast<size_t>(indices.num_elements());
    size_t bytes_moved = 128 * rows + 3 * updates.bytes();
    if (updates.rank() == 0) {
      FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ctx.resources().Read(handle));
      if (value.rank() > 0 && value.dim(0) > 0) {
        bytes_moved += 2 * rows * (value.bytes() / static_cast<size_t>(value.dim(0)));
      }
    }
    RowIndices changed = {indices};
    if (kBy == ScatterBy::kDepth && indices.rank() > 0) {
      changed.step = std::max<int64_t>(1, indices.dim(indices.rank() - 1));
    }
    return ctx.resources().UpdateRows(handle, changed, bytes_moved, [&](Tensor& value) {
      FORMWORK_RETURN_IF_ERROR(CheckVariableScatter(dtype, value));
      return kBy == ScatterBy::kDepth ? ScatterNd(kOp, value, indices, updates, bad)
                                      : ScatterRows(kOp, value, indices, updates);
    });
  });
}

}  // namespace

const StoredForm kStoredVariable = {
    kVariableKind,
    [](const ResourceType&, const Tensor& value,
       Allocator&) -> absl::StatusOr<std::vector<Tensor>> {
      if (IsPlainData(value.dtype()) || value.dtype() == DType::kString) {
        return std::vector<Tensor>{value};
      }
      return Unimplemented("a value of dtype ", DTypeName(value.dtype()), " cannot be stored");
    },
    [](const ResourceType& type,
       const std::vector<Tensor>& parts) -> absl::StatusOr<ResourceValue> {
      if (parts.size() != 1 || parts[0].dtype() != type.parts[0].dtype ||
          !type.parts[0].shape.Accepts(parts[0].shape())) {
        return InvalidArgument("a value does not fit a variable ", type.ToString());
      }
      return ResourceValue{parts[0], parts[0].bytes()};
    },
    1};

void RegisterVariableCpuKernels(KernelRegistry& registry) {
  registry.Add("ReadVariableOp", MakeRead);
  registry.Add("AssignVariableOp", MakeAssign);
  registry.Add("AssignAddVariableOp", MakeAccumulate<false>);
  registry.Add("AssignSubVariableOp", MakeAccumulate<true>);
  registry.Add("ResourceCountUpTo", MakeCountUpTo);
  registry.Add("ResourceStridedSliceAssign", MakeAssignSlice);
  registry.Add("VariableShape", MakeVariableShape);
  registry.Add("VarIsInitializedOp", MakeIsInitialized);
  registry.Add("DestroyResourceOp", MakeDestroy);
  registry.Add("DisableCopyOnRead", MakeDisableCopyOnRead);
  registry.Add("ResourceGather", MakeGatherRows);
  registry.Add("ResourceGatherNd", MakeGatherNd);
  registry.Add("ResourceScatterUpdate", MakeScatter<ScatterOp::kUpdate, ScatterBy::kRow>);
  registry.Add("ResourceScatterAdd", MakeScatter<ScatterOp::kAdd, ScatterBy::kRow>);
  registry.Add("ResourceScatterSub", MakeScatter<ScatterOp::kSub, ScatterBy::kRow>);
  registry.Add("ResourceScatterMul", MakeScatter<ScatterOp::kMul, ScatterBy::kRow>);
  registry.Add("ResourceScatterDiv", MakeScatter<ScatterOp::kDiv, ScatterBy::kRow>);
  registry.Add("ResourceScatterMin", MakeScatter<ScatterOp::kMin, ScatterBy::kRow>);
  registry.Add("ResourceScatterMax", MakeScatter<ScatterOp::kMax, ScatterBy::kRow>);
  registry.Add("ResourceScatterNdUpdate", MakeScatter<ScatterOp::kUpdate, ScatterBy::kDepth>);
  registry.Add("ResourceScatterNdAdd", MakeScatter<ScatterOp::kAdd, ScatterBy::kDepth>);
  registry.Add("ResourceScatterNdSub", MakeScatter<ScatterOp::kSub, ScatterBy::kDepth>);
  registry.Add("ResourceScatterNdMin", MakeScatter<ScatterOp::kMin, ScatterBy::kDepth>);
  registry.Add("ResourceScatterNdMax", MakeScatter<ScatterOp::kMax, ScatterBy::kDepth>);
}

}  // namespace formwork
