#pragma once

// Functions that kernels run (ControlFlow::kKernel), as often as they like: those of datasets.
//
//   made with the plan    KernelFunction   what a node's attr names, compiled
//   in a call             BoundFunction    with the resources that the function names itself
//   by who runs it        FunctionRun      one activation, with hidden state of its own
//
// So a function may run in another call than the one that bound it: an iterator's.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/resource/used_resources.h"
#include "core/tensor/tensor.h"

namespace formwork {

class Plan;

/// Immutable, shared by threads; outlives the plan of the node that names it.
struct KernelFunction {
  std::shared_ptr<const Plan> plan;  ///< A root's: it knows the functions that it calls.
  std::vector<DType> arg_dtypes, result_dtypes;
  /// The resources that the function names itself: CallScope::named_resource of the node's plan.
  std::vector<int> named;
  /// The strongest use that it makes of any resource that it is given or names.
  Access access = Access::kNone;
  /// Activations may run at once on several threads of one call, as a fork's lanes: the function
  /// has no effects, no hidden state, no resources that it names itself, and waits for nothing.
  bool side_by_side = false;
  /// Nobody can tell when it runs, or beside what: it has no effects, uses no resources and waits
  /// for nothing, nor does what its kernels run.
  bool quiet = false;
  /// A serialized FunctionDefLibrary that has it and all that it calls: of the graph that named it.
  std::shared_ptr<const std::string> definitions;
};

struct BoundFunction {
  static BoundFunction Of(std::shared_ptr<const KernelFunction> function, CallScope& call);

  std::shared_ptr<const KernelFunction> function;
  std::vector<ResourceHandle> named;
};

/// Made by CallScope::NewRun. Used by one thread at a time; may outlive the call that made it.
class FunctionRun {
 public:
  virtual ~FunctionRun() = default;
  /// Runs the function to its end, on the calling thread, as a part of the step of `call` that is
  /// under way: with its allocator, resources, print and StopFlag. `args` are as many as the
  /// function has, and are moved out; `results` too, and are empty.
  /// Errors: kInvalidArgument for an argument of another dtype; kFailedPrecondition where it runs
  /// already; those of the function's kernels, with their nodes; those of the StopFlag.
  virtual absl::Status Run(CallScope& call, absl::Span<Tensor> args,
                           absl::Span<Tensor> results) = 0;
  /// Its hidden state (KernelInit::NewState); nobody changes it while the function does not run.
  virtual absl::Span<std::atomic<uint64_t>> state() { return {}; }
};

}  // namespace formwork
