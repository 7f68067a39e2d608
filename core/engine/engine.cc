// The engine's wiring, and what is asked of it besides registering and calling.

#include "core/engine.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/name.h"
#include "core/base/parallel.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/system_memory.h"
#include "core/engine/answers.h"
#include "core/engine/engine_impl.h"
#include "core/engine/relaxed.h"
#include "core/kernels/conv/onednn_conv.h"
#include "core/kernels/gemm/bfloat_gemm.h"
#include "core/kernels/isa.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/op_text.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

// In which what is under way lets go of what it holds, mostly: messages, answers, handles.
constexpr absl::Duration kLetGo = absl::Seconds(1);

// More than there are cores: a long call must not keep a short one from its turn; the scheduler of
// the operating system shares the cores among them.
int ChooseCallThreads() {
  return std::max(16, 4 * static_cast<int>(std::thread::hardware_concurrency()));
}

// Kept for reuse: a small part of what there is.
size_t CacheBytes(const EngineOptions& options) {
  constexpr size_t kMost = size_t{512} << 20;
  return options.memory_limit_bytes == 0 ? kMost : std::min(kMost, options.memory_limit_bytes / 8);
}

// Calls that leave their threads to others keep what they hold: up to this part of the memory.
constexpr size_t kSuspendedPart = 8;

// A function's hidden state, a node a line; of much the beginning.
std::string StateText(const ConcreteFunction& function) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::string text;
  function.VisitState([&](absl::string_view node, absl::Span<std::atomic<uint64_t>> numbers) {
    absl::StrAppend(&text, text.empty() ? "\n" : "", "state '", node, "':");
    for (const auto& number : numbers) absl::StrAppend(&text, " ", number.load());
    absl::StrAppend(&text, "\n");
    return text.size() < kMostBytes;
  });
  return text;
}

// The ops that the device has no kernel for, each with how many nodes of it there are.
std::string FallbackText(const Plan& plan) {
  std::map<std::string, int64_t> nodes;
  for (const Plan::Fallback& fallback : plan.fallbacks) ++nodes[fallback.op->name];
  if (nodes.empty()) return "";
  return absl::StrCat("\n  On the host, for the device has no kernel: ",
                      absl::StrJoin(nodes, ", ", [](std::string* out, const auto& op) {
                        absl::StrAppend(out, op.first, " (", op.second,
                                        op.second == 1 ? " node)" : " nodes)");
                      }));
}

int ChooseCompileThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8);
}

Durability DefaultDurability(const EngineOptions& options) {
  return options.data_dir.empty() ? Durability::kMemory : options.durability;
}

EngineOptions Chosen(EngineOptions options) {
  if (options.compute_threads <= 0) options.compute_threads = ParallelThreads();
  if (options.call_threads <= 0) options.call_threads = ChooseCallThreads();
  if (options.compile_threads <= 0) options.compile_threads = ChooseCompileThreads();
  if (options.streams_per_call <= 0) options.streams_per_call = StreamGroup::kMost;
  if (options.least_stream_work <= 0) options.least_stream_work = kLeastStreamWork;
  if (options.kept_tensor_ttl <= absl::ZeroDuration()) {
    options.kept_tensor_ttl = absl::InfiniteDuration();
  }
  if (options.client_ttl <= absl::ZeroDuration()) options.client_ttl = absl::InfiniteDuration();
  return options;
}

}  // namespace

