#pragma once

// The engine's parts, wired. Included by core/engine*.cc alone.

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/answer_window.h"
#include "core/base/awaited.h"
#include "core/base/fair_places.h"
#include "core/base/hash_map.h"
#include "core/base/thread_pool.h"
#include "core/device/device_allocator.h"
#include "core/engine.h"
#include "core/engine/batch_queue.h"
#include "core/engine/group_commit.h"
#include "core/engine/snapshot.h"
#include "core/engine/transfers.h"
#include "core/function/function_cache.h"
#include "core/graph/import.h"
#include "core/plan/planner.h"
#include "core/resource/access_ticket.h"
#include "core/resource/kept_tensors.h"
#include "core/resource/resource_store.h"
#include "core/runtime/call.h"
#include "core/runtime/captured_run.h"
#include "core/runtime/deadline_watch.h"
#include "core/runtime/device_watch.h"
#include "core/runtime/executor.h"
#include "core/runtime/stream_pool.h"

namespace formwork {

/// Which of a function's calls may run on their caller's thread: those with the same work as one
/// that was quick. Work is known by a hash of what decides on it. Holds the last few; thread-safe.
class QuickWork {
 public:
  bool Has(uint64_t work) const {
    for (const std::atomic<uint64_t>& quick : quick_) {
      if (quick.load(std::memory_order_relaxed) == work) return true;
    }
    return false;
  }
  void Add(uint64_t work) {
    if (Has(work)) return;
    quick_[next_.fetch_add(1, std::memory_order_relaxed) % quick_.size()].store(
        work, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, 8> quick_{};
  std::atomic<uint32_t> next_{0};
};

class RelaxedForm;

/// A ConcreteFunction with what the engine needs to run it. All functions of the cache are of this
/// type.
struct EngineFunction final : ConcreteFunction {
  explicit EngineFunction(std::shared_ptr<const Plan> made) : frames(made) {
    plan = std::move(made);
    if (CapturedRuns::MayBeCaptured(*plan)) captured = std::make_unique<CapturedRuns>();
  }

  const Plan& program() const { return *plan; }

  mutable FramePool frames;
  std::unique_ptr<CapturedRuns> captured;  ///< Null: no call of it can be captured.
  /// Whether each call does about the same work: no input's or variable's shape is left open, and
  /// no value decides on a size.
  bool fixed_work = false;
  mutable QuickWork quick_work;         ///< Otherwise: which work has been quick.
  std::unique_ptr<BatchQueue> batches;  ///< Null: its calls run each alone.
  std::vector<ResourceHandle> named;    ///< By the plan's numbering of named resources.
  size_t bound_bytes = 0;               ///< Of captured values.
  /// How its relaxed calls run (engine_relaxed.h); null: as any other.
  std::shared_ptr<RelaxedForm> relaxed;
  /// What it is made of, on disk; null without a data directory.
  std::shared_ptr<const StoredRegistration> stored;
  /// A moving mean of what calls take, in microseconds; 0 before the first.
  mutable std::atomic<float> mean_us{0};
};

/// GraphDefs by the digest of their bytes, so that a client need not send one twice. Bounded.
/// Thread-safe.
class GraphBytes {
 public:
  void Put(absl::string_view bytes);
  /// Null where it is not, or no longer, known.
  std::shared_ptr<const std::string> Get(const std::string& fingerprint);
  void Clear();

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const std::string>> graphs_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);  // The oldest first.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// What the empty namespace is.
inline constexpr char kDefaultNamespace[] = "default";
inline absl::string_view NamespaceOf(absl::string_view given) {
  return given.empty() ? kDefaultNamespace : given;
}

/// The error of a function that is not, or no longer, there.
absl::Status NoFunction(const Target& function);
/// The same of a resource. `kind`: of which one, where that is known.
absl::Status NoResource(const Target& target, absl::string_view kind = "resource");

class Task;

/// Tasks that wait for their places in line, or have, or wait for, a thread of the engine's: what a
/// drain may have to cut off.
/// Thread-safe.
class ScheduledTasks {
 public:
  void Add(Task* task);
  void Remove(Task* task);  ///< When it has ended, if not before.
  void AbortAll();
  /// Ends those that have no thread with `status`, also those that wait for a device.
  void EndAll(const absl::Status& status);
  /// Since when the first of them has waited for a device; InfiniteFuture: none does.
  absl::Time OldestPark();

 private:
  std::vector<std::shared_ptr<Task>> All();

  absl::Mutex mutex_;
  HashSet<Task*> tasks_ ABSL_GUARDED_BY(mutex_);
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineOptions& options, const state::Life& life);
  ~EngineImpl() override;

  uint64_t epoch(absl::string_view name_space) const override {
    return epochs_[static_cast<size_t>(DurabilityOf(name_space))];
  }
  absl::Status CheckRepeat(absl::string_view name_space, const RequestId& request, uint64_t known,
                           ErrorDetails* details) override;
  bool Remembers(absl::string_view name_space, const RequestId& request) override {
    return answers_.Remembers(NamespaceOf(name_space), request);
  }
  EngineInfo Info() override;
  absl::Status DeviceStatus() const override {
    return device_watch_ ? device_watch_->status() : absl::OkStatus();
  }
  void OnceDeviceLost(absl::AnyInvocable<void(const absl::Status&)> told) override {
    if (device_watch_) device_watch_->OnceLost(std::move(told));
  }
  std::vector<OpInfo> ListOps() override;
  HostAllocator& allocator() override { return allocator_; }
  MemoryBudget& memory() override { return memory_; }
  AnswerWindow& answers() { return answers_; }
  absl::StatusOr<std::shared_ptr<const MessageAnswer>> AnswerOnce(absl::string_view name_space,
                                                                  const RequestId& request,
                                                                  uint64_t content,
                                                                  AnswerOnceFn answer) override;
  /// None where there is no such function any more.
  std::optional<FunctionInfo> FindFunction(absl::string_view name_space, uint64_t id);
  /// Whether a namespace may have so many variables more, and so many bytes in them.
  absl::Status CheckRoom(absl::string_view name_space, int64_t variables, uint64_t bytes) {
    return usages_.Of(NamespaceOf(name_space))->CheckRoom(Held::kVariable, variables, bytes);
  }
  bool has_threads() const { return pool_.threads() > 0 && compilers_.threads() > 0; }
  std::shared_ptr<CallHandle> Register(Registration registration,
                                       absl::AnyInvocable<void(RegisterResult)> done) override;
  absl::StatusOr<FunctionInfo> Resolve(absl::string_view name_space, absl::string_view name,
                                       const FunctionType& type, ErrorDetails* details) override;
  std::shared_ptr<CallHandle> Call(CallSpec spec,
                                   absl::AnyInvocable<void(CallResult)> done) override;
  std::vector<FunctionInfo> ListFunctions(absl::string_view name_space, bool signatures) override;
  std::vector<NamedFunction> FindNamed(absl::string_view name_space,
                                       absl::string_view name) override;
  absl::StatusOr<std::string> DescribeFunction(absl::string_view name_space, absl::string_view name,
                                               bool plan,
                                               std::vector<FunctionInfo>* functions) override;
  absl::StatusOr<int64_t> Unregister(absl::string_view name_space, const Target& function,
                                     bool allow_missing) override;
  absl::StatusOr<CreatedVariable> CreateVariable(absl::string_view name_space,
                                                 absl::string_view name, DType dtype,
                                                 const PartialShape& shape,
                                                 std::optional<Tensor> value) override;
  std::shared_ptr<CallHandle> ReadVariables(ReadSpec spec,
                                            absl::AnyInvocable<void(ReadResult)> done) override;
  std::shared_ptr<CallHandle> AssignVariables(AssignSpec spec,
                                              absl::AnyInvocable<void(AssignResult)> done) override;
  std::shared_ptr<CallHandle> SaveCheckpoint(
      CheckpointSpec spec, absl::AnyInvocable<void(CheckpointResult)> done) override;
  std::shared_ptr<CallHandle> RestoreCheckpoint(
      CheckpointSpec spec, absl::AnyInvocable<void(CheckpointResult)> done) override;
  std::shared_ptr<CallHandle> LoadSavedModel(
      SavedModelSpec spec, absl::AnyInvocable<void(SavedModelResult)> done) override;
  absl::StatusOr<uint64_t> SavedModelVersion(const std::string& path) override;
  absl::StatusOr<ResourceInfo> GetResource(absl::string_view name_space,
                                           const Target& resource) override;
  absl::Status DeleteResource(absl::string_view name_space, const Target& resource,
                              bool allow_missing) override;
  std::vector<ResourceInfo> ListResources(absl::string_view name_space) override;
  absl::StatusOr<Tensor> ReadTensor(absl::string_view name_space, uint64_t kept_id) override;
  absl::StatusOr<uint64_t> KeepTensor(absl::string_view name_space, absl::string_view owner,
                                      absl::Duration ttl, Tensor tensor) override;
  std::vector<KeptTensorInfo> ListTensors(absl::string_view name_space) override;
  int64_t ReleaseTensors(absl::string_view name_space, absl::Span<const uint64_t> ids) override;
  std::vector<NamespaceHoldings> ListNamespaces() override;
  Durability DurabilityOf(absl::string_view name_space) const override {
    return usages_.DurabilityOf(NamespaceOf(name_space));
  }
  absl::Status SetDurability(absl::string_view name_space, Durability durability) override;
  void Clear(absl::string_view name_space) override;
  /// Starts from what is in `store`, which nobody else has.
  absl::Status Restore(std::unique_ptr<SnapshotStore> store, const state::Life& life);
  /// From now on a device that is lost is noticed.
  void WatchDevice() {
    if (device_watch_) device_watch_->Start();
  }
  void WhenDurable(absl::AnyInvocable<void(const absl::Status&)> done) override;
  void TakeSnapshot(absl::AnyInvocable<void(absl::StatusOr<SnapshotInfo>)> done) override;
  absl::Status TakeLastSnapshot(absl::Time deadline) override;
  EngineStats Stats() override;
  std::vector<TransferInfo> ListTransfers(absl::string_view name_space) override {
    return transfers_.List(NamespaceOf(name_space));
  }
  Transfers& transfers() { return transfers_; }
  DrainResult Drain(absl::Time deadline, absl::Duration grace) override;

 private:
  friend class Task;
  friend class CallTask;
  friend class RelaxedForm;
  friend class RegisterTask;
  template <typename Result>
  friend class VariablesTask;
  friend class ReadTask;
  friend class AssignTask;
  friend class FileTask;
  friend class SavedModelRequest;
  friend class Snapshots;

  // The log, where answers of the namespace wait for the disk; else null.
  GroupCommit* LogOf(absl::string_view name_space) const {
    return commits_ != nullptr && DurabilityOf(name_space) == Durability::kSync ? commits_
                                                                                : nullptr;
  }
  // Gives a namespace a durability of its own, or, with none, takes it away, and stores that.
  absl::Status ChangeDurability(absl::string_view name_space, std::optional<Durability> durability)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(durability_mutex_);
  bool MayUse(const OpDef& op) const;  // A function.
  FunctionInfo InfoOf(const ConcreteFunction& function, bool signatures = true);
  std::vector<ResourceInfo> InfoOf(absl::string_view name_space,
                                   const std::vector<std::shared_ptr<Resource>>& resources);
  absl::StatusOr<std::shared_ptr<Resource>> FindResource(absl::string_view name_space,
                                                         const Target& target,
                                                         absl::string_view kind = "resource");
  absl::StatusOr<std::shared_ptr<Resource>> FindVariable(absl::string_view name_space,
                                                         const Target& target);
  // What a registration does once it has a thread. `restored`: of a snapshot. `unit`: is there from
  // before the function goes to the log.
  absl::StatusOr<Registered> RegisterNow(const Registration& registration, ErrorDetails& details,
                                         const RestoredFunction* restored = nullptr,
                                         std::optional<GroupCommit::Unit>* unit = nullptr);
  absl::StatusOr<std::shared_ptr<EngineFunction>> Compile(
      const Registration& registration, const ImportedGraph& imported, const std::string& plan_key,
      const std::vector<PartialShape>& arg_shapes, const std::vector<DType>& variables,
      const FunctionIdentity& identity, const std::vector<TensorSpec>& captures);
  absl::Status BindNamedResources(const std::string& name_space, const Plan& plan,
                                  EngineFunction& function);
  absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const std::string& key,
                                                      const ImportedGraph& imported,
                                                      const std::vector<PartialShape>& arg_shapes,
                                                      const std::vector<DType>& variables);
  // How relaxed calls of a function run that writes; null: as any other.
  std::shared_ptr<RelaxedForm> NewRelaxedForm(const Plan& plan, const ImportedGraph& imported,
                                              const std::vector<PartialShape>& arg_shapes);
  // Sees to it that it is known how the function's relaxed calls run: null where it is, else what
  // is over once it is, or once it has failed. Errors: kResourceExhausted.
  absl::StatusOr<std::shared_ptr<Awaited>> PlanRelaxed(FunctionPtr function);
  // `function_name`: whose output it is, if any. `ttl` zero: kept_tensor_ttl.
  absl::StatusOr<uint64_t> Keep(absl::string_view name_space, absl::string_view owner,
                                absl::string_view function_name, absl::Duration ttl, Tensor tensor);
  // Sees to it that kept tensors go when their time has passed, for the first time after `in`.
  void WatchKept(absl::Duration in);
  void ExpireKept();
  // Counts a task in, until CallDone. Errors: kUnavailable while draining (nothing is counted).
  absl::Status Admit();
  void CallDone();
  // saved_model.cc: what is loaded under a name is by one request at a time. False: it is already.
  bool BeginLoad(absl::string_view name_space, const std::string& name);
  void EndLoad(absl::string_view name_space, const std::string& name);
  // device.cc:
  // Of a variable's value or of what is to be one: on the device, where there is one.
  absl::StatusOr<Tensor> PlaceValue(Tensor value);
  // Of what may be on the device, where the work that makes it has run: in host memory. Waits for
  // the copy.
  absl::StatusOr<Tensor> HostValue(Tensor value);
  void LoseDevice(const absl::Status& lost);
  // Since when calls have waited for the device without any of them going on.
  absl::Time DeviceWaitsSince();
  // As TensorFlow names devices: "CPU", "GPU".
  absl::string_view device_type() const;
  // Tells of those that graphs name and that are not here.
  void NoteDevices(const std::vector<std::string>& devices);
  // Gives what is not used back to the system, where it is worth it.
  void GiveMemoryBack();

