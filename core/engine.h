#pragma once

// The engine: the only thing of core/ that a server (or a program that embeds it) calls. It wires
// the graph importer, the planner, the function cache, the resources and the executor; they do not
// know it.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/answer_window.h"
#include "core/base/namespace_usage.h"
#include "core/base/request_id.h"
#include "core/base/timeline.h"
#include "core/device/host_allocator.h"
#include "core/function/function_type.h"
#include "core/function/named_values.h"
#include "core/kernels/client_functions.h"
#include "core/resource/kept_tensors.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_spec.h"

namespace formwork {

class Device;
class KernelRegistry;

/// Something that the engine removed by itself, to keep to a bound.
struct Eviction {
  enum class Kind : uint8_t { kFunction, kKeptTensor };
  Kind kind = Kind::kFunction;
  absl::string_view name_space;
  absl::string_view name;  ///< The function's; of a kept tensor: its owner.
  uint64_t id = 0;
  uint64_t bytes = 0;
};

/// A snapshot as it was taken.
struct SnapshotInfo {
  absl::Time taken;  ///< When it was the engine's state, between two calls.
  absl::Duration duration;
  int64_t resources = 0;
  int64_t functions = 0;
  uint64_t bytes_written = 0;  ///< Of values that the one before had not.
  int64_t left_out = 0;        ///< Variables of variants, whose values cannot be stored.
};

/// What is on its way between memory and files.
struct TransferInfo {
  enum class Kind : uint8_t { kSnapshot, kSave, kRestore };
  Kind kind = Kind::kSnapshot;
  std::string path;    ///< Of a checkpoint, as it was asked for.
  uint64_t bytes = 0;  ///< That have been written or read.
  uint64_t total = 0;  ///< Of all; 0: not known yet.
};

struct SnapshotStats {
  uint64_t taken = 0, failed = 0;
  SnapshotInfo last;  ///< Of those taken; that it started from, at first.
  uint64_t bytes_written = 0;
};

/// Of namespaces of Durability::kSync.
struct CommitStats {
  /// Of what writing one group of changes took, in seconds; the last bucket is of what took longer.
  static constexpr std::array<double, 12> kBounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                     0.01,   0.025,   0.05,   0.1,   0.5,    2.5};
  std::array<uint64_t, kBounds.size() + 1> buckets{};
  double seconds = 0;      ///< In all.
  uint64_t groups = 0;     ///< That were written, each at once.
  uint64_t records = 0;    ///< Of calls and other changes, in those.
  uint64_t bytes = 0;      ///< That they had.
  uint64_t failures = 0;   ///< Groups that could not be written, and were tried again.
  uint64_t log_bytes = 0;  ///< Since the last snapshot.
  uint64_t waiting = 0;    ///< Answers that wait now.
};

