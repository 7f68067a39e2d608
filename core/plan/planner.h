#pragma once

// Compiles an imported graph into a Plan.

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/graph/import.h"
#include "core/graph/passes/pipeline.h"
#include "core/plan/plan.h"

namespace formwork {

struct PlannerContext {
  const OpRegistry& ops;
  const KernelRegistry& kernels;  ///< Of the device that the plan is for.
  Allocator& allocator;
  DeviceKind device = DeviceKind::kCpu;  ///< What the plan is for.
};

/// `arg_shapes`: what is known of the parameters; of a resource, the shape of its variable.
/// Errors: kUnimplemented lists every op that the device has no kernel for; kInvalidArgument where
/// a kernel refuses its attrs, naming the node; kCancelled and kDeadlineExceeded of the thread's
/// StopFlag.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(const ImportedGraph& imported,
                                                     const std::vector<PartialShape>& arg_shapes,
                                                     const PlannerContext& context);

}  // namespace formwork
