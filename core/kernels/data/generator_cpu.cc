// Datasets whose elements a function gives until it says that there are no more: generators of
// Python's, behind functions of the client's.

#include <utility>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// The three functions that a GeneratorDataset has, for one iterator.
class Generator {
 public:
  Generator(RunningFunction init, RunningFunction next, RunningFunction finalize)
      : init_(std::move(init)), next_(std::move(next)), finalize_(std::move(finalize)) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    if (!begun_) {
      FORMWORK_RETURN_IF_ERROR(init_.Run(ctx, {}, state_));
      begun_ = true;
    }
    const absl::Status made = next_.Run(ctx, Element(state_), element);
    if (made.ok()) return true;
    if (made.code() != absl::StatusCode::kOutOfRange) return made;
    Element nothing;
    FORMWORK_RETURN_IF_ERROR(finalize_.Run(ctx, std::move(state_), nothing));
    return false;
  }

 private:
  RunningFunction init_, next_, finalize_;
  Element state_;
  bool begun_ = false;
};

// An iterator that is not run to its end does not finalize: that takes a call.
absl::StatusOr<KernelFn> MakeGenerator(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(
      const NodeFunctions functions,
      NodeFunctions::Of(init, {"Tinit_func_args", "Tnext_func_args", "Tfinalize_func_args"}));
  FORMWORK_RETURN_IF_ERROR(CheckResults(functions[1], spec.dtypes));
  return DatasetKernel(init, [=](KernelContext& ctx) -> Made {
    return NewDataset(
        spec, Dataset::kUnknown, [bound = functions.Bind(ctx, 0)](IterationContext& ctx) -> Begun {
          FORMWORK_ASSIGN_OR_RETURN(std::vector<RunningFunction> runs, NewRuns(bound, ctx));
          return NextFn(
              [generator = Generator(std::move(runs[0]), std::move(runs[1]), std::move(runs[2]))](
                  IterationContext& ctx, Element& element) mutable {
                return generator.Next(ctx, element);
              });
        });
  });
}

}  // namespace

void RegisterGeneratorDatasets(KernelRegistry& registry) {
  registry.Add("GeneratorDataset", MakeGenerator);
}

}  // namespace formwork
