#pragma once

// Compiles an imported graph into a Plan.

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/graph/import.h"
#include "core/graph/passes/pipeline.h"
#include "core/plan/plan.h"
#include "core/plan/streams.h"

namespace formwork {

struct PlannerContext {
  const OpRegistry& ops;
  /// The CPU's: of folding, and of all steps that run on the host.
  const KernelRegistry& kernels;
  Allocator& allocator;
  /// What the plan is for; none: the CPU.
  struct Target {
    Allocator& memory;  ///< Of the device. Outlives the plan.
    Stream& stream;     ///< Of it, too. Constants are copied on it.
    const KernelRegistry& kernels;
    int streams = 1;  ///< That a call may use: at most StreamGroup::kMost.
    double least_stream_work = kLeastStreamWork;  ///< What is worth one (AssignStreams).
  };
  std::optional<Target> device = std::nullopt;
  PassBudget budget = {};
  bool lanes = false;  ///< On the CPU: whether there are threads to run parts of it side by side.
  /// Of a plan for relaxed calls, on the CPU alone: it has regions.
  bool relaxed = false;
  /// Of a plan for a device, by parameter: the dtype of the variable whose handle it is, if that
  /// has a value and keeps one; kInvalid, or fewer: that is not known.
  std::vector<DType> variables = {};
};

/// `arg_shapes`: what is known of the parameters; of a resource, the shape of its variable. A plan
/// for a device has its constants there: it waits until they are.
/// What the device has no kernel for runs on the host, and is in Plan::fallbacks.
/// Errors: kUnimplemented lists every op that the host has none for either; kInvalidArgument where
/// a kernel refuses its attrs, naming the node; kFailedPrecondition, of one for relaxed calls, says
/// why they are to run as any other; kCancelled and kDeadlineExceeded of the thread's
/// StopFlag; those of the device's memory.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const ImportedGraph& imported,
                                                     const std::vector<PartialShape>& arg_shapes,
                                                     const PlannerContext& context);

}  // namespace formwork