struct EngineOptions {
  size_t memory_limit_bytes = 0;  ///< Of all that clients cause to be taken; 0: no limit.
  size_t max_tensor_bytes = 0;    ///< Of what is taken at once; 0: as much as the limit.
  /// Of what is in `device`'s own memory; 0: that counts in memory_limit_bytes.
  size_t device_memory_limit_bytes = 0;
  /// What one call may hold at once, where that is more than 1024 times what it was given: its
  /// inputs, variables and constants. Of a registration: than 64 times its graph. 0: as much as
  /// the limit.
  size_t max_call_bytes = 0;
  int compute_threads = 0;       ///< What one kernel may use; 0: all cores.
  int call_threads = 0;          ///< How many calls may run at once outside RPC threads; 0: chosen.
  int compile_threads = 0;       ///< How many registrations may; 0: chosen.
  int max_queued_calls = 1024;   ///< More are refused with kResourceExhausted.
  int64_t max_functions = 4096;  ///< Bounds of the function cache.
  size_t max_function_bytes = size_t{1} << 30;
  /// What functions run on, and where variables are; outlives the engine. Null: the CPU.
  Device* device = nullptr;
  /// Its kernels; what it has none for runs on the host. Null: the CPU's, which a device can run
  /// whose work the host does.
  void (*register_device_kernels)(KernelRegistry& registry) = nullptr;
  /// After so long the device is taken to be lost where it has not answered, or nothing that calls
  /// wait for has gone on there. Zero: never for that.
  absl::Duration device_stall;
  /// Of the device's memory, that all work which is captured to be enqueued as one (a CUDA graph)
  /// may have; 0: none is captured.
  size_t max_captured_bytes = 0;
  /// Of the device, that one call may use, where parts of it have so much to do
  /// (core/plan/streams.h); 0: chosen.
  int streams_per_call = 0;
  double least_stream_work = 0;
  absl::Duration kept_tensor_ttl;    ///< Of a kept tensor that nobody uses; zero: for ever.
  size_t max_kept_bytes = 0;         ///< Of one namespace's kept tensors; 0: no limit of their own.
  size_t max_client_kept_bytes = 0;  ///< Of those of one client in it; 0: the same.
  /// A client has gone when nothing of it has been under way for so long; then what it has kept
  /// goes that nobody has used for so long. Zero: it never has.
  absl::Duration client_ttl;
  NamespaceLimits namespace_limits;  ///< Of each namespace.
  /// Of one client, that are remembered for requests that are sent again
  /// (core/base/answer_window.h); 0: none.
  int64_t max_answers = 1024;
  size_t max_answer_bytes = size_t{64} << 20;           ///< Of all clients; of one: a quarter.
  absl::Duration answer_ttl = absl::Minutes(10);        ///< Of a client of which nothing comes.
  absl::Duration disconnected_ttl = absl::Seconds(10);  ///< See CallHandle::Disconnected.
  /// Where functions, resources and their IDs outlive the engine, as snapshots; empty: nowhere. Of
  /// one engine at a time.
  std::string data_dir;
  /// Of namespaces that have none of their own (SetDurability); without a data directory all are
  /// kMemory. What a data directory has already of a namespace makes that kSnapshot where this is
  /// kMemory.
  Durability durability = Durability::kSnapshot;
  /// Of kSync: what one call may change at the most, by the size that its variables and tables have
  /// before it begins; 0: no bound.
  uint64_t max_commit_bytes = 0;
  absl::Duration snapshot_interval;  ///< Between two of them; zero: only where one is asked for.
  /// After so many calls and writes of variables that have changed something; 0: whatever they are.
  int64_t snapshot_calls = 0;
  /// Where requests and graphs may name files: checkpoints. Empty: nowhere.
  std::string files_dir;
  /// Told of each, on any thread; may be null.
  std::function<void(const Eviction&)> on_eviction;
  /// Likewise, of each snapshot, on request or not.
  std::function<void(const absl::StatusOr<SnapshotInfo>&)> on_snapshot;
  /// Likewise, of each function of the last snapshot that could not be registered again.
  std::function<void(absl::string_view name, const absl::Status& status)> on_lost_function;
  /// Likewise, of each iterator whose position could not be restored.
  std::function<void(absl::string_view name, const absl::Status& status)> on_lost_position;
  /// Likewise, once each, of devices that graphs name and that are not here: nodes there run on
  /// what is.
  std::function<void(absl::string_view device)> on_missing_device;
};

/// A function or resource as requests name it: by ID, or by name where `id` is 0. IDs are of one
/// server's life (see Engine::CheckEpoch).
struct Target {
  uint64_t id = 0;
  std::string name;
};

/// What a caller gives for one input or capture.
struct Argument {
  enum class Kind : uint8_t { kTensor, kResource, kKeptTensor };
  Kind kind = Kind::kTensor;
  Tensor tensor;    ///< kTensor
  uint64_t id = 0;  ///< kResource: its ID; kKeptTensor: the kept tensor's.
};

/// How much of a failed call can be seen from outside.
enum class Effects : uint8_t { kUnknown, kNone, kSome, kAll };

/// What there is to say about a failure beyond its status, which has a Reason (core/base/reason.h)
/// where programs are to act on it.
struct ErrorDetails {
  Effects effects = Effects::kUnknown;
  std::vector<std::string> culprits;      ///< All of them; the text names the first 20.
  std::vector<FunctionType> candidates;   ///< With Reason::kNoMatchingSignature.
  std::optional<FunctionType> suggested;  ///< The type to trace next.
};

