#pragma once

// The engine's parts, wired. Included by core/engine*.cc alone.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "core/base/thread_pool.h"
#include "core/engine.h"
#include "core/function/function_cache.h"
#include "core/graph/import.h"
#include "core/plan/planner.h"
#include "core/resource/access_ticket.h"
#include "core/resource/resource_store.h"
#include "core/runtime/call.h"
#include "core/runtime/deadline_watch.h"
#include "core/runtime/executor.h"

namespace formwork {

/// A ConcreteFunction with what the engine needs to run it. All functions of the cache are of this
/// type.
struct BoundFunction final : ConcreteFunction {
  explicit BoundFunction(std::shared_ptr<const Plan> made) : frames(made) {
    plan = std::move(made);
  }

  const Plan& program() const { return *plan; }

  mutable FramePool frames;
  /// Variables that every call touches: captured ones and those that VarHandleOps name.
  std::vector<AccessRequest> access;
  std::vector<ResourceHandle> named;  ///< By the plan's numbering of VarHandleOps.
  size_t bound_bytes = 0;             ///< Of captured values.
  /// A moving mean of what calls take, in microseconds; 0 before the first.
  mutable std::atomic<float> mean_us{0};
};

/// GraphDefs by the digest of their bytes, so that a client need not send one twice. Bounded.
/// Thread-safe.
class GraphBytes {
 public:
  void Put(const std::string& fingerprint, absl::string_view bytes);
  /// Null where it is not, or no longer, known.
  std::shared_ptr<const std::string> Get(const std::string& fingerprint);

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const std::string>> graphs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> order_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Tensors that calls left on the server. Thread-safe.
class KeptTensors {
 public:
  void Put(absl::string_view name_space, uint64_t id, Tensor tensor);
  absl::StatusOr<Tensor> Get(absl::string_view name_space, uint64_t id);
  int64_t Release(absl::string_view name_space, absl::Span<const uint64_t> ids);
  void Clear(absl::string_view name_space);
  int64_t count();

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, absl::flat_hash_map<uint64_t, Tensor>> tensors_
      ABSL_GUARDED_BY(mutex_);
};

class CallTask;

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(const EngineOptions& options);
  ~EngineImpl() override;

  uint64_t epoch() const override { return epoch_; }
  HostAllocator& allocator() override { return allocator_; }
  absl::StatusOr<Registered> Register(const Registration& registration,
                                      ErrorDetails* details) override;
  absl::StatusOr<FunctionInfo> Resolve(absl::string_view name_space, absl::string_view name,
                                       const FunctionType& type, ErrorDetails* details) override;
  std::shared_ptr<CallHandle> Call(CallSpec spec,
                                   absl::AnyInvocable<void(CallResult)> done) override;
  std::vector<FunctionInfo> ListFunctions(absl::string_view name_space) override;
  absl::StatusOr<std::string> DescribeFunction(absl::string_view name_space, absl::string_view name,
                                               std::vector<FunctionInfo>* functions) override;
  absl::StatusOr<int64_t> Unregister(absl::string_view name_space, uint64_t id,
                                     absl::string_view name) override;
  absl::StatusOr<CreatedVariable> CreateVariable(absl::string_view name_space,
                                                 absl::string_view name, DType dtype,
                                                 const PartialShape& shape,
                                                 std::optional<Tensor> value) override;
  void ReadVariable(
      absl::string_view name_space, uint64_t id, absl::string_view name,
      absl::AnyInvocable<void(absl::StatusOr<std::pair<VariableInfo, Tensor>>)> done) override;
  void AssignVariable(absl::string_view name_space, uint64_t id, absl::string_view name,
                      Tensor value,
                      absl::AnyInvocable<void(absl::StatusOr<VariableInfo>)> done) override;
  absl::Status DeleteVariable(absl::string_view name_space, uint64_t id,
                              absl::string_view name) override;
  std::vector<VariableInfo> ListVariables(absl::string_view name_space) override;
  absl::StatusOr<Tensor> ReadTensor(absl::string_view name_space, uint64_t kept_id) override;
  int64_t ReleaseTensors(absl::string_view name_space, absl::Span<const uint64_t> ids) override;
  void Clear(absl::string_view name_space) override;
  EngineStats Stats() override;
  absl::Status Drain(absl::Time deadline) override;

 private:
  friend class CallTask;

  FunctionInfo InfoOf(const ConcreteFunction& function);
  absl::StatusOr<std::shared_ptr<Variable>> FindVariable(absl::string_view name_space, uint64_t id,
                                                         absl::string_view name);
  // Runs `body` with a place at one variable, here or when the place is granted.
  void WithVariable(std::shared_ptr<Variable> variable, Access mode,
                    absl::AnyInvocable<void(AccessTicket&)> body,
                    absl::AnyInvocable<void(absl::Status)> failed);
  absl::StatusOr<std::shared_ptr<ConcreteFunction>> Compile(
      const Registration& registration, const ImportedGraph& imported, const std::string& plan_key,
      const std::vector<PartialShape>& arg_shapes, const FunctionIdentity& identity,
      const std::vector<TensorSpec>& captures);
  absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const std::string& key,
                                                      const ImportedGraph& imported,
                                                      const std::vector<PartialShape>& arg_shapes);
  // Finds the function of a call. Fills `details` where there is none.
  absl::StatusOr<FunctionPtr> FindFunction(const CallSpec& spec, ErrorDetails& details);
  // False (and nothing counted) while draining or where too many are queued.
  absl::Status Admit();
  void CallDone();

  const EngineOptions options_;
  const uint64_t epoch_;
  HostAllocator allocator_;  // Before all that holds tensors.
  OpRegistry ops_;
  KernelRegistry kernels_;
  ResourceStore resources_;
  FunctionCache functions_;
  KeptTensors kept_;
  GraphBytes graphs_;
  absl::Mutex plans_mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<const Plan>> plans_ ABSL_GUARDED_BY(plans_mutex_);
  std::atomic<uint64_t> next_kept_id_{1};
  std::atomic<uint64_t> retraces_{0};
  std::atomic<int64_t> calls_{0};   // Admitted and not done.
  std::atomic<int64_t> queued_{0};  // Of those: waiting for a thread.
  absl::Mutex drain_mutex_;
  std::atomic<bool> refuses_{false};
  ThreadPool pool_;          // Its threads use all of the above.
  DeadlineWatch deadlines_;  // Last: what it ends uses all of the above.
};

}  // namespace formwork
