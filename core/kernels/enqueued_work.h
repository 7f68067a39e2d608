#pragma once

// What a step of a plan for a device has enqueued: its kernel, and where that finds everything once
// its turn comes. It sees memory, and the variables that its step names; the rest of the call is
// over for it.

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels/enqueued_step.h"
#include "core/kernels/stream_scope.h"

namespace formwork {

/// The memory of a tensor on the device as the work sees it that runs there. It holds nothing: the
/// device orders frees behind the work. `stream`: where work enqueues; null where it computes.
struct DeviceView {
  explicit DeviceView(const Tensor& tensor);

  /// The value, while the work runs alone. On a stream its elements are the device's to read.
  Tensor Read(Stream* stream);
  /// Of a value of as many bytes, which is on the device where there is a stream. `unless_failed`:
  /// of a stream; what is here stays where a step before has failed by that. Null: it does not.
  absl::Status Write(const Tensor& value, Stream* stream, FailureWord* unless_failed = nullptr);
  /// Whether somebody holds a value that Read gave, or the memory as an output's.
  bool held() const { return block.refs.load(std::memory_order_relaxed) != 0; }

  const DType dtype;
  const Shape shape;
  BufferBlock block;
};

/// A variable that work reads or changes.
struct WorkVariable {
  ResourceHandle handle;
  ResourceType type;
  std::optional<DeviceView> before;  ///< Where it is not changed, or not in place.
  std::optional<DeviceView> after;
  Tensor host;  ///< Instead: a value in host memory.
};

class Work;

/// The call as work sees it: the variables that its step names, open already.
class WorkScope final : public CallScope, private ResourceAccess {
 public:
  /// All outlive it.
  WorkScope(Allocator& allocator, std::deque<WorkVariable>& variables)
      : allocator_(allocator), variables_(variables) {}
  /// Of `work` of `call`, which enqueues on `stream`; `outputs` are to be written there.
  WorkScope(Allocator& allocator, std::deque<WorkVariable>& variables,
            std::deque<DeviceView>& outputs, Stream& stream, const Work& work, CallScope& call)
      : allocator_(allocator),
        variables_(variables),
        outputs_(&outputs),
        stream_(&stream),
        work_(&work),
        call_(&call) {}

  std::deque<WorkVariable>& variables() { return variables_; }
  DeviceView& output(int i) { return (*outputs_)[static_cast<size_t>(i)]; }
  Stream* stream() const { return stream_; }  ///< Null: the work computes.
  const Work& work() const { return *work_; }

  Allocator& allocator() override { return allocator_; }
  ResourceAccess& resources() override { return *this; }
  StopFlag& stop() override { return stop_; }
  // Steps that print or name resources run on the host; those that draw numbers too, where work
  // computes.
  void Print(absl::string_view /*text*/) override {}
  std::atomic<uint64_t>& state(int index) override {
    return call_ == nullptr ? state_ : call_->state(index);
  }
  ResourceHandle named_resource(int /*index*/) override { return {}; }

 private:
  absl::StatusOr<Tensor> Read(ResourceHandle handle) override;
  absl::Status Assign(ResourceHandle handle, Tensor value) override;
  absl::Status Update(ResourceHandle handle, size_t bytes_moved,
                      absl::FunctionRef<absl::Status(Tensor& value)> update) override;
  bool IsInitialized(ResourceHandle handle) override { return Find(handle).ok(); }
  absl::StatusOr<const ResourceType*> TypeOf(ResourceHandle handle) override;
  absl::StatusOr<Tensor> ReadState(ResourceHandle handle) override;
  absl::Status WriteState(ResourceHandle handle, Tensor state, size_t bytes) override;
  absl::Status Destroy(ResourceHandle handle, bool ignore_missing) override;
  ResourceHandle CreateForCall(const std::string& /*name*/, ResourceType /*type*/) override {
    return {};
  }
  absl::StatusOr<WorkVariable*> Find(ResourceHandle handle);