struct Registration {
  std::string name_space;
  std::string name;
  std::string graph_def;    ///< Serialized. Empty: the one of `fingerprint`.
  std::string fingerprint;  ///< SHA-256 of graph_def in hex; empty: taken by the engine.
  std::vector<TensorSpec> inputs;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, Argument>> captures;  ///< Graph tensor -> what it is bound to.
  std::vector<std::string> targets;
  std::optional<FunctionType> signature;  ///< Default: the flat inputs.
  std::string pretty_signature;           ///< Empty: made from the signature.
  uint64_t model_version = 0;             ///< Of the SavedModel that it is of; 0: of none.
  /// Whether calls may be computed as one, row by row, and of how many rows; 0: each alone. Those
  /// that come while one runs wait for it, and then run together: nobody waits for others to come.
  /// Their inputs and outputs have rows in their first dimension, of which there may be any number,
  /// and a row of each output depends on that row of the inputs alone: the engine cannot see that.
  /// Errors of Register: kInvalidArgument where these have no rows, or it has effects. Where a
  /// batch fails its calls run each alone; and so do, from then on, all calls, where it had other
  /// rows.
  int64_t max_batch_rows = 0;
  bool replace = false;
  bool retrace = false;  ///< Counted in the statistics.
  absl::Time deadline = absl::InfiniteFuture();
  RequestId request = {};
};

/// A ConcreteFunction as it is shown.
struct FunctionInfo {
  uint64_t id = 0;
  std::string name;
  FunctionType signature;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::string pretty_signature;
  std::string plan;            ///< As text, where it was asked for.
  uint64_t model_version = 0;  ///< Of the SavedModel that it is of; 0: of none.
  int64_t max_batch_rows = 0;  ///< As it was registered; 0: its calls run each alone.
  uint64_t calls = 0;
  uint64_t bytes = 0;
  std::vector<std::string> captured_variables;
  /// Of those, or of the ones that it names itself: the deleted. It cannot be called any more.
  std::vector<std::string> deleted_variables;
};

/// A ConcreteFunction as those see it who pass values by names.
struct NamedFunction {
  uint64_t id = 0;
  uint64_t model_version = 0;                 ///< Of the SavedModel that it is of; 0: of none.
  std::shared_ptr<const NamedValues> values;  ///< Null: it takes none by names.
};

struct Registered {
  FunctionInfo function;
  bool existed = false;
};

struct RegisterResult {
  absl::Status status;
  ErrorDetails details;   ///< Where the status is not OK.
  Registered registered;  ///< Where it is.
};

struct CallSpec {
  std::string name_space;
  Target function;  ///< By name: the one that fits the inputs' types (TensorFlow's rule).
  std::vector<Argument> inputs;
  /// Gets each text as it is printed, on the thread that runs the call, which it must not hold up.
  /// Null: CallResult::printed has them.
  absl::AnyInvocable<void(absl::string_view)> print;
  bool keep_outputs = false;
  size_t keep_from = 0;     ///< The first output that is kept; those before it are in the result.
  std::string owner;        ///< Of kept outputs, as lists show it: the client's ID, or its address.
  absl::Duration kept_ttl;  ///< Of kept outputs; zero: EngineOptions::kept_tensor_ttl.
  absl::Time deadline = absl::InfiniteFuture();
  /// A call that is expected to take less runs on the thread that starts it, which a hop to another
  /// would cost 25 to 60 us; of functions with open shapes, where this is 0.1 ms or more, what has
  /// taken less than 0.1 ms.
  absl::Duration inline_below = absl::Microseconds(100);
  size_t given_bytes = 0;  ///< Beside its inputs: of files that it is to read.
  bool timeline = false;   ///< Whether the result has one.
  /// Whether all that it changes of resources changes, or, where it does not succeed, nothing: then
  /// its effects are none, and what it has printed is not told. It holds what it writes to its end,
  /// and what it prints comes with its result. Random numbers that it has drawn, and files that it
  /// has written, stay so.
  bool atomic = false;
  /// Whether what comes before its apply region is computed from a snapshot, beside others, as
  /// resource/README.md describes; not together with `atomic`. Where the function has no such parts
  /// it runs as any other call. What a failing one has changed stays, as always.
  bool relaxed = false;
  RequestId request = {};
  /// What its client answers for; null: nothing.
  std::shared_ptr<ClientFunctions> client_functions = nullptr;
};

struct CallOutput {
  Tensor tensor;                   ///< Without value where it was kept or cannot leave the server.
  uint64_t kept_id = 0;            ///< Set for a kept output.
  DType opaque = DType::kInvalid;  ///< Set for an output that cannot leave (variant, resource).
};

