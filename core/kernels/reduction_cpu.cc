#include <utility>

#include "core/base/status.h"
#include "core/kernels/reduction.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

// Neighbouring dimensions that share their fate, as one.
struct Group {
  int64_t size;
  bool reduced;
};
using Groups = absl::InlinedVector<Group, 6>;

Groups GroupDims(const Shape& shape, absl::Span<const bool> reduced) {
  Groups groups;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[d]) {
      groups.back().size *= shape.dim(d);
    } else {
      groups.push_back({shape.dim(d), reduced[d]});
    }
  }
  return groups;
}

// The extent where at most one group is reduced.
ReduceExtent ExtentOf(const Groups& groups) {
  ReduceExtent extent = {1, 1, 1};
  bool seen = false;
  for (const Group& group : groups) {
    if (group.reduced) {
      extent.reduced = group.size;
      seen = true;
    } else if (seen) {
      extent.inner = group.size;
    } else {
      extent.outer = group.size;
    }
  }
  return extent;
}

// A copy of `x` with the groups that stay first and the others after them.
absl::StatusOr<Tensor> KeptFirst(Allocator& allocator, const Tensor& x, const Groups& groups,
                                 ReduceExtent* extent) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor moved, Tensor::Allocate(allocator, x.dtype(), x.shape()));
  *extent = {1, 1, 1};
  for (const Group& group : groups) {
    (group.reduced ? extent->reduced : extent->outer) *= group.size;
  }
  int64_t from = x.num_elements();
  int64_t kept = x.num_elements();
  int64_t gone = extent->reduced;
  CopyDims dims;
  for (const Group& group : groups) {
    from /= group.size;
    int64_t& to = group.reduced ? gone : kept;
    to /= group.size;
    dims.push_back({group.size, from, to});
  }
  CopyStrided(x.dtype(), x.raw(), moved.mutable_raw(), dims);
  return moved;
}

// Which dimensions the axes name.
using AxisMask = absl::InlinedVector<bool, 8>;
absl::StatusOr<AxisMask> ReducedDims(const Tensor& axes, int rank) {
  AxisMask reduced(static_cast<size_t>(rank), false);
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(axes, "reduction_indices"));
  for (int64_t axis : values) {
    if (axis < -rank || axis >= rank) {
      return InvalidArgument("Invalid reduction dimension (", axis, " for input with ", rank,
                             " dimension(s)");
    }
    if (axis < 0) axis += rank;
    if (reduced[axis]) {
      return InvalidArgument("Invalid reduction arguments: Axes contains duplicate dimension: ",
                             axis);
    }
    reduced[axis] = true;
  }
  return reduced;
}

template <Reduction kReduction>
absl::StatusOr<KernelFn> MakeReduction(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const ReduceFn reduce = FindReduction(kReduction, dtype);
  if (reduce == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  const bool keep_dims = init.attrs().GetOr("keep_dims", false);
  return KernelFn([reduce, keep_dims](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(AxisMask reduced, ReducedDims(ctx.input(1), x.rank()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Reduce(ctx.allocator(), reduce, x, reduced, keep_dims));
    if constexpr (kReduction == Reduction::kEuclideanNorm) {
      if (out.num_elements() == x.num_elements() && x.num_elements() != 0) {
        // Nothing was summed, but there is the sign to lose.
        FORMWORK_ASSIGN_OR_RETURN(Tensor * norm, ctx.AllocateOutput(0, x.dtype(), out.shape()));
        reduce({x.num_elements(), 1, 1}, out.raw(), norm->mutable_raw());
        return absl::OkStatus();
      }
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeL2Loss(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const ReduceFn reduce = FindReduction(Reduction::kL2Loss, dtype);
  if (reduce == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  return KernelFn([reduce](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, x.dtype(), Shape()));
    reduce({1, x.num_elements(), 1}, x.raw(), out->mutable_raw());
    return absl::OkStatus();
  });
}

}  // namespace

ReduceFn FindReduction(Reduction reduction, DType dtype) {
  if (ReduceFn found = FindFloatReduction(reduction, dtype)) return found;
  if (ReduceFn found = FindIntegerReduction(reduction, dtype)) return found;
  return FindComplexReduction(reduction, dtype);
}

absl::StatusOr<Tensor> Reduce(Allocator& allocator, ReduceFn reduce, const Tensor& x,
                              absl::Span<const bool> reduced, bool keep_dims) {
  Dims dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (!reduced[d]) {
      dims.push_back(x.dim(d));
    } else if (keep_dims) {
      dims.push_back(1);
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  if (x.num_elements() == 0) {
    // Its dimensions may overflow when multiplied: only the result's are looked at.
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(allocator, x.dtype(), shape));
    if (shape.num_elements() != 0) {
      reduce({1, 0, shape.num_elements()}, x.raw(), out.mutable_raw());
    }
    return out;
  }
  const Groups groups = GroupDims(x.shape(), reduced);
  int reductions = 0;
  for (const Group& group : groups) reductions += group.reduced ? 1 : 0;
  // Nothing is reduced, or lengths of 1 alone: the value itself. Gradients of broadcasts do this
  // all the time.
  if (reductions == 0) return x.Reshaped(shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(allocator, x.dtype(), shape));
  if (reductions == 1) {
    reduce(ExtentOf(groups), x.raw(), out.mutable_raw());
  } else {
    ReduceExtent extent;
    FORMWORK_ASSIGN_OR_RETURN(Tensor moved, KeptFirst(allocator, x, groups, &extent));
    reduce(extent, moved.raw(), out.mutable_raw());
  }
  return out;
}

void RegisterReductionCpuKernels(KernelRegistry& registry) {
  registry.Add("Sum", MakeReduction<Reduction::kSum>);
  registry.Add("Prod", MakeReduction<Reduction::kProd>);
  registry.Add("Mean", MakeReduction<Reduction::kMean>);
  registry.Add("Max", MakeReduction<Reduction::kMax>);
  registry.Add("Min", MakeReduction<Reduction::kMin>);
  registry.Add("EuclideanNorm", MakeReduction<Reduction::kEuclideanNorm>);
  registry.Add("All", MakeReduction<Reduction::kAll>);
  registry.Add("Any", MakeReduction<Reduction::kAny>);
  registry.Add("L2Loss", MakeL2Loss);
  RegisterArgReductionKernels(registry);
  RegisterScanKernels(registry);
  RegisterBincountKernels(registry);
}

}  // namespace formwork
