#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

// A copy of `x` with the groups that stay first and the others after them.
absl::StatusOr<Tensor> KeptFirst(Allocator& allocator, const Tensor& x, const DimGroups& groups,
                                 ReduceExtent* extent) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor moved, Tensor::Allocate(allocator, x.dtype(), x.shape()));
  *extent = {1, 1, 1};
  for (const DimGroup& group : groups) {
    (group.reduced ? extent->reduced : extent->outer) *= group.size;
  }
  int64_t from = x.num_elements();
  int64_t kept = x.num_elements();
  int64_t gone = extent->reduced;
  CopyDims dims;
  for (const DimGroup& group : groups) {
    from /= group.size;
    int64_t& to = group.reduced ? gone : kept;
    to /= group.size;
    dims.push_back({group.size, from, to});
  }
  CopyStrided(x.dtype(), x.raw(), moved.mutable_raw(), dims);
  return moved;
}

struct NamedReduction {
  absl::string_view op;
  Reduction reduction;
};
constexpr NamedReduction kNamed[] = {
    {"Sum", Reduction::kSum},   {"Prod", Reduction::kProd},
    {"Mean", Reduction::kMean}, {"Max", Reduction::kMax},
    {"Min", Reduction::kMin},   {"EuclideanNorm", Reduction::kEuclideanNorm},
    {"All", Reduction::kAll},   {"Any", Reduction::kAny},
};

absl::StatusOr<KernelFn> MakeReduction(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const auto* named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                   [&init](const auto& n) { return n.op == init.op().name; });
  const ReduceFn reduce = FindReduction(named->reduction, dtype);
  if (reduce == nullptr) {
    return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const ReductionAttrs attrs, ReductionAttrs::FromAttrs(init.attrs()));
  const bool norm = named->reduction == Reduction::kEuclideanNorm;
  return KernelFn([reduce, attrs, norm](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(ReductionGeometry geometry,
                              PrepareReduction(attrs, x.shape().dims(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Reduce(ctx.allocator(), reduce, x, geometry));
    if (norm && out.num_elements() == x.num_elements() && x.num_elements() != 0) {
      // Nothing was summed, but there is the sign to lose.
      FORMWORK_ASSIGN_OR_RETURN(Tensor * root, ctx.AllocateOutput(0, x.dtype(), out.shape()));
      reduce({x.num_elements(), 1, 1}, out.raw(), root->mutable_raw());
      return absl::OkStatus();
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

const ReductionLoops* FindReductionLoops(Reduction reduction, DType dtype) {
  if (const ReductionLoops* found = FindFloatReduction(reduction, dtype)) return found;
  if (const ReductionLoops* found = FindIntegerReduction(reduction, dtype)) return found;
  return FindComplexReduction(reduction, dtype);
}

ReduceFn FindReduction(Reduction reduction, DType dtype) {
  const ReductionLoops* const loops = FindReductionLoops(reduction, dtype);
  return loops == nullptr ? nullptr : loops->whole;
}

const ReductionLoops* FindReductionLoops(absl::string_view op, DType dtype) {
  for (const NamedReduction& named : kNamed) {
    if (named.op != op || named.reduction == Reduction::kEuclideanNorm) continue;
    return FindReductionLoops(named.reduction, dtype);
  }
  return nullptr;
}

absl::StatusOr<Tensor> Reduce(Allocator& allocator, ReduceFn reduce, const Tensor& x,
                              const ReductionGeometry& geometry) {
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
  if (x.num_elements() == 0) {
    // Its dimensions may overflow when multiplied: only the result's are looked at.
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(allocator, x.dtype(), shape));
    if (shape.num_elements() != 0) {
      reduce({1, 0, shape.num_elements()}, x.raw(), out.mutable_raw());
    }
    return out;
  }
  const DimGroups groups = GroupDims(x.shape().dims(), geometry.reduced);
  int reductions = 0;
  for (const DimGroup& group : groups) reductions += group.reduced ? 1 : 0;
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
  for (const NamedReduction& named : kNamed) registry.Add(named.op, MakeReduction);
  registry.Add("L2Loss", MakeL2Loss);
  RegisterArgReductionKernels(registry);
  RegisterScanKernels(registry);
  RegisterBincountKernels(registry);
  RegisterCountKernels(registry);
}

}  // namespace formwork
