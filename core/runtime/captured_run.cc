#include "core/runtime/captured_run.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/kernels/enqueued_step.h"
#include "core/kernels/enqueued_work.h"

namespace formwork {
namespace {

// Of one run: memory that nobody else can use meanwhile.
constexpr size_t kMostBytes = size_t{64} << 20;
// Fewer launches cost no more than a graph's.
constexpr size_t kLeastSteps = 3;
// Of one plan: so many calls of it may be under way.
constexpr int kMostRuns = 8;
// The first calls find where variables will be, and compile. Each capture that was of no use makes
// the next one wait for twice as many.
constexpr int64_t kFirstWait = 3;
constexpr int64_t kLongestWait = int64_t{1} << 40;
// Variables that have been elsewhere so often in a row will not be back.
constexpr int kMostMisses = 3;

}  // namespace

bool CapturedRun::Fits(absl::Span<const Tensor> args) const {
  if (args.size() != args_.size()) return false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].shape() != args_[i].shape) return false;
    if (args[i].dtype() == DType::kResource &&
        (args[i].num_elements() != 1 || args[i].scalar<ResourceHandle>().id != args_[i].resource)) {
      return false;
    }
  }
  return true;
}

absl::Status CapturedRun::Enqueue(absl::Span<const Tensor> args, CallScope& call,
                                  AccessTicket& ticket, absl::Span<Tensor> results) const {
  StreamScope& streams = *call.streams();
  absl::InlinedVector<Tensor, 8> values(num_values_);
  std::copy(args.begin(), args.end(), values.begin());
  for (const StreamCapture::HostStep& step : host_steps_) {
    absl::InlinedVector<InputRef, 4> inputs;
    for (const StreamCapture::HostStep::Input& input : step.inputs) {
      inputs.push_back({input.value ? &values[*input.value] : &input.constant, false});
    }
    KernelContext ctx(call, inputs,
                      absl::MakeSpan(values).subspan(step.first_output, step.num_outputs));
    const absl::Status status = CatchOutOfMemory([&] { return (*step.node->host_kernel)(ctx); });
    if (!status.ok()) return AtNode(*step.node, streams.calls(), status);
  }
  for (const StreamCapture::Upload& upload : uploads_) {
    FORMWORK_RETURN_IF_ERROR(streams.Upload(values[upload.value], upload.to));
  }
  FORMWORK_RETURN_IF_ERROR(ticket.Repeat(accesses_));
  streams.Replay(*work_, failures_, steps_, effects_);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results_[i].kept.has_value()) {
      results[i] = results_[i].kept;
    } else if (results_[i].value) {
      results[i] = values[*results_[i].value];
    } else {
      FORMWORK_ASSIGN_OR_RETURN(results[i], ticket.Read(results_[i].variable));
    }
  }
  return absl::OkStatus();
}

RunCapture::RunCapture(Allocator& memory, MemoryBudget& budget, absl::Span<const Tensor> slots,
                       size_t args)
    : slots_(slots.data()),
      memory_(CapturedMemory::Make(memory, budget, kMostBytes)),
      capture_(memory_, slots.first(args)),
      run_(std::make_unique<CapturedRun>()) {
  for (const Tensor& arg : slots.first(args)) {
    const bool handle = arg.dtype() == DType::kResource && arg.num_elements() == 1;
    run_->args_.push_back({arg.shape(), handle ? arg.scalar<ResourceHandle>().id : 0});
  }
}

bool RunCapture::Begin(StreamScope& streams, AccessTicket& ticket) {
  if (!streams.BeginCapture(capture_)) return false;
  ticket.NoteAccesses(&run_->accesses_);
  return true;
}