absl::Status NoFunction(const Target& function) {
  if (function.id != 0) {
    return WithReason(
        NotFound("there is no function of id=", function.id, ": it was removed or evicted"),
        Reason::kFunctionNotFound, {{"functionId", function.id}});
  }
  return WithReason(NotFound("there is no function '", function.name, "'"),
                    Reason::kFunctionNotFound, {{"functionName", function.name}});
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  if (options.max_functions < 1 || options.max_queued_calls < 1) {
    return InvalidArgument("the engine's bounds must be at least 1");
  }
  FORMWORK_RETURN_IF_ERROR(IsaSetting().status());
  if (options.durability == Durability::kSync && options.data_dir.empty()) {
    return InvalidArgument("calls can be durable in a data directory alone: there is none");
  }
  SetParallelThreads(options.compute_threads);
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    std::unique_ptr<SnapshotStore> store;
    std::optional<state::Life> previous;
    bool log_has_all = true;
    if (!options.data_dir.empty()) {
      FORMWORK_ASSIGN_OR_RETURN(store, SnapshotStore::Open(options.data_dir));
      FORMWORK_ASSIGN_OR_RETURN(previous, store->ReadLife());
      FORMWORK_ASSIGN_OR_RETURN(log_has_all, LogHasAll(*store));
    }
    const state::Life life = NextLife(previous, log_has_all, DefaultDurability(options));
    auto engine = std::make_unique<EngineImpl>(options, life);
    if (!engine->has_threads()) return ResourceExhausted("no thread for calls can be started");
    if (store != nullptr) FORMWORK_RETURN_IF_ERROR(engine->Restore(std::move(store), life));
    engine->WatchDevice();
    return engine;
  });
}

EngineImpl::EngineImpl(const EngineOptions& options, const state::Life& life)
    : options_(Chosen(options)),
      epochs_({life.memory_epoch(), life.snapshot_epoch(), life.epoch()}),
      memory_(options.memory_limit_bytes, options.max_tensor_bytes),
      allocator_(&memory_, CacheBytes(options)),
      usages_(options.namespace_limits, DefaultDurability(options)),
      resources_(life.next_resource_id(), &usages_),
      functions_(options.max_functions, options.max_function_bytes, life.next_function_id(),
                 &usages_),
      kept_(life.next_kept_tensor_id(),
            {.max_bytes = options.max_kept_bytes,
             .max_client_bytes = options.max_client_kept_bytes,
             .client_ttl = options_.client_ttl,
             .is_busy =
                 [this](absl::string_view name_space, absl::string_view client) {
                   return answers_.IsBusy(name_space, client);
                 }},
            &usages_),
      answers_({.max_answers = options.max_answers,
                .max_bytes = options.max_answer_bytes,
                .ttl = options.answer_ttl,
                .begins = options.data_dir.empty() ? absl::InfinitePast() : absl::Now()}),
      waiting_(options_.max_queued_calls),
      suspended_(options.memory_limit_bytes / kSuspendedPart),
      pool_(options_.call_threads),
      compilers_(options_.compile_threads) {
  RegisterOps(ops_);
  RegisterCpuKernels(kernels_);
  if (options_.device == nullptr) return;
  if (options_.device_memory_limit_bytes > 0) {
    device_budget_.emplace(MemoryBudget::OfDevice(), options_.device_memory_limit_bytes);
  }
  device_memory_.emplace(options_.device->allocator(), device_budget_ ? *device_budget_ : memory_);
  streams_.emplace(*options_.device);
  if (options_.max_captured_bytes > 0) {
    capture_budget_.emplace(MemoryBudget::OfDevice(), options_.max_captured_bytes);
  }
  (options_.register_device_kernels == nullptr ? &RegisterCpuKernels
                                               : options_.register_device_kernels)(device_kernels_);
  device_watch_.emplace(*options_.device, options_.device_stall,
                        [this] { return DeviceWaitsSince(); });
  device_watch_->OnceLost([this](const absl::Status& lost) { LoseDevice(lost); });
}

absl::Status EngineImpl::Restore(std::unique_ptr<SnapshotStore> store, const state::Life& life) {
  snapshots_ = std::make_unique<Snapshots>(*this, std::move(store), life);
  return snapshots_->Restore();
}

void EngineImpl::WhenDurable(absl::AnyInvocable<void(const absl::Status&)> done) {
  if (commits_ == nullptr) return done(absl::OkStatus());
  commits_->WhenDurable(commits_->last(), std::move(done));
}

