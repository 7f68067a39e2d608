#include "tests/streams/stream_world.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "tests/support/enqueued_kernels.h"

namespace formwork::testing {

absl::StatusOr<Program> Programs::Make(const std::string& text, const Feeds& feeds,
                                       const std::vector<std::string>& fetches,
                                       const std::vector<std::string>& targets, int64_t inlined) {
  FORMWORK_ASSIGN_OR_RETURN(ImportedGraph imported, world_.Import(text, feeds, fetches, targets));
  // They name their variables, each once, and are given no handles: so that stores may wait, as
  // those to variables that a registration binds do.
  auto graph = std::make_shared<Graph>(*imported.graph);
  for (Node& node : graph->nodes) {
    node.distinct = node.kind == NodeKind::kOp && node.op->handle_of != nullptr;
  }
  imported.graph = std::move(graph);
  Program program{text, inlined, std::make_shared<ImportedGraph>(std::move(imported)), nullptr};
  FORMWORK_ASSIGN_OR_RETURN(program.cpu, PlanFrom(program, std::nullopt));
  return program;
}

absl::StatusOr<std::shared_ptr<const Plan>> Programs::PlanFor(const Program& program,
                                                              Device& device,
                                                              const KernelRegistry* kernels,
                                                              int streams) {
  // A step or two of small matrices.
  constexpr double kLeastWork = 120;
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.NewStream());
  return PlanFrom(program, PlannerContext::Target{device.allocator(), *stream,
                                                  kernels == nullptr ? world_.kernels : *kernels,
                                                  streams, kLeastWork});
}

absl::StatusOr<std::shared_ptr<const Plan>> Programs::PlanFrom(
    const Program& program, std::optional<PlannerContext::Target> device) {
  const std::vector<PartialShape> shapes(program.graph->graph->args.size());
  return MakePlan(
      *program.graph, shapes,
      {world_.ops, world_.kernels, world_.allocator, device, {.inlined = program.inlined}});
}

std::vector<AccessRequest> World::Requests(const Plan& plan) {
  std::vector<AccessRequest> requests;
  handles_.clear();
  for (const NamedResource& named : plan.named_resources) {
    bool existed = false;
    std::shared_ptr<Resource> resource =
        store_.Create("test", named.name, named.type, std::nullopt, false, &existed).value();
    handles_.push_back({resource->id});
    requests.push_back({std::move(resource), named.access});
  }
  return requests;
}

const void* World::AddressOf(const std::string& variable) {
  const ResourceType type = ResourceType::Variable(DType::kFloat, PartialShape::OfRank(1));
  bool existed = false;
  std::shared_ptr<Resource> resource =
      store_.Create("test", variable, type, std::nullopt, false, &existed).value();
  const ResourceHandle handle = {resource->id};
  AccessTicket ticket(store_, allocator_);
  EXPECT_TRUE(ticket.Take({{std::move(resource), Access::kRead}}, [] {}));
  return ticket.Read(handle)->buffer().data();
}

std::vector<Outcome> CpuWorld::Run(const std::vector<Request>& requests) {
  std::vector<Outcome> outcomes;
  for (const Request& request : requests) {
    const Plan& plan = *request.program->cpu;
    AccessTicket ticket(store_, allocator_);
    if (request.atomic) ticket.SetAtomic();
    EXPECT_TRUE(ticket.Take(Requests(plan), [] {}));
    std::vector<std::atomic<uint64_t>> state(plan.num_state);
    StopFlag stop;
    Call call(allocator_, absl::MakeSpan(state), &handles(), stop);
    call.set_resources(&ticket);
    PlanFrame frame(plan);
    std::vector<Tensor> inputs = request.inputs;
    Execution execution(plan, frame, call, absl::MakeSpan(inputs));
    Outcome& outcome = outcomes.emplace_back();
    outcome.results.resize(plan.results.size());
    outcome.status = execution.Run(absl::MakeSpan(outcome.results)).status();
    if (outcome.status.ok()) continue;
    outcome.results.clear();
    if (request.atomic) ticket.RollBack();
  }
  return outcomes;
}

struct SimWorld::Running {
  Running(HostAllocator& allocator, ResourceStore& store, const Plan& plan, bool atomic)
      : ticket(store, allocator),
        atomic(atomic),
        state(plan.num_state),
        call(allocator, absl::MakeSpan(state), &named, stop),
        frame(plan),
        num_streams(static_cast<size_t>(plan.num_streams)) {
    if (atomic) ticket.SetAtomic();
    call.set_resources(&ticket);
    outcome.results.resize(plan.results.size());
  }