  Allocator& allocator_;
  std::deque<WorkVariable>& variables_;
  std::deque<DeviceView>* const outputs_ = nullptr;
  Stream* const stream_ = nullptr;
  const Work* const work_ = nullptr;
  CallScope* const call_ = nullptr;  // While a step of it is issued.
  StopFlag stop_;
  std::atomic<uint64_t> state_{0};
};

/// `status` of what the node does, with its name before it, and before that the calls that it is
/// in.
absl::Status AtNode(const DeviceNode& node, const std::shared_ptr<const std::string>& calls,
                    const absl::Status& status);
/// The same of what has a node's name already.
absl::Status InCalls(const std::shared_ptr<const std::string>& calls, const absl::Status& status);

// For the kernels of a device whose work enqueues, which run in a WorkScope:

/// Where the step at hand enqueues.
inline Stream& StreamOf(KernelContext& ctx) {
  return *static_cast<WorkScope&>(ctx.call()).stream();
}
/// Output i, of the shape that was inferred for it. The kernel has it written there, or sets
/// another value of that shape.
inline Tensor OutputOf(KernelContext& ctx, int i) {
  return static_cast<WorkScope&>(ctx.call()).output(i).Read(&StreamOf(ctx));
}
/// Memory for the step's own work, freed behind it. Of no bytes: none. Errors: the allocator's.
inline absl::StatusOr<Buffer> ScratchOf(KernelContext& ctx, size_t bytes) {
  if (bytes == 0) return Buffer();
  absl::StatusOr<BufferBlock*> block = ctx.allocator().Allocate(bytes, &StreamOf(ctx));
  if (!block.ok()) return std::move(block).status();
  return Buffer(*block);
}
/// Of a group's output i, where that is the next value of a variable: what it has to be where an
/// earlier step has failed (EarlierFailure), the value that the variable had. Without value where
/// that is there already, for the memory is the same.
Tensor ValueBefore(KernelContext& ctx, int i);

/// Where the kernel of a step says that it has failed: `word->step` is then to be `step`, and
/// `word->where` the smallest of what its threads have met.
struct FailurePlace {
  FailureWord* word;
  uint64_t step;
};
/// Before a kernel is enqueued that may fail by what its inputs' elements are. It writes neither
/// the word nor a variable where the word has the number of an earlier step by then; its outputs
/// are of no matter where a step has failed. `explain` makes the error of what it has left in
/// `where`. Errors: kInternal if the op is known as one that cannot fail (core/ops/cannot_fail.h),
/// so that it may be on any stream; those of making the word.
absl::StatusOr<FailurePlace> MayFail(KernelContext& ctx, EnqueuedStatus::Explain explain);
/// For a kernel that changes a variable, and cannot fail itself: the word in which it finds whether
/// an earlier step has failed, and then changes nothing. Null where none can have.
FailureWord* EarlierFailure(KernelContext& ctx);

/// Put together by one thread, then launched.
class Work {
 public:
  /// The step `step` of the call. `node` outlives the work, and so does the call's allocator, for
  /// what a kernel that computes allocates beside its outputs.
  Work(const DeviceNode& node, StreamScope& streams, int64_t step, CallScope& call)
      : node_(node),
        streams_(streams),
        call_(call),
        step_(step),
        status_(streams.status()),
        calls_(streams.calls()),
        effects_(streams.effects()),
        memory_(streams.memory()),
        host_(call.allocator()) {}

  // Values on the device outlive Launch.
  void AddInput(const Tensor& value);
  /// The same of one on the device that need not live on: its memory is one of those that are
  /// stored to.
  void AddInputInPlace(const Tensor& value);
  void AddOutput(const Tensor& value);
  /// The same of an output that is a variable's next value, and what it was; both on the device.
  void AddStored(const Tensor& before, const Tensor& after);
  void AddRead(ResourceHandle handle, const ResourceType& type, const Tensor& value);
  /// Both on the device.
  void AddWrite(ResourceHandle handle, const ResourceType& type, const Tensor& before,
                const Tensor& after);
  bool knows(ResourceHandle handle) const;
  /// Leaves variables as they are, and does nothing else.
  void Skip() { skipped_ = true; }

  static void Launch(std::unique_ptr<Work> work);

  /// While it is launched, of work that enqueues.
  absl::StatusOr<FailurePlace> MayFail(EnqueuedStatus::Explain explain) const;
  FailureWord* word() const { return status_->word(); }
  struct Stored {
    size_t output = 0;
    std::optional<DeviceView> before = {};  ///< Where that is other memory.
  };
  /// Null where the output is none.
  Stored* stored(size_t output) const;

 private:
  static constexpr size_t kNoView = ~size_t{0};
  struct Input {
    size_t view;
    Tensor host;
  };

  WorkVariable& AddVariable(ResourceHandle handle, const ResourceType& type);
  // `stream`: where it enqueues; null where it computes.
  absl::Status Run(Stream* stream);
  absl::Status RunKernel(Stream* stream);
  // Of what computes: a kernel may have been given the memory of its outputs in another order.
  absl::Status MoveApart(absl::Span<Tensor> outputs);
  // After the kernel: the memory is no longer there for it.
  absl::Status CheckNothingHeld() const;

  const DeviceNode& node_;
  StreamScope& streams_;  // Until it is launched.
  CallScope& call_;       // While it is launched, where it enqueues then.
  const int64_t step_;
  bool skipped_ = false;
  const std::shared_ptr<EnqueuedStatus> status_;
  const std::shared_ptr<const std::string> calls_;
  const int64_t effects_;  // Of the call, before this.
  Allocator& memory_;      // The device's.
  Allocator& host_;
  BufferAccess access_;
  std::deque<DeviceView> views_, outputs_;
  mutable std::deque<Stored> stored_;  // Its views count who reads them.
  std::vector<Input> inputs_;
  std::deque<WorkVariable> variables_;
};

}  // namespace formwork
