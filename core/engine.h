#pragma once

// The engine: the only thing of core/ that a server (or a program that embeds it) calls. It wires
// the graph importer, the planner, the function cache, the resources and the executor; they do not
// know it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/device/host_allocator.h"
#include "core/function/function_type.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_spec.h"

namespace formwork {

struct EngineOptions {
  size_t memory_limit_bytes = 0;  ///< Of tensors; 0: no limit.
  int compute_threads = 0;        ///< What one kernel may use; 0: all cores.
  int call_threads = 0;          ///< How many calls may run at once outside RPC threads; 0: chosen.
  int max_queued_calls = 1024;   ///< More are refused with kResourceExhausted.
  int64_t max_functions = 4096;  ///< Bounds of the function cache.
  size_t max_function_bytes = size_t{1} << 30;
};

/// What a caller gives for one input or capture.
struct Argument {
  enum class Kind : uint8_t { kTensor, kResource, kKeptTensor };
  Kind kind = Kind::kTensor;
  Tensor tensor;    ///< kTensor
  uint64_t id = 0;  ///< kResource: a variable's ID; kKeptTensor: the kept tensor's.
};

/// How much of a failed call can be seen from outside.
enum class Effects : uint8_t { kUnknown, kNone, kSome, kAll };

/// What there is to say about a failure beyond its status.
struct ErrorDetails {
  Effects effects = Effects::kUnknown;
  std::vector<std::string> culprits;      ///< All of them; the text names the first 20.
  bool no_matching_signature = false;     ///< The name is known, the type fits none.
  bool unknown_function = false;          ///< The name or ID is not, or no longer, there.
  std::vector<FunctionType> candidates;   ///< With no_matching_signature.
  std::optional<FunctionType> suggested;  ///< The type to trace next.
};

struct Registration {
  std::string name_space;
  std::string name;
  absl::string_view graph_def;  ///< Serialized; only read during the call.
  std::string fingerprint;      ///< SHA-256 of graph_def in hex; empty: taken by the engine.
  std::vector<TensorSpec> inputs;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, Argument>> captures;  ///< Graph tensor -> what it is bound to.
  std::vector<std::string> targets;
  std::optional<FunctionType> signature;  ///< Default: the flat inputs.
  std::string pretty_signature;           ///< Empty: made from the signature.
  bool replace = false;
  bool retrace = false;  ///< Counted in the statistics.
};

/// A ConcreteFunction as it is shown.
struct FunctionInfo {
  uint64_t id = 0;
  std::string name;
  FunctionType signature;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::string pretty_signature;
  uint64_t calls = 0;
  uint64_t bytes = 0;
  std::vector<std::string> captured_variables;
};

struct Registered {
  FunctionInfo function;
  bool existed = false;
};

struct CallSpec {
  std::string name_space;
  uint64_t function_id = 0;  ///< By ConcreteFunction, or, where 0, by name and the inputs' types.
  std::string name;
  std::vector<Argument> inputs;
  bool keep_outputs = false;
  absl::Time deadline = absl::InfiniteFuture();
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
};

struct VariableInfo {
  uint64_t id = 0;
  std::string name;
  DType dtype = DType::kInvalid;
  PartialShape shape;
  bool initialized = false;
  uint64_t version = 0;
  uint64_t bytes = 0;
};

/// Counters since the start, and levels now.
struct EngineStats {
  int64_t functions = 0;
  uint64_t function_bytes = 0;
  uint64_t cache_hits = 0, cache_misses = 0, cache_evictions = 0, retraces = 0;
  int64_t variables = 0;
  uint64_t variable_bytes = 0;
  int64_t kept_tensors = 0;
  int64_t calls_queued = 0;
  int64_t calls_running = 0;
  uint64_t ticket_waits = 0;  ///< Calls that had to wait for an earlier one.
  double ticket_wait_seconds = 0;
  uint64_t tensor_bytes = 0;
};

/// One call under way. Shared by the engine and whoever may cancel it. Thread-safe.
class CallHandle {
 public:
  virtual ~CallHandle() = default;
  virtual void Cancel() = 0;
};

/// Thread-safe. All methods but Call return when they are done; none waits for other calls except
/// variable reads and writes, which take their place in line like a call.
class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;  ///< Waits for calls that run.

