// The engine's wiring, and what is asked of it besides registering and calling.

#include "core/engine.h"

#include <algorithm>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/engine_impl.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

uint64_t NewEpoch() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

// More than there are cores: a long call must not keep a short one from its turn; the scheduler of
// the operating system shares the cores among them.
int CallThreads(const EngineOptions& options) {
  if (options.call_threads > 0) return options.call_threads;
  return std::max(16, 4 * static_cast<int>(std::thread::hardware_concurrency()));
}

// Apart from those of other epochs by the upper bits; within 53, which JSON's readers keep.
uint64_t FirstFunctionId(uint64_t epoch) { return ((epoch >> 32) & 0xfffff) << 32 | 1; }

VariableInfo InfoOf(const Variable& variable) {
  return {variable.id,     variable.name,          variable.dtype,
          variable.shape,  variable.initialized(), variable.version(),
          variable.bytes()};
}

}  // namespace

void KeptTensors::Put(absl::string_view name_space, uint64_t id, Tensor tensor) {
  absl::MutexLock lock(&mutex_);
  tensors_[std::string(name_space)][id] = std::move(tensor);
}

absl::StatusOr<Tensor> KeptTensors::Get(absl::string_view name_space, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  auto found = tensors_.find(name_space);
  if (found != tensors_.end()) {
    auto tensor = found->second.find(id);
    if (tensor != found->second.end()) return tensor->second;
  }
  return NotFound("there is no kept tensor of id=", id);
}

int64_t KeptTensors::Release(absl::string_view name_space, absl::Span<const uint64_t> ids) {
  absl::MutexLock lock(&mutex_);
  auto found = tensors_.find(name_space);
  if (found == tensors_.end()) return 0;
  int64_t released = 0;
  for (uint64_t id : ids) released += static_cast<int64_t>(found->second.erase(id));
  if (found->second.empty()) tensors_.erase(found);
  return released;
}

void KeptTensors::Clear(absl::string_view name_space) {
  absl::MutexLock lock(&mutex_);
  tensors_.erase(name_space);
}

int64_t KeptTensors::count() {
  absl::MutexLock lock(&mutex_);
  int64_t count = 0;
  for (const auto& [name_space, tensors] : tensors_) count += static_cast<int64_t>(tensors.size());
  return count;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  if (options.max_functions < 1 || options.max_queued_calls < 1) {
    return InvalidArgument("the engine's bounds must be at least 1");
  }
  if (options.compute_threads > 0) SetParallelThreads(options.compute_threads);
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(options));
}

EngineImpl::EngineImpl(const EngineOptions& options)
    : options_(options),
      epoch_(NewEpoch()),
      allocator_(options.memory_limit_bytes),
      resources_(options.max_queued_calls),
      functions_(options.max_functions, options.max_function_bytes, FirstFunctionId(epoch_)),
      pool_(CallThreads(options)) {
  RegisterOps(ops_);
  RegisterCpuKernels(kernels_);
}

EngineImpl::~EngineImpl() { Drain(absl::InfiniteFuture()).IgnoreError(); }

FunctionInfo EngineImpl::InfoOf(const ConcreteFunction& function) {
  FunctionInfo info;
  info.id = function.id;
  info.name = function.name;
  info.signature = function.type();
  info.inputs = function.inputs;
  info.outputs = function.outputs;
  info.pretty_signature = function.pretty_signature.empty()
                              ? function.type().ToString(function.captures)
                              : function.pretty_signature;
  info.calls = function.calls.load(std::memory_order_relaxed);
  info.bytes = function.bytes;
  for (const Binding& binding : function.identity.bindings) {
    if (binding.resource_id == 0) continue;
    if (std::shared_ptr<Variable> variable = resources_.Find(binding.resource_id)) {
      info.captured_variables.push_back(variable->name);
    }
  }
  return info;
}

