#pragma once

// The functions of datasets.

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/kernels/data/dataset.h"
#include "core/kernels/kernel_function.h"

namespace formwork {

/// One that an iterator runs, with hidden state of its own. Used by one thread at a time.
class RunningFunction {
 public:
  /// What the function makes of `args` and what it has captured. Errors: as FunctionRun::Run.
  /// Afterwards `args` is empty, and `results` are as many as the function has; both keep their
  /// room, so that who gives the same ones again allocates nothing.
  absl::Status Run(IterationContext& ctx, Element&& args, Element& results);
  /// The same of what decides. Errors: kInvalidArgument unless it is a scalar bool.
  absl::StatusOr<bool> RunPredicate(IterationContext& ctx, const Element& args);
  /// The same of what gives a number; errors call the function `name`.
  absl::StatusOr<int64_t> RunForInteger(IterationContext& ctx, const Element& args,
                                        absl::string_view name);
  /// The same of what makes a dataset. Errors: kInvalidArgument unless its elements are of
  /// `dtypes`.
  absl::StatusOr<DatasetPtr> RunForDataset(IterationContext& ctx, Element&& args,
                                           const std::vector<DType>& dtypes);

  /// Its hidden state. Errors: kInvalidArgument if what is read does not fit.
  absl::Status Keep(Position& position);

 private:
  friend class DatasetFunction;
  std::unique_ptr<FunctionRun> run_;
  std::shared_ptr<const Element> captured_;
  size_t num_results_ = 0;
  Element args_, results_;  // Room for what decides.
};

/// One of a dataset, with what it has captured. Immutable, shared by threads.
class DatasetFunction {
 public:
  /// In a kernel's call: it has captured `count` inputs from `first` on.
  DatasetFunction(KernelContext& ctx, const std::shared_ptr<const KernelFunction>& function,
                  int first, int count);

  absl::StatusOr<RunningFunction> NewRun(IterationContext& ctx) const;
  /// As KernelFunction::side_by_side.
  bool side_by_side() const { return bound_.function->side_by_side; }

 private:
  BoundFunction bound_;
  std::shared_ptr<const Element> captured_;
};

/// Several functions of one node, whose captured inputs come one function's after the other's.
class NodeFunctions {
 public:
  /// `captured`: of each function, in the node's order, the attr that lists the dtypes of what it
  /// has captured. Errors: those of the functions; kInvalidArgument where there is no such attr.
  static absl::StatusOr<NodeFunctions> Of(KernelInit& init,
                                          std::initializer_list<absl::string_view> captured);

  const KernelFunction& operator[](size_t i) const { return *functions_[i].first; }
  /// In a kernel's call: the first has captured the inputs from `first` on.
  std::vector<DatasetFunction> Bind(KernelContext& ctx, int first) const;

 private:
  // And how many inputs it has captured.
  std::vector<std::pair<std::shared_ptr<const KernelFunction>, int>> functions_;
};

/// What an iterator runs of them: one of each.
absl::StatusOr<std::vector<RunningFunction>> NewRuns(const std::vector<DatasetFunction>& functions,
                                                     IterationContext& ctx);

/// Errors: kInvalidArgument if the function's results are not of those dtypes.
absl::Status CheckResults(const KernelFunction& function, const std::vector<DType>& dtypes);

}  // namespace formwork