struct CallResult {
  absl::Status status;
  ErrorDetails details;              ///< Where the status is not OK.
  std::vector<std::string> printed;  ///< What the function printed, in order; also on failure.
  std::vector<CallOutput> outputs;
  uint64_t function_id = 0;
  std::string function_name;
  std::unique_ptr<Timeline> timeline;  ///< Where it was asked for; also on failure.
};

/// What is there of a variable, or of another resource, without its value.
struct ResourceInfo {
  uint64_t id = 0;
  std::string name;
  ResourceType type;
  bool initialized = false;
  uint64_t version = 0;
  uint64_t bytes = 0;
  // These are of GetResource and ListResources alone:
  /// The function whose call wrote it last; empty: a client did, or one that is gone.
  std::string last_writer = {};
  uint64_t snapshot_version = 0;  ///< That the last snapshot has; 0: none.
};

struct VariableValue {
  ResourceInfo variable;
  Tensor value;
};

struct ReadSpec {
  std::string name_space;
  std::vector<Target> variables;
  absl::Time deadline = absl::InfiniteFuture();
};

/// Variables in files: of a path that ends in ".safetensors" in that format, else a TensorFlow
/// checkpoint, whose prefix it is.
struct CheckpointSpec {
  std::string name_space;
  std::string path;                ///< In EngineOptions::files_dir, or relative to it.
  std::vector<std::string> names;  ///< Of variables; none: all that there are.
  absl::Time deadline = absl::InfiniteFuture();
};

struct CheckpointResult {
  absl::Status status;
  ErrorDetails details;   ///< Where the status is not OK: then no variable has changed.
  int64_t variables = 0;  ///< That were written or read.
  int64_t created = 0;    ///< Of those read: that were not there.
  int64_t left_out = 0;   ///< Not written: of variants, which files have no form for.
  uint64_t bytes = 0;
};

struct SavedModelSpec {
  std::string name_space;
  std::string path;               ///< Of its folder, in EngineOptions::files_dir.
  std::string name;               ///< Of the function of its signature "serving_default".
  std::vector<std::string> tags;  ///< Of the graph; none: the only one, or that of "serve".
  bool replace = false;           ///< What has been loaded under the name.
  /// As Registration::max_batch_rows, of the signatures that it can be of; there has to be one.
  int64_t max_batch_rows = 0;
  absl::Time deadline = absl::InfiniteFuture();
};

struct SavedModelResult {
  absl::Status status;
  ErrorDetails details;  ///< Where the status is not OK.
  std::string path;      ///< The folder that was loaded.
  std::vector<FunctionInfo> functions;
  int64_t resources = 0;  ///< Variables and tables that it has now.
  uint64_t bytes = 0;     ///< Of those.
};

struct ReadResult {
  absl::Status status;
  ErrorDetails details;               ///< Where the status is not OK.
  std::vector<VariableValue> values;  ///< In the order asked; they share the variables' memory.
};

struct AssignSpec {
  std::string name_space;
  std::vector<std::pair<Target, Tensor>> values;
  absl::Time deadline = absl::InfiniteFuture();
  RequestId request = {};
};

struct AssignResult {
  absl::Status status;
  ErrorDetails details;  ///< Where the status is not OK: then nothing was written.
  std::vector<ResourceInfo> variables;
};

/// An op that functions may use.
struct OpInfo {
  std::string name;
  std::string signature;  ///< SignatureOf (core/ops/op_text.h).
  std::string device;     ///< The name of EngineOptions::device, where that has a kernel for it.
};

/// What there is to know of an engine that does not change.
struct EngineInfo {
  uint64_t epoch = 0;
  EngineOptions options;         ///< As they took effect: what was left to choose is chosen.
  std::vector<std::string> ops;  ///< That functions may use. Sorted.
  std::string instruction_set;   ///< What kernels use, such as "avx2".
};

