#pragma once

// Calls of one function on a simulated device, many at a time: the real planner, executor, tickets
// and variables. One thread runs them in an order drawn from a seed: which call goes on by one
// step, what the device runs, when a result is taken.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/kernels/stream_scope.h"
#include "core/plan/planner.h"
#include "core/resource/access_ticket.h"
#include "core/resource/resource_store.h"
#include "core/runtime/call.h"
#include "core/runtime/executor.h"
#include "tests/support/graph_world.h"
#include "tests/support/sim_device.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {

/// A function, and its plan for the CPU.
struct Program {
  std::string text;
  int64_t inlined;  ///< Of what it calls (PassBudget).
  std::shared_ptr<const ImportedGraph> graph;
  std::shared_ptr<const Plan> cpu;
};

/// Makes plans. One thread's.
class Programs {
 public:
  using Feeds = std::vector<std::pair<std::string, DType>>;
  absl::StatusOr<Program> Make(const std::string& text, const Feeds& feeds,
                               const std::vector<std::string>& fetches,
                               const std::vector<std::string>& targets,
                               int64_t inlined = PassBudget().inlined);
  /// `kernels`: of the device; null: the CPU's. `streams`: of a call, for any work.
  absl::StatusOr<std::shared_ptr<const Plan>> PlanFor(const Program& program, Device& device,
                                                      const KernelRegistry* kernels = nullptr,
                                                      int streams = 1);
  HostAllocator& allocator() { return world_.allocator; }

 private:
  absl::StatusOr<std::shared_ptr<const Plan>> PlanFrom(
      const Program& program, std::optional<PlannerContext::Target> device);

  GraphWorld world_;
};

struct Request {
  const Program* program;
  std::vector<Tensor> inputs;
  bool atomic = false;  ///< It changes nothing where it fails.
};

/// What a call came to.
struct Outcome {
  absl::Status status;
  std::vector<Tensor> results;
};

/// The variables of one run, and its calls.
class World {
 public:
  explicit World(HostAllocator& allocator) : allocator_(allocator) {}
  virtual ~World() = default;

  /// They are admitted in this order.
  virtual std::vector<Outcome> Run(const std::vector<Request>& requests) = 0;
  /// Where the value of a variable lies that has one. Between two runs.
  const void* AddressOf(const std::string& variable);

 protected:
  std::vector<AccessRequest> Requests(const Plan& plan);
  const std::vector<ResourceHandle>& handles() const { return handles_; }

  HostAllocator& allocator_;
  ResourceStore store_;

 private:
  std::vector<ResourceHandle> handles_;
};

/// One call after the other, on the CPU.
class CpuWorld final : public World {
 public:
  using World::World;
  std::vector<Outcome> Run(const std::vector<Request>& requests) override;
};

class SimWorld final : public World {
 public:
  /// `enqueues`: of the device, whose kernels are then those of RegisterEnqueuedKernels.
  SimWorld(Programs& programs, uint64_t seed, int streams, bool enqueues = false);
  ~SimWorld() override;
  std::vector<Outcome> Run(const std::vector<Request>& requests) override;
  /// The same with a thread for each stream, or so many as a call may have, which blocks where its
  /// call waits. Their order is not the seed's.
  std::vector<Outcome> RunOnThreads(const std::vector<Request>& requests);

  const Plan& PlanOf(const Program& program);
  SimDevice& device() { return device_; }
  /// Of the plans from now on; they outlive it.
  void set_kernels(const KernelRegistry& kernels) { kernels_ = &kernels; }
  /// Of the calls from now on: so many of the streams each, where their plans use as many.
  void set_streams_per_call(int streams) { streams_per_call_ = streams; }
  /// From now on calls are cancelled now and then, wherever they are.
  void set_cancels() { cancels_ = true; }
  /// What the device has found wrong, once everything has run and the variables are gone.
  std::vector<std::string> Reports();
  /// Most calls that were under way at once: issued or being so, and not finished.
  int most_at_once() const { return most_at_once_; }
  int64_t host_waits() const { return host_waits_; }

 private:
  struct Running;
  std::unique_ptr<Running> Admit(const Request& request);
  void Issue(Running& call);
  void Open(Running& call, std::vector<Stream*> streams);
  // All is enqueued.
  void CloseIssue(Running& call);
  void GiveStreamsBack(const Running& call);
  Outcome Finish(Running& call);
  // True where it had not begun, so that it has ended.
  static bool Cancel(Running& call);

  Programs& programs_;
  SimDevice device_;
  std::map<const ImportedGraph*, std::shared_ptr<const Plan>> plans_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> free_streams_;
  const KernelRegistry* kernels_ = nullptr;
  int streams_per_call_ = 1;
  bool cancels_ = false;
  int most_at_once_ = 0;
  std::atomic<int64_t> host_waits_ = 0;
};

}  // namespace formwork::testing
