// Variables: reading, assigning, counting up and writing rows.

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/format_tensor.h"
#include "core/kernels/gather.h"
#include "core/kernels/register_cpu_kernels.h"

namespace formwork {
namespace {

// TensorFlow's name for a variable that nobody else can reach.
constexpr absl::string_view kAnonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

absl::StatusOr<ResourceHandle> HandleOf(KernelContext& ctx) {
  const Tensor& handle = ctx.input(0);
  if (handle.num_elements() != 1) {
    return InvalidArgument("resource must be a single handle: shape=", handle.shape().ToString());
  }
  return handle.scalar<ResourceHandle>();
}

absl::StatusOr<KernelFn> MakeVarHandle(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("dtype"));
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, init.attrs().Get<PartialShape>("shape"));
  std::string name = init.attrs().GetOr<std::string>("shared_name", "");
  if (name.empty() || name == kAnonymousName) name = std::string(init.node_name());
  return KernelFn([dtype, shape = std::move(shape), name = std::move(name)](KernelContext& ctx) {
    ctx.SetOutput(0, Tensor::Scalar(ctx.resources().CreateForCall(name, dtype, shape)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeRead(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("dtype"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor value, ctx.resources().Read(handle));
    if (value.dtype() != dtype) {
      return InvalidArgument("Trying to read variable with wrong dtype. Expected ",
                             GraphDTypeName(dtype), " got ", GraphDTypeName(value.dtype()));
    }
    ctx.SetOutput(0, std::move(value));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeAssign(KernelInit& init) {
  const bool validate = init.attrs().GetOr<bool>("validate_shape", false);
  return KernelFn([validate](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    if (validate) {
      FORMWORK_ASSIGN_OR_RETURN(const auto type, ctx.resources().TypeOf(handle));
      if (!type.second.Accepts(ctx.input(1).shape())) {
        return InvalidArgument("Trying to assign to variable with tensor with wrong shape.",
                               " Expected ", type.second.ToString(), " got ",
                               ctx.input(1).shape().ToString());
      }
    }
    return ctx.resources().Assign(handle, ctx.TakeInput(1));
  });
}

// --- AssignAdd, AssignSub -----------------------------------------------------------------------

template <typename T, bool kSubtract>
void Accumulate(Tensor& value, const Tensor& delta) {
  T* to = value.mutable_data<T>();
  const T* from = delta.data<T>();
  const auto run = [to, from](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = kSubtract ? math::Sub(to[i], from[i]) : math::Add(to[i], from[i]);
    }
  };
  if (value.num_elements() <= 1 << 15) {
    run(0, value.num_elements());
  } else {
    ParallelFor(value.num_elements(), 1 << 15, run);
  }
}

using AccumulateFn = void (*)(Tensor& value, const Tensor& delta);

template <bool kSubtract>
AccumulateFn AccumulateFor(DType dtype) {
  switch (dtype) {
    FORMWORK_NUMBER_CASES(return &Accumulate<T, kSubtract>)
    default:
      return nullptr;
  }
}

template <bool kSubtract>
absl::StatusOr<KernelFn> MakeAccumulate(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("dtype"));
  const AccumulateFn accumulate = AccumulateFor<kSubtract>(dtype);
  if (accumulate == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([dtype, accumulate](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    const Tensor& delta = ctx.input(1);
    return ctx.resources().Update(handle, [&](Tensor& value) -> absl::Status {
      if (value.dtype() != dtype) {
        return InvalidArgument("DType of variable handle and value does not match: ",
                               GraphDTypeName(value.dtype()), " vs. ", GraphDTypeName(dtype));
      }
      if (value.shape() != delta.shape()) {
        return InvalidArgument("Cannot update variable with shape ", value.shape().ToString(),
                               " using a Tensor with shape ", delta.shape().ToString(),
                               ", shapes must be equal.");
      }
      accumulate(value, delta);
      return absl::OkStatus();
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
  const bool ignore = init.attrs().GetOr<bool>("ignore_lookup_error", true);
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
  const int64_t batch_dims = init.attrs().GetOr<int64_t>("batch_dims", 0);
  return KernelFn([batch_dims](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor params, ctx.resources().Read(handle));
    if (params.rank() == 0) {
      return InvalidArgument("params must be at least 1 dimensional");
    }
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor output,
        Gather(ctx.allocator(), params, ctx.input(1),
               batch_dims < 0 ? batch_dims + ctx.input(1).rank() : batch_dims, batch_dims));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGatherNd(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor params, ctx.resources().Read(handle));
    FORMWORK_ASSIGN_OR_RETURN(Tensor output, GatherNd(ctx.allocator(), params, ctx.input(1)));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

// Nothing cuts a change in place: so many updates, which may take 50 ms, are made in a copy where
// that adds little to the work.
constexpr int64_t kManyUpdates = int64_t{1} << 20;
constexpr int64_t kMostCopiedPerUpdate = 8;  // Elements.

using ScatterFn = absl::Status (*)(ScatterOp op, Tensor& target, const Tensor& indices,
                                   const Tensor& updates);

template <ScatterOp kOp, ScatterFn kScatter>
absl::StatusOr<KernelFn> MakeScatter(KernelInit& init) {
  const DType dtype = init.input_dtypes()[2];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    const Tensor& indices = ctx.input(1);
    const Tensor& updates = ctx.input(2);
    const auto scatter = [&](Tensor& value) -> absl::Status {
      if (value.dtype() != dtype) {
        return InvalidArgument("DType of scatter resource and updates does not match: ",
                               GraphDTypeName(value.dtype()), " vs. ", GraphDTypeName(dtype));
      }
      return kScatter(kOp, value, indices, updates);
    };
    const int64_t work = std::max(indices.num_elements(), updates.num_elements());
    if (work < kManyUpdates) return ctx.resources().Update(handle, scatter);
    FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ctx.resources().Read(handle));
    if (value.num_elements() > kMostCopiedPerUpdate * work) {
      return ctx.resources().Update(handle, scatter);
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor copy, value.Clone(ctx.allocator()));
    FORMWORK_RETURN_IF_ERROR(scatter(copy));
    return ctx.resources().Assign(handle, std::move(copy));
  });
}

}  // namespace

void RegisterVariableCpuKernels(KernelRegistry& registry) {
  registry.Add("VarHandleOp", MakeVarHandle);
  registry.Add("ReadVariableOp", MakeRead);
  registry.Add("AssignVariableOp", MakeAssign);
  registry.Add("AssignAddVariableOp", MakeAccumulate<false>);
  registry.Add("AssignSubVariableOp", MakeAccumulate<true>);
  registry.Add("VariableShape", MakeVariableShape);
  registry.Add("VarIsInitializedOp", MakeIsInitialized);
  registry.Add("DestroyResourceOp", MakeDestroy);
  registry.Add("DisableCopyOnRead", MakeDisableCopyOnRead);
  registry.Add("ResourceGather", MakeGatherRows);
  registry.Add("ResourceGatherNd", MakeGatherNd);
  registry.Add("ResourceScatterUpdate", MakeScatter<ScatterOp::kUpdate, ScatterRows>);
  registry.Add("ResourceScatterAdd", MakeScatter<ScatterOp::kAdd, ScatterRows>);
  registry.Add("ResourceScatterSub", MakeScatter<ScatterOp::kSub, ScatterRows>);
  registry.Add("ResourceScatterMul", MakeScatter<ScatterOp::kMul, ScatterRows>);
  registry.Add("ResourceScatterDiv", MakeScatter<ScatterOp::kDiv, ScatterRows>);
  registry.Add("ResourceScatterMin", MakeScatter<ScatterOp::kMin, ScatterRows>);
  registry.Add("ResourceScatterMax", MakeScatter<ScatterOp::kMax, ScatterRows>);
  registry.Add("ResourceScatterNdUpdate", MakeScatter<ScatterOp::kUpdate, ScatterNd>);
  registry.Add("ResourceScatterNdAdd", MakeScatter<ScatterOp::kAdd, ScatterNd>);
  registry.Add("ResourceScatterNdSub", MakeScatter<ScatterOp::kSub, ScatterNd>);
  registry.Add("ResourceScatterNdMin", MakeScatter<ScatterOp::kMin, ScatterNd>);
  registry.Add("ResourceScatterNdMax", MakeScatter<ScatterOp::kMax, ScatterNd>);
}

}  // namespace formwork