  AccessTicket ticket;
  const bool atomic;  // Its places and streams are its own until it has run.
  std::vector<std::atomic<uint64_t>> state;
  std::vector<ResourceHandle> named;
  StopFlag stop;
  Call call;
  PlanFrame frame;
  std::unique_ptr<Execution> execution;
  const size_t num_streams;
  std::vector<Stream*> leased;  // While it is issued.
  std::unique_ptr<StreamScope> streams;
  std::atomic<bool> granted = false;  // Perhaps by another call's thread.
  bool issued = false;
  bool waits = false;  // For its streams.
  Outcome outcome;
};

namespace {

const KernelRegistry& EnqueuedKernels() {
  static const KernelRegistry* const kernels = [] {
    auto* const ops = new OpRegistry;
    RegisterOps(*ops);
    auto* const made = new KernelRegistry(*ops);
    RegisterEnqueuedKernels(*made);
    return made;
  }();
  return *kernels;
}

}  // namespace

SimWorld::SimWorld(Programs& programs, uint64_t seed, int streams, bool enqueues)
    : World(programs.allocator()), programs_(programs), device_(seed, enqueues), random_(seed) {
  if (enqueues) kernels_ = &EnqueuedKernels();
  for (int i = 0; i < streams; ++i) {
    streams_.push_back(device_.NewStream().value());
    free_streams_.push_back(streams_.back().get());
  }
}

SimWorld::~SimWorld() { store_.Clear("test"); }

std::vector<std::string> SimWorld::Reports() {
  store_.Clear("test");
  device_.RunAll();
  return device_.Reports();
}

std::unique_ptr<SimWorld::Running> SimWorld::Admit(const Request& request) {
  const Plan& plan = PlanOf(*request.program);
  auto call = std::make_unique<Running>(allocator_, store_, plan, request.atomic);
  std::vector<AccessRequest> requests = Requests(plan);
  call->named = handles();
  std::vector<Tensor> inputs = request.inputs;
  call->execution =
      std::make_unique<Execution>(plan, call->frame, call->call, absl::MakeSpan(inputs));
  if (call->ticket.Take(std::move(requests), [call = call.get()] { call->granted = true; })) {
    call->granted = true;
  }
  return call;
}

// Runs it on by one step.
void SimWorld::Issue(Running& call) {
  if (call.leased.empty()) {
    std::vector<Stream*> streams;
    while (streams.size() < call.num_streams) {
      const size_t which = random_() % free_streams_.size();
      streams.push_back(free_streams_[which]);
      free_streams_.erase(free_streams_.begin() + static_cast<int64_t>(which));
    }
    Open(call, std::move(streams));
  }
  static const std::atomic<bool> others_wait{true};
  const absl::StatusOr<Execution::State> state = call.execution->Run(
      absl::MakeSpan(call.outcome.results), TimeSlice(others_wait, absl::ZeroDuration()));
  if (state.ok() && *state == Execution::State::kSuspended) return;
  if (state.ok() && *state == Execution::State::kWaiting) {
    call.waits = true;
    call.streams->OnceReached([&call] { call.waits = false; });
    return;
  }
  call.outcome.status = state.status();
  CloseIssue(call);
  if (!call.atomic) GiveStreamsBack(call);
}

void SimWorld::GiveStreamsBack(const Running& call) {
  free_streams_.insert(free_streams_.end(), call.leased.begin(), call.leased.end());
}

void SimWorld::Open(Running& call, std::vector<Stream*> streams) {
  call.leased = std::move(streams);
  call.streams =
      std::make_unique<StreamScope>(device_.allocator(), call.leased, call.ticket, allocator_);
  call.call.set_streams(call.streams.get());
}

void SimWorld::CloseIssue(Running& call) {
  if (call.outcome.status.ok()) {
    call.outcome.status = call.streams->EnqueueResults(call.outcome.results);
  }
  if (!call.atomic) call.ticket.ReleaseAll();
  call.issued = true;
}