void EngineImpl::TakeSnapshot(absl::AnyInvocable<void(absl::StatusOr<SnapshotInfo>)> done) {
  if (snapshots_ != nullptr) return snapshots_->Request(std::move(done));
  done(FailedPrecondition("the server has no data directory: nothing outlives it"));
}

absl::Status EngineImpl::TakeLastSnapshot(absl::Time deadline) {
  return snapshots_ == nullptr ? absl::OkStatus() : snapshots_->TakeLast(deadline);
}

EngineImpl::~EngineImpl() { Drain(absl::InfiniteFuture(), absl::ZeroDuration()); }

absl::Status Engine::CheckEpoch(absl::string_view name_space, uint64_t known,
                                ErrorDetails* details) const {
  if (known == 0) return absl::OkStatus();
  const uint64_t now = epoch(name_space);
  if (known == now) return absl::OkStatus();
  if (details != nullptr) details->effects = Effects::kNone;
  return InField(
      WithReason(FailedPrecondition("the server was restarted and does not have all that it had: "
                                    "what the client knows by ID may be gone: known epoch=",
                                    known, " server epoch=", now),
                 Reason::kEpochMismatch, {{"epoch", now}, {"expectedEpoch", known}}),
      "expected_epoch");
}

absl::Status EngineImpl::CheckRepeat(absl::string_view name_space, const RequestId& request,
                                     uint64_t known, ErrorDetails* details) {
  const bool is_this_server = std::find(epochs_.begin(), epochs_.end(), known) != epochs_.end();
  const absl::Time sent = absl::Now() - request.age - AnswerWindow::kMostTravel;
  if ((is_this_server && sent > began_) || Remembers(name_space, request)) return absl::OkStatus();
  return CheckEpoch(name_space, known, details);
}

EngineInfo EngineImpl::Info() {
  EngineInfo info;
  info.epoch = epochs_[static_cast<size_t>(DefaultDurability(options_))];
  info.options = options_;
  for (const OpDef* op : ops_.All()) {
    if (MayUse(*op)) info.ops.push_back(op->name);
  }
  info.instruction_set = IsaName(HostIsa());
  return info;
}

bool EngineImpl::MayUse(const OpDef& op) const {
  return op.is_control_flow() || op.handle_of != nullptr || kernels_.Find(op.name) != nullptr;
}

std::vector<OpInfo> EngineImpl::ListOps() {
  std::vector<OpInfo> ops;
  for (const OpDef* op : ops_.All()) {
    if (!MayUse(*op)) continue;
    const bool on_device = device_kernels_.Find(op->name) != nullptr;
    ops.push_back({op->name, SignatureOf(*op),
                   on_device ? std::string(options_.device->name()) : std::string()});
  }
  return ops;
}

FunctionInfo EngineImpl::InfoOf(const ConcreteFunction& function, bool signatures) {
  FunctionInfo info;
  info.id = function.id;
  info.name = function.name;
  if (signatures) {
    info.signature = function.type();
    info.inputs = function.inputs;
    info.outputs = function.outputs;
    info.pretty_signature = function.pretty_signature.empty()
                                ? function.type().ToString(function.captures)
                                : function.pretty_signature;
  }
  info.calls = function.calls.load(std::memory_order_relaxed);
  info.bytes = function.bytes;
  info.model_version = function.model_version;
  const auto& batches = static_cast<const EngineFunction&>(function).batches;
  if (batches != nullptr) info.max_batch_rows = batches->max_rows();
  for (const BoundResource& resource : function.resources) {
    if (!resource.named) info.captured_variables.push_back(resource.name);
    if (resource.deleted()) info.deleted_variables.push_back(resource.name);
  }
  return info;
}

std::optional<FunctionInfo> EngineImpl::FindFunction(absl::string_view name_space, uint64_t id) {
  const FunctionPtr function = functions_.Find(name_space, id);
  if (function == nullptr) return std::nullopt;
  return InfoOf(*function);
}