std::unique_ptr<CapturedRun> RunCapture::End(const Plan& plan, StreamScope& streams,
                                             AccessTicket& ticket,
                                             absl::Span<const Tensor> results) {
  ticket.NoteAccesses(nullptr);
  CapturedRun& run = *run_;
  run.work_ = streams.EndCapture();
  if (run.work_ == nullptr || !memory_->complete() || !streams.status()->Get().ok()) return nullptr;
  for (const AccessTicket::EnqueuedAccess& access : run.accesses_) {
    if (access.data == nullptr) return nullptr;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i];
    CapturedRun::Result& kept = run.results_.emplace_back();
    if (!plan.results[i].constant) kept.value = capture_.ValueOf(slots_[plan.results[i].index]);
    if (kept.value) continue;
    const auto is_there = [&](const AccessTicket::EnqueuedAccess& access) {
      return result.on_device() && result.raw() == access.data;
    };
    const auto variable = std::find_if(run.accesses_.begin(), run.accesses_.end(), is_there);
    if (variable == run.accesses_.end()) {
      kept.kept = result;
    } else if (variable->shape == result.shape() && variable->dtype == result.dtype()) {
      kept.variable = variable->handle;  // Who held it would keep others from changing it in place.
    } else {
      return nullptr;
    }
  }
  run.memory_ = memory_;
  run.num_values_ = capture_.num_values();
  run.host_steps_ = capture_.host_steps();
  run.uploads_ = capture_.uploads();
  run.failures_ = streams.status()->kept_failures();
  run.steps_ = streams.steps();
  run.effects_ = streams.effects();
  return std::move(run_);
}

CapturedRuns::CapturedRuns() : until_capture_(kFirstWait), next_wait_(2 * kFirstWait) {}

bool CapturedRuns::MayBeCaptured(const Plan& plan) {
  if (plan.memory.empty() || plan.num_streams != 1 || plan.num_state > 0 ||
      !plan.functions.empty() || !plan.regions.empty() || plan.open_ended) {
    return false;
  }
  size_t steps = 0;
  for (const Plan::Instruction& instruction : plan.code) {
    if (instruction.code == Plan::Code::kKernel) {
      ++steps;
    } else if (instruction.code != Plan::Code::kRelease &&
               instruction.code != Plan::Code::kReturn) {
      return false;
    }
  }
  return steps >= kLeastSteps;
}

std::unique_ptr<CapturedRun> CapturedRuns::Take(absl::Span<const Tensor> args) {
  absl::MutexLock lock(&mutex_);
  // The last one was used last.
  for (size_t i = idle_.size(); i-- > 0;) {
    if (!idle_[i]->Fits(args)) continue;
    std::unique_ptr<CapturedRun> run = std::move(idle_[i]);
    idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(i));
    return run;
  }
  return nullptr;
}

void CapturedRuns::Return(std::unique_ptr<CapturedRun> run, bool repeated) {
  std::vector<std::unique_ptr<CapturedRun>> gone;  // Outside the lock.
  absl::MutexLock lock(&mutex_);
  misses_ = repeated ? 0 : misses_ + 1;
  idle_.push_back(std::move(run));
  if (misses_ < kMostMisses) return;
  misses_ = 0;
  count_ -= static_cast<int>(idle_.size());
  gone.swap(idle_);
  until_capture_ = next_wait_;
  next_wait_ = std::min(2 * next_wait_, kLongestWait);
}

bool CapturedRuns::WantsCapture() {
  std::unique_ptr<CapturedRun> gone;
  absl::MutexLock lock(&mutex_);
  if (until_capture_ > 0 && --until_capture_ > 0) return false;
  if (capturing_) return false;
  if (count_ >= kMostRuns) {
    // For other shapes, unless all are in use.
    if (idle_.size() < static_cast<size_t>(kMostRuns)) return false;
    gone = std::move(idle_.front());
    idle_.erase(idle_.begin());
    --count_;
    until_capture_ = next_wait_;
    next_wait_ = std::min(2 * next_wait_, kLongestWait);
  }
  capturing_ = true;
  return true;
}

void CapturedRuns::NoteCaptured(const CapturedRun* run) {
  absl::MutexLock lock(&mutex_);
  capturing_ = false;
  if (run != nullptr) {
    ++count_;
    return;
  }
  until_capture_ = next_wait_;
  next_wait_ = std::min(2 * next_wait_, kLongestWait);
}

void CapturedRuns::NoteLost() {
  absl::MutexLock lock(&mutex_);
  --count_;
}

}  // namespace formwork