Outcome SimWorld::Finish(Running& call) {
  // What was enqueued came before what the host has found wrong.
  absl::Status enqueued = call.streams->TakeResults(absl::MakeSpan(call.outcome.results));
  while (IsWaiting(enqueued)) {
    call.streams->Block();
    enqueued = call.streams->TakeResults(absl::MakeSpan(call.outcome.results));
  }
  if (!enqueued.ok()) call.outcome.status = enqueued;
  if (!call.outcome.status.ok()) call.outcome.results.clear();
  if (call.atomic) {
    if (!call.outcome.status.ok()) call.ticket.RollBack();
    call.ticket.ReleaseAll();
  }
  host_waits_ += call.streams->host_waits();
  return std::move(call.outcome);
}

bool SimWorld::Cancel(Running& call) {
  call.stop.Cancel();
  if (call.granted || !call.ticket.Abandon()) return false;
  call.outcome = {call.stop.status(), {}};
  return true;
}

const Plan& SimWorld::PlanOf(const Program& program) {
  std::shared_ptr<const Plan>& plan = plans_[program.graph.get()];
  if (plan == nullptr) {
    plan = programs_.PlanFor(program, device_, kernels_, streams_per_call_).value();
  }
  return *plan;
}

std::vector<Outcome> SimWorld::RunOnThreads(const std::vector<Request>& requests) {
  std::vector<Outcome> outcomes(requests.size());
  absl::Mutex mutex;
  size_t admitted = 0;
  const auto work = [&](const std::vector<Stream*>& streams) {
    while (true) {
      std::unique_ptr<Running> call;
      size_t which = 0;
      {
        absl::MutexLock lock(&mutex);
        if (admitted == requests.size()) return;
        which = admitted++;
        call = Admit(requests[which]);
      }
      while (!call->granted.load()) absl::SleepFor(absl::Microseconds(20));
      Open(*call, {streams.begin(), streams.begin() + static_cast<int64_t>(call->num_streams)});
      absl::StatusOr<Execution::State> state = Execution::State::kWaiting;
      while (state.ok() && *state != Execution::State::kFinished) {
        call->streams->Block();
        state = call->execution->Run(absl::MakeSpan(call->outcome.results));
      }
      call->outcome.status = state.status();
      CloseIssue(*call);
      outcomes[which] = Finish(*call);
    }
  };
  for (const Request& request : requests) PlanOf(*request.program);
  std::vector<std::thread> threads;
  for (size_t i = 0; i + streams_per_call_ <= streams_.size(); i += streams_per_call_) {
    std::vector<Stream*> streams;
    for (int k = 0; k < streams_per_call_; ++k) streams.push_back(streams_[i + k].get());
    threads.emplace_back(work, std::move(streams));
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<Outcome> SimWorld::Run(const std::vector<Request>& requests) {
  std::vector<Outcome> outcomes(requests.size());
  // Before any call, because who makes a plan waits for the device.
  for (const Request& request : requests) PlanOf(*request.program);
  std::map<size_t, std::unique_ptr<Running>> running;
  size_t admitted = 0;
  while (admitted < requests.size() || !running.empty()) {
    std::vector<size_t> may_issue, may_finish;
    for (const auto& [i, call] : running) {
      if (call->issued) {
        may_finish.push_back(i);
      } else if (call->granted && !call->waits &&
                 (!call->leased.empty() || free_streams_.size() >= call->num_streams)) {
        may_issue.push_back(i);
      }
    }
    most_at_once_ = std::max(most_at_once_, static_cast<int>(running.size()));
    switch (random_() % 8) {
      case 0:
        if (admitted == requests.size()) break;
        running[admitted] = Admit(requests[admitted]);
        ++admitted;
        break;
      case 1: {
        if (may_finish.empty() || random_() % 4 != 0) break;
        const size_t i = may_finish[random_() % may_finish.size()];
        outcomes[i] = Finish(*running[i]);
        if (running[i]->atomic) GiveStreamsBack(*running[i]);
        running.erase(i);
        break;
      }
      case 2:
        device_.Step();
        break;
      case 3:
        if (cancels_ && !running.empty() && random_() % 16 == 0) {
          const auto some =
              std::next(running.begin(), static_cast<int64_t>(random_() % running.size()));
          if (!Cancel(*some->second)) break;
          outcomes[some->first] = std::move(some->second->outcome);
          running.erase(some);
        }
        break;
      default:
        if (!may_issue.empty()) Issue(*running[may_issue[random_() % may_issue.size()]]);
    }
  }
  return outcomes;
}

}  // namespace formwork::testing