absl::StatusOr<std::shared_ptr<const MessageAnswer>> EngineImpl::AnswerOnce(
    absl::string_view name_space, const RequestId& request, uint64_t content, AnswerOnceFn answer) {
  name_space = NamespaceOf(name_space);
  kept_.Seen(name_space, request.client);
  FORMWORK_ASSIGN_OR_RETURN(const AnswerWindow::Begun begun,
                            answers_.Begin(name_space, request, content));
  if (begun.place == AnswerWindow::Place::kRuns) {
    return absl::UnavailableError("the request is being done: send it again for its answer");
  }
  if (begun.place == AnswerWindow::Place::kAnswered) {
    auto known = std::dynamic_pointer_cast<const MessageAnswer>(begun.answer);
    if (known != nullptr) return known;
    return InField(InvalidArgument("request ", request.sequence, " was of another method"),
                   "sequence");
  }
  bool done = false;
  uint64_t position = 0;
  absl::StatusOr<std::shared_ptr<const MessageAnswer>> answered;
  GroupCommit* const log = LogOf(name_space);
  {
    const GroupCommit::Unit unit(log);
    answered = CatchOutOfMemory([&] { return answer(&done); });
    if (done && log != nullptr && answers_.HasRoomFor(0)) {
      const HeapScope unlimited(nullptr);
      auto commit = std::make_unique<CallCommit>();
      commit->answer = StoredAnswerOf(name_space, request, content);
      if (!answered.ok() || *answered == nullptr || !ToStored(**answered, &*commit->answer)) {
        commit->answer->message.set_lost(true);
      }
      position = log->Append({{}, std::move(commit)});
    }
  }
  answers_.End(name_space, request, answered.ok() ? *answered : nullptr, done, position);
  return answered;
}

absl::StatusOr<FunctionInfo> EngineImpl::Resolve(absl::string_view name_space,
                                                 absl::string_view name, const FunctionType& type,
                                                 ErrorDetails* details) {
  Dispatch dispatch = functions_.Find(NamespaceOf(name_space), name, type);
  if (dispatch.function != nullptr) return InfoOf(*dispatch.function);
  if (details != nullptr) {
    details->candidates = dispatch.candidates;
    details->suggested = dispatch.suggested;
  }
  if (dispatch.unknown_name) return InField(NoFunction({0, std::string(name)}), "name");
  return InField(WithReason(NotFound("no signature of function '", name,
                                     "' takes this type: candidates=", dispatch.candidates.size()),
                            Reason::kNoMatchingSignature, {{"functionName", name}}),
                 "signature");
}

std::vector<NamedFunction> EngineImpl::FindNamed(absl::string_view name_space,
                                                 absl::string_view name) {
  const std::vector<FunctionPtr> functions = functions_.List(NamespaceOf(name_space), name);
  std::vector<NamedFunction> found;
  for (auto it = functions.rbegin(); it != functions.rend(); ++it) {
    const ConcreteFunction& function = **it;
    // What one alone lacks, its call says.
    if (functions.size() > 1 && function.broken()) continue;
    found.push_back({function.id, function.model_version, function.named_values});
  }
  return found;
}

std::vector<FunctionInfo> EngineImpl::ListFunctions(absl::string_view name_space, bool signatures) {
  const HeapScope held(&memory_);
  std::vector<FunctionInfo> infos;
  for (const FunctionPtr& function : functions_.List(NamespaceOf(name_space))) {
    infos.push_back(InfoOf(*function, signatures));
  }
  return infos;
}

