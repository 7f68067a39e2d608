#include "core/engine/relaxed.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/graph.h"
#include "core/plan/planner.h"

namespace formwork {
namespace {

// About what a node, an input or an output of a graph takes.
constexpr size_t kBytesPerPart = 64;
// No request has a deadline for it, and a shutdown waits for it.
constexpr absl::Duration kLongestPlanning = absl::Seconds(60);

bool Writes(const Plan& plan) {
  const auto writes = [](Access access) { return access == Access::kWrite; };
  return std::any_of(plan.arg_access.begin(), plan.arg_access.end(), writes) ||
         std::any_of(plan.named_resources.begin(), plan.named_resources.end(),
                     [](const NamedResource& named) { return named.access == Access::kWrite; });
}

// The hidden state of a function is one, whatever plan a call runs by.
bool HaveSameState(const Plan& a, const Plan& b) {
  const auto list = [](const Plan& plan) {
    std::vector<std::pair<std::string, uint32_t>> state;
    VisitState(plan, [&](absl::string_view name, Plan::Range numbers) {
      state.emplace_back(std::string(name), numbers.first);
      return true;
    });
    return state;
  };
  return a.num_state == b.num_state && list(a) == list(b);
}

}  // namespace

size_t RelaxedForm::bytes() const {
  absl::MutexLock lock(&mutex_);
  if (graph_ == nullptr) return 0;
  int64_t parts = SizeOf(*graph_->graph);
  for (const auto& entry : graph_->library) parts += SizeOf(*entry.second);
  return static_cast<size_t>(parts) * kBytesPerPart;
}

std::string RelaxedForm::Text() const {
  const std::shared_ptr<Program> made = program();
  if (made != nullptr) return absl::StrCat("\nrelaxed\n", PlanText(*made->plan));
  absl::MutexLock lock(&mutex_);
  if (!known_) return "\nrelaxed: not asked for yet\n";
  return absl::StrCat("\nrelaxed: as any other call, because ", why_none_, "\n");
}

std::string RelaxedText(const EngineFunction& function) {
  return function.relaxed == nullptr ? "" : function.relaxed->Text();
}

std::shared_ptr<RelaxedForm> EngineImpl::NewRelaxedForm(
    const Plan& plan, const ImportedGraph& imported, const std::vector<PartialShape>& arg_shapes) {
  if (streams_ || !Writes(plan)) return nullptr;
  return std::make_shared<RelaxedForm>(imported, arg_shapes);
}

absl::StatusOr<std::shared_ptr<Awaited>> EngineImpl::PlanRelaxed(FunctionPtr function) {
  RelaxedForm& form = *static_cast<const EngineFunction&>(*function).relaxed;
  auto waiter = std::make_shared<Opened>("the function's plan for relaxed calls");
  {
    absl::MutexLock lock(&form.mutex_);
    if (form.known_) return std::shared_ptr<Awaited>();
    form.waiters_.push_back(waiter);
    if (std::exchange(form.being_made_, true)) return std::shared_ptr<Awaited>(waiter);
  }
  const std::string name_space = function->name_space;
  const absl::Status scheduled = CatchOutOfMemory([&] {
    compilers_.Schedule(name_space, [this, function = std::move(function)] {
      const auto& made = static_cast<const EngineFunction&>(*function);
      made.relaxed->Make(*this, made);
    });
    return absl::OkStatus();
  });
  if (scheduled.ok()) return std::shared_ptr<Awaited>(waiter);
  absl::MutexLock lock(&form.mutex_);
  form.being_made_ = false;
  std::erase(form.waiters_, waiter);
  return scheduled;
}

void RelaxedForm::Make(EngineImpl& engine, const EngineFunction& function) {
  absl::StatusOr<std::shared_ptr<Program>> made =
      HoldToBudget(engine.memory_, [&] { return Compile(engine, function); });
  const HeapScope unlimited(nullptr);  // Others wait for it.
  std::vector<std::shared_ptr<Opened>> waiters;
  {
    absl::MutexLock lock(&mutex_);
    being_made_ = false;
    if (made.ok()) {
      program_ = *std::move(made);
      known_ = true;
    } else if (absl::IsFailedPrecondition(made.status())) {
      why_none_ = std::string(made.status().message());
      known_ = true;
    } else {
      failed_ = made.status();
    }
    if (known_) graph_ = nullptr;
    waiters.swap(waiters_);
  }
  for (const std::shared_ptr<Opened>& waiter : waiters) waiter->Open();
}

absl::StatusOr<std::shared_ptr<RelaxedForm::Program>> RelaxedForm::Compile(
    EngineImpl& engine, const EngineFunction& function) const {
  StopFlag stop(absl::Now() + kLongestPlanning);
  const StopScope scope(&stop);
  PlannerContext context{engine.ops_, engine.kernels_, engine.allocator_};
  context.lanes = ParallelThreads() > 1;
  context.relaxed = true;
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                            MakePlan(*graph_, arg_shapes_, context));
  const Plan& ordered = function.program();
  if (!HaveSameState(*plan, ordered)) {
    return FailedPrecondition("its random numbers would be others");
  }
  auto program = std::make_shared<Program>(plan);
  for (const NamedResource& named : plan->named_resources) {
    const auto found = std::find_if(
        ordered.named_resources.begin(), ordered.named_resources.end(),
        [&named](const NamedResource& candidate) { return candidate.name == named.name; });
    if (found == ordered.named_resources.end()) return Internal("no resource '", named.name, "'");
    const auto index = static_cast<size_t>(found - ordered.named_resources.begin());
    program->named.push_back(function.named[index]);
  }
  return program;
}

absl::Status RelaxedPlaces::Enter(CallScope& call, uint32_t region) {
  std::shared_ptr<Awaited>& awaited = call.awaited();
  if (awaited == nullptr) {
    bool there = false;
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&] {
      there = Begin(region);
      return absl::OkStatus();
    }));
    if (there) return absl::OkStatus();
    awaited = opened_;
    return Waiting();
  }
  if (!awaited->over()) return call.stop().requested() ? call.stop().status() : Waiting();
  awaited = nullptr;
  return absl::OkStatus();
}

bool RelaxedPlaces::Begin(uint32_t region) {
  EndSmallWrite();
  const RegionKind kind = plan_->regions[region].kind;
  if (kind == RegionKind::kSnapshot && std::exchange(has_snapshot_, true)) return true;
  AccessTicket* ticket = &ticket_;
  if (kind == RegionKind::kSmallWrite) {
    small_ = std::make_shared<AccessTicket>(store_, allocator_);
    small_->set_writer(writer_);
    ticket = small_.get();
  } else {
    ticket_.ReleaseAll();
  }
  opened_ = std::make_shared<Opened>(absl::StrCat("places: ", plan_->regions[region].name));
  // Whoever grants the places still looks at the ticket when they are.
  return ticket->Take(std::move(requests_[region]), [owner = owner_.lock(), small = small_,
                                                     opened = opened_] { opened->Open(); });
}

void RelaxedPlaces::EndSmallWrite() {
  if (small_ == nullptr) return;
  if (!small_->Abandon()) small_->ReleaseAll();
  ticket_.NoteLogged(*small_);
  small_ = nullptr;
}

void RelaxedPlaces::End() {
  EndSmallWrite();
  ticket_.Abandon();
}

}  // namespace formwork
