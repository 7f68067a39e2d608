// Datasets of what a reduction makes of the elements of each key.

#include <map>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

// Reduces all of its input when it is first asked; gives the keys' results in the keys' order.
class Reducer {
 public:
  // The functions: key, init, reduce, finalize.
  Reducer(Iterator it, std::vector<RunningFunction> functions)
      : it_(std::move(it)), functions_(std::move(functions)) {}

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (!it_.at_end()) FORMWORK_RETURN_IF_ERROR(Reduce(ctx));
    if (states_.empty()) return false;
    Element state = std::move(states_.begin()->second);
    states_.erase(states_.begin());
    FORMWORK_RETURN_IF_ERROR(functions_[3].Run(ctx, std::move(state), element));
    return true;
  }

  absl::Status Keep(Position& position) {
    FORMWORK_RETURN_IF_ERROR(position.Keep(it_, states_));
    for (RunningFunction& function : functions_) FORMWORK_RETURN_IF_ERROR(position.Keep(function));
    return absl::OkStatus();
  }

 private:
  absl::Status Reduce(IterationContext& ctx) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it_.Next(ctx, element_));
    if (!more) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const int64_t key,
                              functions_[0].RunForInteger(ctx, element_, "key_func"));
    auto state = states_.find(key);
    if (state == states_.end()) {
      Element first;
      FORMWORK_RETURN_IF_ERROR(functions_[1].Run(ctx, {Tensor::Scalar(key)}, first));
      state = states_.emplace(key, std::move(first)).first;
    }
    Element args = state->second;
    args.insert(args.end(), std::make_move_iterator(element_.begin()),
                std::make_move_iterator(element_.end()));
    return functions_[2].Run(ctx, std::move(args), state->second);
  }

  Iterator it_;
  std::vector<RunningFunction> functions_;
  Element element_;
  std::map<int64_t, Element> states_;
};

absl::StatusOr<KernelFn> MakeGroupByReducer(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, ElementSpec::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(
      const NodeFunctions functions,
      NodeFunctions::Of(init, {"Tkey_func_other_arguments", "Tinit_func_other_arguments",
                               "Treduce_func_other_arguments", "Tfinalize_func_other_arguments"}));
  FORMWORK_RETURN_IF_ERROR(CheckResults(functions[2], functions[1].result_dtypes));
  FORMWORK_RETURN_IF_ERROR(CheckResults(functions[3], spec.dtypes));
  return DatasetKernel(init, [=](KernelContext& ctx, DatasetPtr input) -> Made {
    return NewDataset(spec, Dataset::kUnknown,
                      [input, bound = functions.Bind(ctx, 1)](IterationContext& ctx) -> Begun {
                        FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
                        FORMWORK_ASSIGN_OR_RETURN(std::vector<RunningFunction> runs,
                                                  NewRuns(bound, ctx));
                        return NextFn::Of<Reducer>(std::move(it), std::move(runs));
                      });
  });
}

}  // namespace

void RegisterReducerDatasets(KernelRegistry& registry) {
  registry.Add("GroupByReducerDataset", MakeGroupByReducer);
  registry.Add("ExperimentalGroupByReducerDataset", MakeGroupByReducer);
}

}  // namespace formwork