  /// Another number at each start, so that clients notice a restart.
  virtual uint64_t epoch() const = 0;
  /// Where decoded inputs are to be allocated.
  virtual HostAllocator& allocator() = 0;

  /// Imports, compiles and caches. `details` (may be null) is filled on failure.
  /// Errors: kInvalidArgument (graph, names, captures), kUnimplemented lists the missing ops,
  /// kNotFound if only a fingerprint was given and it is not known, kAlreadyExists if the name and
  /// type stand for another function and `replace` is not set.
  virtual absl::StatusOr<Registered> Register(const Registration& registration,
                                              ErrorDetails* details) = 0;
  virtual absl::StatusOr<FunctionInfo> Resolve(absl::string_view name_space, absl::string_view name,
                                               const FunctionType& type, ErrorDetails* details) = 0;

  /// Runs a call; `done` is called exactly once, on this thread where the call is small and need
  /// not wait, else on another. The handle may be dropped.
  virtual std::shared_ptr<CallHandle> Call(CallSpec spec,
                                           absl::AnyInvocable<void(CallResult)> done) = 0;

  virtual std::vector<FunctionInfo> ListFunctions(absl::string_view name_space) = 0;
  /// TensorFlow's pretty_printed_concrete_signatures. kNotFound if there is no such name.
  virtual absl::StatusOr<std::string> DescribeFunction(absl::string_view name_space,
                                                       absl::string_view name,
                                                       std::vector<FunctionInfo>* functions) = 0;
  /// By ID, or all of a name where id is 0; how many went. kNotFound where there was none.
  virtual absl::StatusOr<int64_t> Unregister(absl::string_view name_space, uint64_t id,
                                             absl::string_view name) = 0;

  /// Creates, or attaches to what is there (then `value` is not used).
  /// Errors: kInvalidArgument naming the variable if dtype or shape differ.
  struct CreatedVariable {
    VariableInfo variable;
    bool existed = false;
  };
  virtual absl::StatusOr<CreatedVariable> CreateVariable(absl::string_view name_space,
                                                         absl::string_view name, DType dtype,
                                                         const PartialShape& shape,
                                                         std::optional<Tensor> value) = 0;
  /// By ID, or by name where id is 0. These three take a place in line; `done` as for Call.
  virtual void ReadVariable(
      absl::string_view name_space, uint64_t id, absl::string_view name,
      absl::AnyInvocable<void(absl::StatusOr<std::pair<VariableInfo, Tensor>>)> done) = 0;
  virtual void AssignVariable(absl::string_view name_space, uint64_t id, absl::string_view name,
                              Tensor value,
                              absl::AnyInvocable<void(absl::StatusOr<VariableInfo>)> done) = 0;
  virtual absl::Status DeleteVariable(absl::string_view name_space, uint64_t id,
                                      absl::string_view name) = 0;
  virtual std::vector<VariableInfo> ListVariables(absl::string_view name_space) = 0;

  virtual absl::StatusOr<Tensor> ReadTensor(absl::string_view name_space, uint64_t kept_id) = 0;
  virtual int64_t ReleaseTensors(absl::string_view name_space, absl::Span<const uint64_t> ids) = 0;
  /// Removes all functions, variables and kept tensors of a namespace.
  virtual void Clear(absl::string_view name_space) = 0;

  virtual EngineStats Stats() = 0;
  /// Refuses new calls (kUnavailable) and returns when those admitted are done, or at `deadline`
  /// with kDeadlineExceeded.
  virtual absl::Status Drain(absl::Time deadline) = 0;
};

}  // namespace formwork