  const EngineOptions options_;
  const std::array<uint64_t, 3> epochs_;  // By Durability.
  const absl::Time began_ = absl::Now();  // From then on answers_ knows all that is done.
  MemoryBudget memory_;
  std::atomic<bool> gives_back_{false};        // GiveMemoryBack is to run again soon.
  HostAllocator allocator_;                    // Before all that holds tensors.
  std::optional<MemoryBudget> device_budget_;  // Where the device's memory has a limit of its own.
  std::optional<DeviceAllocator> device_memory_;  // Of options_.device; as well.
  std::optional<MemoryBudget> capture_budget_;    // Of that; null: nothing is captured.
  std::atomic<int64_t> calls_captured_{0}, calls_repeated_{0};
  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
  KernelRegistry device_kernels_{ops_};  // Of options_.device.
  std::optional<StreamPool> streams_;    // Of options_.device.
  NamespaceUsages usages_;
  ResourceStore resources_;
  FunctionCache functions_;
  KeptTensors kept_;
  AnswerWindow answers_;
  GraphBytes graphs_;
  Transfers transfers_;
  absl::Mutex plans_mutex_;
  HashMap<std::string, std::weak_ptr<const Plan>> plans_ ABSL_GUARDED_BY(plans_mutex_);
  std::map<std::string, uint64_t> fallbacks_ ABSL_GUARDED_BY(plans_mutex_);  // Nodes, by op.
  std::set<std::string> missing_devices_ ABSL_GUARDED_BY(plans_mutex_);      // That were told of.
  absl::Mutex loads_mutex_;
  std::set<std::pair<std::string, std::string>> loads_ ABSL_GUARDED_BY(loads_mutex_);
  std::atomic<bool> watches_kept_{false};
  const std::shared_ptr<void> watch_owner_ = std::make_shared<int>();  // What the watch belongs to.
  std::atomic<uint64_t> retraces_{0};
  std::atomic<uint64_t> relaxed_calls_{0}, relaxed_ordered_{0};
  std::atomic<uint64_t> late_handle_calls_{0};
  std::atomic<uint64_t> batches_{0}, batched_calls_{0};
  std::atomic<int64_t> calls_{0};         // Admitted and not done.
  std::atomic<uint64_t> calls_begun_{0};  // Admitted since the start.
  FairPlaces waiting_;                    // Of those: for variables or a thread. By namespace.
  MemoryShare suspended_;                 // What those hold that have run already.
  absl::Mutex drain_mutex_;
  std::atomic<bool> refuses_{false};
  std::atomic<bool> aborts_{false};  // What is admitted, too.
  std::atomic<bool> device_lost_{false};
  std::atomic<int64_t> last_unpark_nanos_{0};  // When a call that waited for the device went on.
  ScheduledTasks scheduled_;
  ThreadPool pool_;  // Its threads use all of the above, and so do the next ones.
  ThreadPool compilers_;
  DeadlineWatch deadlines_;                  // What it ends uses all of the above.
  std::unique_ptr<Snapshots> snapshots_;     // As it does; null without a data directory.
  GroupCommit* commits_ = nullptr;           // Of snapshots_; null without a data directory.
  absl::Mutex durability_mutex_;             // Held by who changes a namespace's.
  std::optional<DeviceWatch> device_watch_;  // Of options_.device. Ends first.
};

}  // namespace formwork
