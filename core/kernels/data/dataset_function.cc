#include "core/kernels/data/dataset_function.h"

#include <utility>

#include "core/base/status.h"
#include "core/kernels/data/position.h"

namespace formwork {

absl::Status RunningFunction::Run(IterationContext& ctx, Element&& args, Element& results) {
  args.insert(args.end(), captured_->begin(), captured_->end());
  results.clear();
  results.resize(num_results_);
  const absl::Status status = run_->Run(ctx.call, absl::MakeSpan(args), absl::MakeSpan(results));
  args.clear();
  return status;
}

absl::StatusOr<bool> RunningFunction::RunPredicate(IterationContext& ctx, const Element& args) {
  args_ = args;
  FORMWORK_RETURN_IF_ERROR(Run(ctx, std::move(args_), results_));
  if (results_.size() != 1 || results_[0].dtype() != DType::kBool || results_[0].rank() != 0) {
    return InvalidArgument("Filter predicate `predicate` must return a scalar bool.");
  }
  return results_[0].scalar<bool>();
}

absl::StatusOr<int64_t> RunningFunction::RunForInteger(IterationContext& ctx, const Element& args,
                                                       absl::string_view name) {
  args_ = args;
  FORMWORK_RETURN_IF_ERROR(Run(ctx, std::move(args_), results_));
  if (results_.size() == 1 && results_[0].dtype() == DType::kInt64 && results_[0].rank() == 0) {
    return results_[0].scalar<int64_t>();
  }
  return InvalidArgument("`", name, "` must return a scalar int64.");
}

absl::StatusOr<DatasetPtr> RunningFunction::RunForDataset(IterationContext& ctx, Element&& args,
                                                          const std::vector<DType>& dtypes) {
  Element results;
  FORMWORK_RETURN_IF_ERROR(Run(ctx, std::move(args), results));
  if (results.size() != 1 || results[0].dtype() != DType::kVariant || results[0].rank() != 0) {
    return InvalidArgument("Function must return a single scalar of dtype DT_VARIANT.");
  }
  FORMWORK_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetFromTensor(results[0]));
  FORMWORK_RETURN_IF_ERROR(CheckDTypesFit(dtypes, dataset->spec.dtypes));
  return dataset;
}

absl::Status RunningFunction::Keep(Position& position) {
  for (std::atomic<uint64_t>& number : run_->state()) {
    uint64_t value = number.load(std::memory_order_relaxed);
    FORMWORK_RETURN_IF_ERROR(position.Keep(value));
    number.store(value, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

DatasetFunction::DatasetFunction(KernelContext& ctx,
                                 const std::shared_ptr<const KernelFunction>& function, int first,
                                 int count)
    : bound_(BoundFunction::Of(function, ctx.call())) {
  auto captured = std::make_shared<Element>();
  captured->reserve(static_cast<size_t>(count));
  for (int i = first; i < first + count; ++i) captured->push_back(ctx.input(i));
  captured_ = std::move(captured);
}

absl::StatusOr<RunningFunction> DatasetFunction::NewRun(IterationContext& ctx) const {
  RunningFunction running;
  FORMWORK_ASSIGN_OR_RETURN(running.run_, ctx.call.NewRun(bound_));
  running.captured_ = captured_;
  running.num_results_ = bound_.function->result_dtypes.size();
  return running;
}

absl::StatusOr<NodeFunctions> NodeFunctions::Of(KernelInit& init,
                                                std::initializer_list<absl::string_view> captured) {
  NodeFunctions made;
  for (absl::string_view attr : captured) {
    FORMWORK_ASSIGN_OR_RETURN(auto function, init.Function(made.functions_.size()));
    FORMWORK_ASSIGN_OR_RETURN(const auto types, init.attrs().Get<std::vector<DType>>(attr));
    made.functions_.emplace_back(std::move(function), static_cast<int>(types.size()));
  }
  return made;
}

std::vector<DatasetFunction> NodeFunctions::Bind(KernelContext& ctx, int first) const {
  std::vector<DatasetFunction> bound;
  bound.reserve(functions_.size());
  for (const auto& [function, count] : functions_) {
    bound.emplace_back(ctx, function, first, count);
    first += count;
  }
  return bound;
}

absl::StatusOr<std::vector<RunningFunction>> NewRuns(const std::vector<DatasetFunction>& functions,
                                                     IterationContext& ctx) {
  std::vector<RunningFunction> runs;
  runs.reserve(functions.size());
  for (const DatasetFunction& function : functions) {
    FORMWORK_ASSIGN_OR_RETURN(RunningFunction run, function.NewRun(ctx));
    runs.push_back(std::move(run));
  }
  return runs;
}

absl::Status CheckResults(const KernelFunction& function, const std::vector<DType>& dtypes) {
  return CheckDTypesFit(dtypes, function.result_dtypes);
}

}  // namespace formwork