absl::StatusOr<std::string> EngineImpl::DescribeFunction(absl::string_view name_space,
                                                         absl::string_view name, bool plan,
                                                         std::vector<FunctionInfo>* functions) {
  const HeapScope held(&memory_);
  std::string text;
  for (const FunctionPtr& function : functions_.List(NamespaceOf(name_space), name)) {
    FunctionInfo info = InfoOf(*function);
    absl::StrAppend(&text, text.empty() ? "" : "\n\n", info.pretty_signature,
                    FallbackText(static_cast<const EngineFunction&>(*function).program()));
    if (plan) {
      info.plan = absl::StrCat(PlanText(static_cast<const EngineFunction&>(*function).program()),
                               StateText(*function),
                               RelaxedText(static_cast<const EngineFunction&>(*function)));
      absl::StrAppend(&text, "\n\n", info.plan);
    }
    if (functions != nullptr) functions->push_back(std::move(info));
  }
  if (text.empty()) return InField(NoFunction({0, std::string(name)}), "name");
  return text;
}

absl::StatusOr<int64_t> EngineImpl::Unregister(absl::string_view name_space, const Target& function,
                                               bool allow_missing) {
  name_space = NamespaceOf(name_space);
  const int64_t removed = function.id != 0 ? functions_.Remove(name_space, function.id)
                                           : functions_.Remove(name_space, function.name);
  if (removed > 0 || allow_missing) return removed;
  return InField(NoFunction(function), function.id != 0 ? "function_id" : "function_name");
}

std::vector<NamespaceHoldings> EngineImpl::ListNamespaces() { return usages_.List(); }

absl::Status EngineImpl::SetDurability(absl::string_view name_space, Durability durability) {
  name_space = NamespaceOf(name_space);
  FORMWORK_RETURN_IF_ERROR(InField(CheckName("namespace", name_space), "namespace"));
  absl::MutexLock lock(&durability_mutex_);
  if (snapshots_ != nullptr) return ChangeDurability(name_space, durability);
  if (durability == Durability::kMemory) return absl::OkStatus();
  return FailedPrecondition("the server has no data directory: nothing outlives it");
}

absl::Status EngineImpl::ChangeDurability(absl::string_view name_space,
                                          std::optional<Durability> durability) {
  NamespaceUsages::Durabilities durabilities = usages_.durabilities();
  const auto found = durabilities.find(name_space);
  const std::optional<Durability> before =
      found == durabilities.end() ? std::nullopt : std::optional(found->second);
  if (durability == before) return absl::OkStatus();
  FORMWORK_RETURN_IF_ERROR(usages_.SetDurability(name_space, durability));
  const absl::Status stored = snapshots_->StoreDurabilities();
  // Whether it got to the disk is not known then. The next change stores what is in force; a new
  // life that finds the other one finds nothing in the namespace that it would be wrong for.
  if (!stored.ok()) usages_.SetDurability(name_space, before).IgnoreError();
  return stored;
}

void EngineImpl::Clear(absl::string_view name_space) {
  name_space = NamespaceOf(name_space);
  {
    const GroupCommit::Unit unit(LogOf(name_space));
    functions_.Clear(name_space);
    kept_.Clear(name_space);
    resources_.Clear(name_space);
  }
  if (snapshots_ != nullptr) {
    absl::MutexLock lock(&durability_mutex_);
    // Who has put something into it meanwhile has found it as it is, and it stays so.
    (void)ChangeDurability(name_space, std::nullopt);
  }
  // At once, and again when what is under way has gone, too; not more often.
  if (gives_back_.load()) return;
  deadlines_.Watch(absl::Now() + kLetGo, watch_owner_, [this] {
    gives_back_.store(false);
    GiveMemoryBack();
  });
  gives_back_.store(true);
  GiveMemoryBack();
}

void EngineImpl::GiveMemoryBack() {
  // Less is not worth what it costs those who go on.
  constexpr size_t kWorthIt = size_t{16} << 20;
  if (functions_.stats().entries == 0) {
    graphs_.Clear();
    ForgetConvolutions();
    ForgetBfloatProducts();
  }
  if (allocator_.bytes_cached() > kWorthIt) allocator_.ReleaseCache();
  TrimHeap();
}