absl::StatusOr<FunctionInfo> EngineImpl::Resolve(absl::string_view name_space,
                                                 absl::string_view name, const FunctionType& type,
                                                 ErrorDetails* details) {
  Dispatch dispatch = functions_.Find(name_space, name, type);
  if (dispatch.function != nullptr) return InfoOf(*dispatch.function);
  if (details != nullptr) {
    details->unknown_function = dispatch.unknown_name;
    details->no_matching_signature = !dispatch.unknown_name;
    details->candidates = dispatch.candidates;
    details->suggested = dispatch.suggested;
  }
  if (dispatch.unknown_name) return NotFound("there is no function '", name, "'");
  return NotFound("no signature of function '", name,
                  "' takes this type: candidates=", dispatch.candidates.size());
}

std::vector<FunctionInfo> EngineImpl::ListFunctions(absl::string_view name_space) {
  std::vector<FunctionInfo> infos;
  for (const FunctionPtr& function : functions_.List(name_space))
    infos.push_back(InfoOf(*function));
  return infos;
}

absl::StatusOr<std::string> EngineImpl::DescribeFunction(absl::string_view name_space,
                                                         absl::string_view name,
                                                         std::vector<FunctionInfo>* functions) {
  std::string text;
  for (const FunctionPtr& function : functions_.List(name_space, name)) {
    FunctionInfo info = InfoOf(*function);
    absl::StrAppend(&text, text.empty() ? "" : "\n\n", info.pretty_signature);
    if (functions != nullptr) functions->push_back(std::move(info));
  }
  if (text.empty()) return NotFound("there is no function '", name, "'");
  return text;
}

absl::StatusOr<int64_t> EngineImpl::Unregister(absl::string_view name_space, uint64_t id,
                                               absl::string_view name) {
  const int64_t removed =
      id != 0 ? functions_.Remove(name_space, id) : functions_.Remove(name_space, name);
  if (removed > 0) return removed;
  if (id != 0) return NotFound("there is no function of id=", id);
  return NotFound("there is no function '", name, "'");
}

absl::StatusOr<Engine::CreatedVariable> EngineImpl::CreateVariable(absl::string_view name_space,
                                                                   absl::string_view name,
                                                                   DType dtype,
                                                                   const PartialShape& shape,
                                                                   std::optional<Tensor> value) {
  CreatedVariable created;
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Variable> variable,
                            resources_.Create(name_space, name, dtype, shape, std::move(value),
                                              /*exact_shape=*/true, &created.existed));
  created.variable = formwork::InfoOf(*variable);
  return created;
}

absl::StatusOr<std::shared_ptr<Variable>> EngineImpl::FindVariable(absl::string_view name_space,
                                                                   uint64_t id,
                                                                   absl::string_view name) {
  std::shared_ptr<Variable> variable =
      id != 0 ? resources_.Find(id) : resources_.FindByName(name_space, name);
  if (variable != nullptr && variable->name_space == name_space) return variable;
  if (id != 0) return NotFound("there is no variable of id=", id);
  return NotFound("there is no variable '", name, "'");
}

void EngineImpl::WithVariable(std::shared_ptr<Variable> variable, Access mode,
                              absl::AnyInvocable<void(AccessTicket&)> body,
                              absl::AnyInvocable<void(absl::Status)> failed) {
  if (absl::Status status = Admit(); !status.ok()) return failed(std::move(status));
  struct Waiting {
    Waiting(ResourceStore& store, Allocator& allocator) : ticket(store, allocator) {}
    AccessTicket ticket;
    absl::AnyInvocable<void(AccessTicket&)> body;
  };
  auto waiting = std::make_shared<Waiting>(resources_, allocator_);
  waiting->body = std::move(body);
  auto run = [this, waiting] {
    waiting->body(waiting->ticket);
    waiting->ticket.ReleaseAll();
    CallDone();
  };
  absl::StatusOr<bool> ready =
      waiting->ticket.Take({{std::move(variable), mode}}, [this, run] { pool_.Schedule(run); });
  if (!ready.ok()) {
    CallDone();
    return failed(ready.status());
  }
  if (*ready) run();
}

