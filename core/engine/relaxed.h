#pragma once

// Relaxed calls: the other plan of a function, and the places of one call. Included by
// core/engine*.cc alone.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/awaited.h"
#include "core/engine/engine_impl.h"
#include "core/resource/access_ticket.h"
#include "core/runtime/executor.h"

namespace formwork {

/// How a function's relaxed calls run: by a plan of the same graph that has regions, made when it
/// is asked for first. Thread-safe.
class RelaxedForm {
 public:
  struct Program {
    explicit Program(std::shared_ptr<const Plan> made) : plan(made), frames(std::move(made)) {}
    const std::shared_ptr<const Plan> plan;
    FramePool frames;
    std::vector<ResourceHandle> named;  // By the plan's numbering.
  };

  RelaxedForm(ImportedGraph graph, std::vector<PartialShape> arg_shapes)
      : graph_(std::make_unique<const ImportedGraph>(std::move(graph))),
        arg_shapes_(std::move(arg_shapes)) {}

  /// About what it holds until it is made; then less.
  size_t bytes() const;
  bool known() const {
    absl::MutexLock lock(&mutex_);
    return known_;
  }
  /// Null where they run as any other call, or it is not known yet.
  std::shared_ptr<Program> program() const {
    absl::MutexLock lock(&mutex_);
    return program_;
  }
  /// OK once it is known; else why it could not be made.
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return known_ ? absl::OkStatus() : failed_;
  }
  /// For people: the plan, or why there is none.
  std::string Text() const;

 private:
  friend class EngineImpl;

  // Makes it: on a thread of the compiler's.
  void Make(EngineImpl& engine, const EngineFunction& function);
  absl::StatusOr<std::shared_ptr<Program>> Compile(EngineImpl& engine,
                                                   const EngineFunction& function) const;

  mutable absl::Mutex mutex_;
  bool known_ ABSL_GUARDED_BY(mutex_) = false;
  bool being_made_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Program> program_ ABSL_GUARDED_BY(mutex_);
  std::string why_none_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Opened>> waiters_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<const ImportedGraph> graph_;  // Read while it is made, then gone.
  std::vector<PartialShape> arg_shapes_;
};

/// What `formwork describe --plan` says of a function's relaxed calls.
std::string RelaxedText(const EngineFunction& function);

/// The places of one relaxed call, by region: those of the snapshot and of the apply region are the
/// call's own ticket's, each small write has a ticket for itself. While it waits for places it has
/// none that others wait for, so that nobody waits in a circle. For the call's own thread.
class RelaxedPlaces final : public RegionPlaces, public ResourceAccess {
 public:
  /// `requests`: by region of `plan`. `owner` owns `ticket` and this.
  RelaxedPlaces(ResourceStore& store, Allocator& allocator, AccessTicket& ticket, uint64_t writer,
                std::shared_ptr<const Plan> plan, std::vector<std::vector<AccessRequest>> requests,
                std::weak_ptr<void> owner)
      : store_(store),
        allocator_(allocator),
        ticket_(ticket),
        writer_(writer),
        plan_(std::move(plan)),
        requests_(std::move(requests)),
        owner_(std::move(owner)) {}

  absl::Status Enter(CallScope& call, uint32_t region) override;
  /// Whether that is what it waits for places by.
  bool AwaitsBy(const Awaited& awaited) const { return opened_.get() == &awaited; }
  /// The call ends: gives back what the ticket does not have, and leaves the lines that it waits
  /// in.
  void End();

  absl::StatusOr<Tensor> Read(ResourceHandle handle) override { return Of(handle).Read(handle); }
  absl::Status Assign(ResourceHandle handle, Tensor value) override {
    return Of(handle).Assign(handle, std::move(value));
  }
  absl::Status Update(ResourceHandle handle, size_t bytes_moved,
                      absl::FunctionRef<absl::Status(Tensor& value)> update) override {
    return Of(handle).Update(handle, bytes_moved, update);
  }
  absl::Status UpdateRows(ResourceHandle handle, const RowIndices& rows, size_t bytes_moved,
                          absl::FunctionRef<absl::Status(Tensor& value)> update) override {
    return Of(handle).UpdateRows(handle, rows, bytes_moved, update);
  }
  bool LeaveValue(ResourceHandle handle, const Tensor& value, size_t bytes_moved) override {
    return Of(handle).LeaveValue(handle, value, bytes_moved);
  }
  void PutBack(ResourceHandle handle, Tensor value) override {
    Of(handle).PutBack(handle, std::move(value));
  }
  absl::StatusOr<Tensor> ReadState(ResourceHandle handle) override {
    return Of(handle).ReadState(handle);
  }
  absl::Status WriteState(ResourceHandle handle, Tensor state, size_t bytes) override {
    return Of(handle).WriteState(handle, std::move(state), bytes);
  }
  void Release(ResourceHandle handle) override { Of(handle).Release(handle); }
  bool IsInitialized(ResourceHandle handle) override { return Of(handle).IsInitialized(handle); }
  absl::Status Destroy(ResourceHandle handle, bool ignore_missing) override {
    return Of(handle).Destroy(handle, ignore_missing);
  }
  absl::StatusOr<const ResourceType*> TypeOf(ResourceHandle handle) override {
    return Of(handle).TypeOf(handle);
  }
  ResourceHandle CreateForCall(const std::string& name, ResourceType type) override {
    return ticket_.CreateForCall(name, std::move(type));
  }

 private:
  AccessTicket& Of(ResourceHandle handle) {
    return small_ != nullptr && small_->Has(handle) ? *small_ : ticket_;
  }
  // True where the places are there already, else opened_ tells.
  bool Begin(uint32_t region);
  void EndSmallWrite();

  ResourceStore& store_;
  Allocator& allocator_;
  AccessTicket& ticket_;
  const uint64_t writer_;
  const std::shared_ptr<const Plan> plan_;
  std::vector<std::vector<AccessRequest>> requests_;
  const std::weak_ptr<void> owner_;
  bool has_snapshot_ = false;
  std::shared_ptr<AccessTicket> small_;  // Of the small write that is under way.
  std::shared_ptr<Opened> opened_;
};

}  // namespace formwork