EngineStats EngineImpl::Stats() {
  EngineStats stats;
  const FunctionCacheStats cache = functions_.stats();
  stats.functions = cache.entries;
  stats.function_bytes = cache.bytes;
  stats.cache_hits = cache.hits;
  stats.cache_misses = cache.misses;
  stats.cache_evictions = cache.evictions;
  stats.batches = batches_.load(std::memory_order_relaxed);
  stats.batched_calls = batched_calls_.load(std::memory_order_relaxed);
  stats.late_handle_calls = late_handle_calls_.load(std::memory_order_relaxed);
  stats.relaxed_calls = relaxed_calls_.load(std::memory_order_relaxed);
  stats.relaxed_ordered = relaxed_ordered_.load(std::memory_order_relaxed);
  stats.retraces = retraces_.load(std::memory_order_relaxed);
  stats.variables = resources_.count();
  stats.variable_bytes = resources_.bytes();
  stats.kept_tensors = kept_.count();
  stats.kept_bytes = kept_.bytes();
  stats.kept_leases = kept_.leases();
  stats.kept_evictions = kept_.evictions();
  const AnswerWindow::Stats answers = answers_.stats();
  stats.answers = answers.answers;
  stats.answer_bytes = answers.bytes;
  stats.answer_evictions = answers.evictions;
  stats.repeats_answered = answers.repeats;
  stats.repeats_forgotten = answers.forgotten;
  stats.calls_queued = waiting_.taken();
  stats.calls_running = calls_.load(std::memory_order_relaxed) - stats.calls_queued;
  stats.ticket_waits = resources_.waits();
  stats.ticket_wait_seconds = resources_.wait_seconds();
  stats.tensor_bytes = allocator_.bytes_in_use();
  stats.memory_used_bytes = memory_.used();
  stats.memory_limit_bytes = memory_.limit();
  stats.memory_refusals = memory_.refusals();
  if (device_budget_) {
    stats.device_memory_used_bytes = device_budget_->used();
    stats.device_memory_limit_bytes = device_budget_->limit();
    stats.memory_refusals += device_budget_->refusals();
  }
  stats.device_lost = device_lost_.load(std::memory_order_relaxed);
  stats.calls_captured = calls_captured_.load(std::memory_order_relaxed);
  stats.calls_repeated = calls_repeated_.load(std::memory_order_relaxed);
  if (snapshots_ != nullptr) stats.snapshots = snapshots_->stats();
  if (commits_ != nullptr) stats.commits = commits_->stats();
  absl::MutexLock lock(&plans_mutex_);
  stats.fallbacks.assign(fallbacks_.begin(), fallbacks_.end());
  return stats;
}

absl::Status EngineImpl::Admit() {
  // Counted first: once Drain has seen none, nobody slips in.
  calls_.fetch_add(1);
  calls_begun_.fetch_add(1, std::memory_order_relaxed);
  if (!refuses_.load() && !device_lost_.load(std::memory_order_relaxed)) return absl::OkStatus();
  CallDone();
  if (!refuses_.load()) return DeviceStatus();
  return WithReason(absl::UnavailableError("the server is shutting down"), Reason::kDraining);
}

void EngineImpl::CallDone() {
  if (calls_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!refuses_.load(std::memory_order_relaxed)) return;
  absl::MutexLock lock(&drain_mutex_);  // Wakes Drain.
}

DrainResult EngineImpl::Drain(absl::Time deadline, absl::Duration grace) {
  refuses_.store(true);
  auto idle = [this] { return calls_.load(std::memory_order_acquire) == 0; };
  DrainResult result;
  {
    absl::MutexLock lock(&drain_mutex_);
    if (drain_mutex_.AwaitWithDeadline(absl::Condition(&idle), deadline)) return result;
    result.cut_off = calls_.load(std::memory_order_acquire);
  }
  // Who is about to be scheduled finds it out himself.
  aborts_.store(true);
  scheduled_.AbortAll();
  absl::MutexLock lock(&drain_mutex_);
  drain_mutex_.AwaitWithTimeout(absl::Condition(&idle), grace);
  result.left = calls_.load(std::memory_order_acquire);
  return result;
}

}  // namespace formwork