/// Counters since the start, and levels now.
struct EngineStats {
  int64_t functions = 0;
  uint64_t function_bytes = 0;
  uint64_t cache_hits = 0, cache_misses = 0, cache_evictions = 0, retraces = 0;
  int64_t variables = 0;
  uint64_t variable_bytes = 0;
  int64_t kept_tensors = 0;
  uint64_t kept_bytes = 0;
  int64_t kept_leases = 0;  ///< Of the kept tensors: those that have a time to live.
  uint64_t kept_evictions =
      0;                ///< That nobody used for their time to live, or as their client went.
  int64_t answers = 0;  ///< That are remembered for requests that are sent again.
  uint64_t answer_bytes = 0;
  uint64_t answer_evictions = 0;   ///< That went before their clients acknowledged them.
  uint64_t repeats_answered = 0;   ///< Requests that were sent again and not done again.
  uint64_t repeats_forgotten = 0;  ///< That were refused, for their answers had gone.
  int64_t calls_queued = 0;
  int64_t calls_running = 0;
  uint64_t ticket_waits = 0;  ///< Calls that had to wait for an earlier one.
  double ticket_wait_seconds = 0;
  /// Calls in which only a step itself knows which resource it is of: they had places at all that
  /// it may be.
  uint64_t late_handle_calls = 0;
  /// Calls that were computed as one, and how many calls that were (Registration::max_batch_rows).
  uint64_t batches = 0, batched_calls = 0;
  uint64_t relaxed_calls = 0;    ///< Calls that asked to be relaxed and ran so.
  uint64_t relaxed_ordered = 0;  ///< That asked, and ran as any other.
  uint64_t tensor_bytes = 0;
  uint64_t memory_used_bytes = 0;   ///< Tensors, messages, caches and the heap.
  uint64_t memory_limit_bytes = 0;  ///< 0: none.
  uint64_t memory_refusals = 0;     ///< Requests that the limit refused, or the device's.
  /// Of a device with a limit of its own, as the two above; else 0.
  uint64_t device_memory_used_bytes = 0;
  uint64_t device_memory_limit_bytes = 0;
  bool device_lost = false;
  /// Of a device: calls whose work was captured, and those that enqueued captured work.
  int64_t calls_captured = 0, calls_repeated = 0;
  SnapshotStats snapshots;
  CommitStats commits;
  /// Nodes of plans, by op, that run on the host because the device has no kernel for them.
  std::vector<std::pair<std::string, uint64_t>> fallbacks;
};

/// An answer in the words of who gave it.
class MessageAnswer : public AnswerWindow::Answer {
 public:
  virtual std::string Text() const = 0;  ///< As it is to be given by another process.
};

/// A request that may wait or take long: a call, a registration, variables read or written. Shared
/// by the engine and whoever may cancel it; dropped without Start it is as if never asked.
/// Thread-safe.
class CallHandle {
 public:
  virtual ~CallHandle() = default;
  /// Begins; once. Whoever may cancel has the handle before that, so that no cancellation is lost.
  /// The `done` that the request was made with is called exactly once: before this returns where
  /// the request is small and need not wait (or is refused), else on another thread.
  virtual void Start() = 0;
  /// Ends it with kCancelled: at once while it waits, and then it never takes effect; one that runs
  /// at its next look. At any time, before Start and after the end too.
  virtual void Cancel() = 0;
  /// Its client's connection is lost: where the request has a number, the client may send it again,
  /// and be answered as if nothing had happened. So it goes on while someone waits who has sent it
  /// again, and for EngineOptions::disconnected_ttl in any case; then, and without a number at
  /// once, as Cancel. Before the engine's end.
  virtual void Disconnected() = 0;
};

/// Calls that were left when Drain's patience ended.
struct DrainResult {
  int64_t cut_off = 0;  ///< Had not ended by the deadline, and were aborted.
  int64_t left = 0;     ///< Of those: do not stop, and run on.
};

