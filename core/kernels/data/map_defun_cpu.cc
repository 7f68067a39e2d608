// MapDefun: what a function makes of each row, row by row, put together again.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/elements.h"
#include "core/ops/data.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// Rows of one shape, which the first tells.
class MappedRows {
 public:
  MappedRows(DType dtype, PartialShape shape) : dtype_(dtype), shape_(std::move(shape)) {}

  absl::Status Put(Allocator& allocator, int64_t n, int64_t at, const Tensor& row) {
    if (!shape_.Accepts(row.shape())) {
      return InvalidArgument("Mismatch in function retval shape, ", row.shape().ToString(),
                             ", and expected output shape, ", shape_.ToString(), ".");
    }
    if (at == 0) {
      shape_ = row.shape();
      FORMWORK_RETURN_IF_ERROR(Make(allocator, n));
    }
    ByElement(dtype_, [&](auto tag) {
      using E = typename decltype(tag)::type;
      const int64_t size = row.num_elements();
      CopyElements(static_cast<const E*>(row.raw()), size,
                   static_cast<E*>(rows_.mutable_raw()) + at * size);
    });
    return absl::OkStatus();
  }

  // Of none.
  absl::Status PutNothing(Allocator& allocator) {
    if (shape_.fully_known()) return Make(allocator, 0);
    return InvalidArgument("there are no rows that would tell the shape of the results, of which ",
                           shape_.ToString(), " is known");
  }

  Tensor Take() { return std::move(rows_); }

 private:
  absl::Status Make(Allocator& allocator, int64_t n) {
    Dims dims = {n};
    dims.insert(dims.end(), shape_.dims().begin(), shape_.dims().end());
    FORMWORK_ASSIGN_OR_RETURN(const Shape all, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(rows_, Tensor::Allocate(allocator, dtype_, all));
    return absl::OkStatus();
  }

  const DType dtype_;
  PartialShape shape_;
  Tensor rows_;
};

absl::StatusOr<KernelFn> MakeMapDefun(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(0));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*function, spec.dtypes));
  FORMWORK_ASSIGN_OR_RETURN(const auto arguments,
                            init.attrs().Get<std::vector<DType>>("Targuments"));
  const int mapped = static_cast<int>(arguments.size());
  return KernelFn([spec, function, mapped](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t n, PrepareMapDefun(mapped, [&ctx](int i) {
                                return ctx.input(i).shape().dims();
                              }));
    DatasetFunction map(ctx, function, mapped, ctx.num_inputs() - mapped);
    IterationContext iteration(ctx.call());
    FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, map.NewRun(iteration));
    std::vector<MappedRows> results;
    for (size_t k = 0; k < spec.dtypes.size(); ++k) {
      results.emplace_back(spec.dtypes[k], spec.shapes[k]);
    }
    Element args, row;
    for (int64_t i = 0; i < n; ++i) {
      FORMWORK_RETURN_IF_ERROR(iteration.Look());
      for (int k = 0; k < mapped; ++k) {
        const Tensor& input = ctx.input(k);
        FORMWORK_ASSIGN_OR_RETURN(Tensor part, SliceAlong(ctx.allocator(), input, 0, i, 1));
        args.push_back(std::move(part).Reshaped(Shape::Trusted(input.shape().dims().subspan(1))));
      }
      FORMWORK_RETURN_IF_ERROR(run.Run(iteration, std::move(args), row));
      for (size_t k = 0; k < results.size(); ++k) {
        FORMWORK_RETURN_IF_ERROR(results[k].Put(ctx.allocator(), n, i, row[k]));
      }
    }
    for (size_t k = 0; k < results.size(); ++k) {
      if (n == 0) FORMWORK_RETURN_IF_ERROR(results[k].PutNothing(ctx.allocator()));
      ctx.SetOutput(static_cast<int>(k), results[k].Take());
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterMapDefun(KernelRegistry& registry) { registry.Add("MapDefun", MakeMapDefun); }

}  // namespace formwork