void EngineImpl::ReadVariable(
    absl::string_view name_space, uint64_t id, absl::string_view name,
    absl::AnyInvocable<void(absl::StatusOr<std::pair<VariableInfo, Tensor>>)> done) {
  absl::StatusOr<std::shared_ptr<Variable>> variable = FindVariable(name_space, id, name);
  if (!variable.ok()) return done(variable.status());
  auto shared = std::make_shared<decltype(done)>(std::move(done));
  WithVariable(
      *variable, Access::kRead,
      [variable = *variable, shared](AccessTicket& ticket) {
        absl::StatusOr<Tensor> value = ticket.Read({variable->id});
        if (!value.ok()) return (*shared)(value.status());
        (*shared)(std::make_pair(formwork::InfoOf(*variable), *std::move(value)));
      },
      [shared](absl::Status status) { (*shared)(std::move(status)); });
}

void EngineImpl::AssignVariable(absl::string_view name_space, uint64_t id, absl::string_view name,
                                Tensor value,
                                absl::AnyInvocable<void(absl::StatusOr<VariableInfo>)> done) {
  absl::StatusOr<std::shared_ptr<Variable>> variable = FindVariable(name_space, id, name);
  if (!variable.ok()) return done(variable.status());
  auto shared = std::make_shared<decltype(done)>(std::move(done));
  WithVariable(
      *variable, Access::kWrite,
      [variable = *variable, shared, value = std::move(value)](AccessTicket& ticket) mutable {
        absl::Status status = ticket.Assign({variable->id}, std::move(value));
        if (!status.ok()) return (*shared)(std::move(status));
        (*shared)(formwork::InfoOf(*variable));
      },
      [shared](absl::Status status) { (*shared)(std::move(status)); });
}

absl::Status EngineImpl::DeleteVariable(absl::string_view name_space, uint64_t id,
                                        absl::string_view name) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Variable> variable, FindVariable(name_space, id, name));
  if (resources_.Remove(*variable)) return absl::OkStatus();
  return NotFound("there is no variable '", variable->name, "'");
}

std::vector<VariableInfo> EngineImpl::ListVariables(absl::string_view name_space) {
  std::vector<VariableInfo> infos;
  for (const auto& variable : resources_.List(name_space)) {
    infos.push_back(formwork::InfoOf(*variable));
  }
  return infos;
}

absl::StatusOr<Tensor> EngineImpl::ReadTensor(absl::string_view name_space, uint64_t kept_id) {
  return kept_.Get(name_space, kept_id);
}

int64_t EngineImpl::ReleaseTensors(absl::string_view name_space, absl::Span<const uint64_t> ids) {
  return kept_.Release(name_space, ids);
}

void EngineImpl::Clear(absl::string_view name_space) {
  functions_.Clear(name_space);
  kept_.Clear(name_space);
  resources_.Clear(name_space);
}

EngineStats EngineImpl::Stats() {
  EngineStats stats;
  const FunctionCacheStats cache = functions_.stats();
  stats.functions = cache.entries;
  stats.function_bytes = cache.bytes;
  stats.cache_hits = cache.hits;
  stats.cache_misses = cache.misses;
  stats.cache_evictions = cache.evictions;
  stats.retraces = retraces_.load(std::memory_order_relaxed);
  stats.variables = resources_.count();
  stats.variable_bytes = resources_.bytes();
  stats.kept_tensors = kept_.count();
  stats.calls_queued = queued_.load(std::memory_order_relaxed);
  stats.calls_running = calls_.load(std::memory_order_relaxed) - stats.calls_queued;
  stats.ticket_waits = resources_.waits();
  stats.ticket_wait_seconds = resources_.wait_seconds();
  stats.tensor_bytes = allocator_.bytes_in_use();
  return stats;
}

absl::Status EngineImpl::Drain(absl::Time deadline) {
  refuses_.store(true, std::memory_order_relaxed);
  absl::MutexLock lock(&drain_mutex_);
  auto idle = [this] { return calls_.load(std::memory_order_acquire) == 0; };
  if (drain_mutex_.AwaitWithDeadline(absl::Condition(&idle), deadline)) return absl::OkStatus();
  return absl::DeadlineExceededError("calls were still running at the drain's deadline");
}

}  // namespace formwork
