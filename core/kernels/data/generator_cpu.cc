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
  FORMWORK_ASSIGN_OR_RETURN(auto init_func, init.Function(0));
  FORMWORK_ASSIGN_OR_RETURN(auto next_func, init.Function(1));
  FORMWORK_ASSIGN_OR_RETURN(auto finalize_func, init.Function(2));
  FORMWORK_RETURN_IF_ERROR(CheckResults(*next_func, spec.dtypes));
  const auto count = [&](absl::string_view name) -> absl::StatusOr<int> {
    FORMWORK_ASSIGN_OR_RETURN(const auto dtypes, init.attrs().Get<std::vector<DType>>(name));
    return static_cast<int>(dtypes.size());
  };
  FORMWORK_ASSIGN_OR_RETURN(const int for_init, count("Tinit_func_args"));
  FORMWORK_ASSIGN_OR_RETURN(const int for_next, count("Tnext_func_args"));
  FORMWORK_ASSIGN_OR_RETURN(const int for_finalize, count("Tfinalize_func_args"));
  return DatasetKernel(init, [=](KernelContext& ctx) -> Made {
    const auto bind = [&ctx](const auto& function, int first, int count) {
      return std::make_shared<const DatasetFunction>(ctx, function, first, count);
    };
    const auto begins = bind(init_func, 0, for_init);
    const auto next = bind(next_func, for_init, for_next);
    const auto ends = bind(finalize_func, for_init + for_next, for_finalize);
    return NewDataset(spec, Dataset::kUnknown, [=](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction begin, begins->NewRun(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction step, next->NewRun(ctx));
      FORMWORK_ASSIGN_OR_RETURN(RunningFunction end, ends->NewRun(ctx));
      return NextFn([generator = Generator(std::move(begin), std::move(step), std::move(end))](
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