/// Thread-safe. What gives a CallHandle runs when that is started, in order of arrival where it
/// needs the same variables, and ends at its deadline (kDeadlineExceeded) as it does on Cancel. All
/// other methods return when they are done and wait for nothing. Lists may be long: where there is
/// no memory for one it throws std::bad_alloc (core/base/memory_budget.h).
///
/// Everything lives in a namespace; the empty one is "default". A namespace is there while
/// something is in it, or while it has a durability of its own. Namespaces share the engine: what
/// one has waiting or running leaves room for the others, and none may hold more than
/// EngineOptions::namespace_limits (kResourceExhausted, Reason::kQuota).
class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;  ///< Waits for calls that run.

  /// Of a namespace, by its durability: another number at each start that may have lost something
  /// of it, so that clients notice. An engine that starts from the last snapshot of one that ended
  /// in peace has the same, but for kMemory, and after one that did not end so kSync has, unless
  /// there were kept tensors or what cannot be stored. No two lives of a server give the same ID
  /// (of 53 bits, which JSON's readers keep).
  virtual uint64_t epoch(absl::string_view name_space = "") const = 0;
  /// For each request that names something by ID, before anything is done with it: whether the IDs
  /// that the client knows are of this life. `known`: the epoch that it got them with; 0: not said,
  /// not checked. `details` may be null.
  /// Errors: kFailedPrecondition: the server was restarted.
  absl::Status CheckEpoch(absl::string_view name_space, uint64_t known,
                          ErrorDetails* details) const;
  /// For each request that is sent again, before CheckEpoch: whether it can be told what became of
  /// it. `known`: the epoch that it was first sent in; the namespace's may be another one by now
  /// without a restart, where it was removed together with its durability. Errors: as CheckEpoch.
  virtual absl::Status CheckRepeat(absl::string_view name_space, const RequestId& request,
                                   uint64_t known, ErrorDetails* details) = 0;
  /// Whether a request is being done or has been, so that it will be answered as it was then,
  /// whatever has become of what it names.
  virtual bool Remembers(absl::string_view name_space, const RequestId& request) = 0;
  virtual EngineInfo Info() = 0;
  /// OK, or kUnavailable (Reason::kDeviceLost) once the device is lost, for good: then what needs a
  /// call's place in line is refused with that, and what was under way is answered so, whatever
  /// becomes of it.
  virtual absl::Status DeviceStatus() const = 0;
  /// Calls `told` with that once it is so, on a thread of the engine's, or here.
  virtual void OnceDeviceLost(absl::AnyInvocable<void(const absl::Status&)> told) = 0;
  virtual std::vector<OpInfo> ListOps() = 0;  ///< By name.
  /// Where decoded inputs are to be allocated.
  virtual HostAllocator& allocator() = 0;
  /// What messages are to be reserved of while they wait, and decoding is to be held to.
  virtual MemoryBudget& memory() = 0;

  /// A Registration, CallSpec or AssignSpec whose `request` is given is done once, however often it
  /// is asked for, and who asks again gets the same answer, less what was printed meanwhile and the
  /// timeline; also while it is being done, and then it waits as a call does. What failed without
  /// an effect is done again. With Durability::kSync all this holds across crashes, too.
  ///
  /// This is for requests that are asked for without a CallHandle: `answer` does what is asked for,
  /// sets `done` once it has had its effect, and may fail then, or give null for want of memory; it
  /// waits for nothing. `content`: a hash (StableHash) of what is asked for. Errors: of `answer`;
  /// AnswerWindow::Begin's; kUnavailable while it is being done; kInvalidArgument if the number was
  /// of a request with a CallHandle.
  using AnswerOnceFn =
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<const MessageAnswer>>(bool* done)>;
  virtual absl::StatusOr<std::shared_ptr<const MessageAnswer>> AnswerOnce(
      absl::string_view name_space, const RequestId& request, uint64_t content,
      AnswerOnceFn answer) = 0;

  /// Imports, compiles and caches, on threads of its own.
  /// Errors: kInvalidArgument (graph, names, captures), kUnimplemented lists the missing ops,
  /// kNotFound if only a fingerprint was given and it is not known, kAlreadyExists if the name and
  /// type stand for another function and `replace` is not set, kResourceExhausted if too many wait,
  /// kUnavailable while draining.
  virtual std::shared_ptr<CallHandle> Register(Registration registration,
                                               absl::AnyInvocable<void(RegisterResult)> done) = 0;
  virtual absl::StatusOr<FunctionInfo> Resolve(absl::string_view name_space, absl::string_view name,
                                               const FunctionType& type, ErrorDetails* details) = 0;

  /// Runs a call. Errors, before it runs: kUnimplemented of an atomic one that changes what cannot
  /// be changed back (an iterator), or on a device; kInvalidArgument of one that is to be atomic
  /// and relaxed; kNotFound (function, variable, kept tensor),
  /// kInvalidArgument (inputs), kFailedPrecondition naming a captured variable that was deleted,
  /// kResourceExhausted if too many wait, kUnavailable while draining; then those of its steps, and
  /// kAborted where a drain cut it off. With Durability::kSync kResourceExhausted, of what may
  /// change something, also where the disk is full or too much may change, before it runs; and
  /// whatever error kept the disk from having what it changed or read, afterwards.
  virtual std::shared_ptr<CallHandle> Call(CallSpec spec,
                                           absl::AnyInvocable<void(CallResult)> done) = 0;

  /// By name, each name's in order of registration. `signatures`: else signature, inputs, outputs
  /// and pretty_signature are left out.
  virtual std::vector<FunctionInfo> ListFunctions(absl::string_view name_space,
                                                  bool signatures = true) = 0;
  /// Those of one name that can be called, the latest first.
  virtual std::vector<NamedFunction> FindNamed(absl::string_view name_space,
                                               absl::string_view name) = 0;
  /// TensorFlow's pretty_printed_concrete_signatures; with `plan` each is followed by its program,
  /// of a long one the beginning. kNotFound if there is no such name.
  virtual absl::StatusOr<std::string> DescribeFunction(absl::string_view name_space,
                                                       absl::string_view name, bool plan,
                                                       std::vector<FunctionInfo>* functions) = 0;
  /// One by ID, or all of a name; how many went. kNotFound where there was none, unless
  /// `allow_missing`.
  virtual absl::StatusOr<int64_t> Unregister(absl::string_view name_space, const Target& function,
                                             bool allow_missing = false) = 0;

  /// Creates, or attaches to what is there (then `value` is not used).
  /// Errors: kInvalidArgument naming the variable if dtype or shape differ.
  struct CreatedVariable {
    ResourceInfo variable;
    bool existed = false;
  };
  virtual absl::StatusOr<CreatedVariable> CreateVariable(absl::string_view name_space,
                                                         absl::string_view name, DType dtype,
                                                         const PartialShape& shape,
                                                         std::optional<Tensor> value) = 0;
  /// These two take one place in line at all their variables, as a call does: what is read is the
  /// state between two calls, and no call sees a part of what is written.
  /// Errors: kNotFound; kFailedPrecondition if one is uninitialised; kResourceExhausted.
  virtual std::shared_ptr<CallHandle> ReadVariables(ReadSpec spec,
                                                    absl::AnyInvocable<void(ReadResult)> done) = 0;
  /// Errors: kNotFound; kInvalidArgument if a value does not fit or a variable is named twice.
  virtual std::shared_ptr<CallHandle> AssignVariables(
      AssignSpec spec, absl::AnyInvocable<void(AssignResult)> done) = 0;

  /// Writes variables to files, as they are between two calls; calls go on meanwhile. The files are
  /// there as a whole or not at all. Errors: kFailedPrecondition without a folder for files,
  /// kPermissionDenied if the path leads out of it, kNotFound, kResourceExhausted if the disk is
  /// full, kUnimplemented if the format has no such dtype.
  virtual std::shared_ptr<CallHandle> SaveCheckpoint(
      CheckpointSpec spec, absl::AnyInvocable<void(CheckpointResult)> done) = 0;
  /// Assigns variables what files have, all at one place in line; those that are not there are
  /// made. Errors: as SaveCheckpoint; kInvalidArgument naming one that does not fit, kDataLoss if a
  /// file is damaged.
  virtual std::shared_ptr<CallHandle> RestoreCheckpoint(
      CheckpointSpec spec, absl::AnyInvocable<void(CheckpointResult)> done) = 0;

  /// Makes functions of the signatures of a SavedModel, whose variables and tables get the values
  /// that it says: of "serving_default" `name`, of any other `name`/SIGNATURE. A folder of versions
  /// (1, 2, ...) stands for the highest. Its resources are new ones, `name`@N/..., so that with
  /// `replace` calls go on with the model that was there, each until its function is replaced; then
  /// what was that one's goes. Where it fails nothing is left of it, but where it had begun to
  /// replace functions. Errors: those of Register and Call; as RestoreCheckpoint of files;
  /// kAlreadyExists without `replace` if a function has such a name; kAborted if another request
  /// loads under that name.
  virtual std::shared_ptr<CallHandle> LoadSavedModel(
      SavedModelSpec spec, absl::AnyInvocable<void(SavedModelResult)> done) = 0;

  /// The version of what LoadSavedModel would load from `path` now: the number that its folder is
  /// named by, 0 where that is none. Reads the folder. Errors: LoadSavedModel's of files.
  virtual absl::StatusOr<uint64_t> SavedModelVersion(const std::string& path) = 0;

  // Of resources of all kinds, variables included.
  virtual absl::StatusOr<ResourceInfo> GetResource(absl::string_view name_space,
                                                   const Target& resource) = 0;
  /// Calls that were admitted before go on with it; functions that captured it fail from then on.
  virtual absl::Status DeleteResource(absl::string_view name_space, const Target& resource,
                                      bool allow_missing = false) = 0;
  virtual std::vector<ResourceInfo> ListResources(absl::string_view name_space) = 0;  ///< By name.

  /// Keeps a value for `owner`, for `ttl` (zero: EngineOptions::kept_tensor_ttl); its ID.
  /// Errors: kResourceExhausted (the namespace's quota, or the owner's).
  virtual absl::StatusOr<uint64_t> KeepTensor(absl::string_view name_space, absl::string_view owner,
                                              absl::Duration ttl, Tensor tensor) = 0;
  /// Reading, and giving it to a call, puts a kept tensor's end off by its time to live.
  virtual absl::StatusOr<Tensor> ReadTensor(absl::string_view name_space, uint64_t kept_id) = 0;
  virtual std::vector<KeptTensorInfo> ListTensors(absl::string_view name_space) = 0;  ///< By ID.
  /// How many went.
  virtual int64_t ReleaseTensors(absl::string_view name_space, absl::Span<const uint64_t> ids) = 0;
  /// Those in which something is, or that have a durability of their own, by name.
  virtual std::vector<NamespaceHoldings> ListNamespaces() = 0;
  virtual Durability DurabilityOf(absl::string_view name_space) const = 0;
  /// Gives a namespace in which nothing is a durability of its own, which it has until it is
  /// cleared, over restarts too. On disk when this returns. Does nothing where it has that already.
  /// Errors: kFailedPrecondition if something is in it, or if there is no data directory;
  /// kInvalidArgument if it is no name; kResourceExhausted if the disk is full, or if too many have
  /// one; kUnavailable if the disk fails.
  virtual absl::Status SetDurability(absl::string_view name_space, Durability durability) = 0;
  /// Removes all functions, variables and other resources, and kept tensors of a namespace, which
  /// then is not listed any more. Calls that were admitted before go on with what they have. Of
  /// requests with a number, answers are known as before. With Durability::kSync it is durable at
  /// once. A durability of its own goes, too.
  virtual void Clear(absl::string_view name_space) = 0;

  /// Runs `done` once all that has been changed so far of namespaces of Durability::kSync is on
  /// disk; where there is none, at once. What gives a CallHandle waits by itself; this is for who
  /// answers for the other methods. On any thread. Errors: as those of such a call.
  virtual void WhenDurable(absl::AnyInvocable<void(const absl::Status&)> done) = 0;

  /// Takes a snapshot: of the state between two calls, after all that has been answered. `done`
  /// runs once, on any thread. Errors: kFailedPrecondition without a data directory;
  /// kResourceExhausted if the disk or memory is full, kUnavailable if the disk fails, kCancelled
  /// if the engine ends before: then the last one stands.
  virtual void TakeSnapshot(absl::AnyInvocable<void(absl::StatusOr<SnapshotInfo>)> done) = 0;
  /// The last one, after Drain, when nobody asks for anything any more: an engine that starts from
  /// it has the same epoch, unless something could not be stored (a kept tensor). Does nothing
  /// without a data directory. Errors: also kDeadlineExceeded where calls that do not end keep it
  /// from the variables.
  virtual absl::Status TakeLastSnapshot(absl::Time deadline) = 0;

  virtual EngineStats Stats() = 0;
  /// What is under way: a snapshot, and checkpoints of the namespace.
  virtual std::vector<TransferInfo> ListTransfers(absl::string_view name_space) = 0;
  /// Refuses what is new (kUnavailable) and returns when all that was admitted has ended. What has
  /// not by `deadline` is cut off with kAborted, and waited for up to `grace` more.
  virtual DrainResult Drain(absl::Time deadline, absl::Duration grace) = 0;
};

}  // namespace formwork
