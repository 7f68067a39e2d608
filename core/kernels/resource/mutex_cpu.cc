// MutexLock, ConsumeMutexLock.

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/ops/mutex.h"

namespace formwork {
namespace {

// Held by a call until it is consumed, or nobody has it any more.
class Lock : public VariantObject {
 public:
  explicit Lock(const ResourceAccess* call) : call_(call) {}
  absl::string_view type_name() const override { return "mutex lock"; }

  bool IsHeldBy(const ResourceAccess* call) const { return call == call_ && held_; }
  void Consume() { held_ = false; }

 private:
  const ResourceAccess* const call_;  // Known by its address alone.
  std::atomic<bool> held_{true};
};

// A mutex's state changes in place, by who has its turn at it. A call gives its turn back with its
// last use of the mutex, while it may still hold the lock: what the section does is in the order of
// the resources that it uses, which is that of the calls. So only the call itself looks whether it
// holds it.
class Mutex : public VariantObject {
 public:
  absl::string_view type_name() const override { return "mutex"; }

  std::weak_ptr<Lock> last;
};

ResourceValue Unlocked() {
  return {Tensor::VariantScalar(std::make_shared<Mutex>()), sizeof(Mutex)};
}

// --- On disk ------------------------------------------------------------------------------------

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType&, const Tensor&, Allocator&) {
  return std::vector<Tensor>{Tensor::Scalar(false)};  // No lock outlives the engine.
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType&, const std::vector<Tensor>& parts) {
  if (parts.size() != 1) return InvalidArgument("a mutex has one part, not ", parts.size());
  return Unlocked();
}

// --- Kernels ------------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<Mutex>> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const OpenState open, OpenStateOf(ctx, IsOf<kMutexKind>, "a mutex"));
  Tensor state = open.state;
  if (!state.has_value()) {
    ResourceValue value = Unlocked();
    state = value.value;
    FORMWORK_RETURN_IF_ERROR(
        ctx.resources().WriteState(open.handle, std::move(value.value), value.bytes));
  }
  return std::static_pointer_cast<Mutex>(state.scalar<Variant>());
}

absl::StatusOr<KernelFn> MakeLock(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const std::shared_ptr<Mutex> mutex, Open(ctx));
    if (const std::shared_ptr<Lock> last = mutex->last.lock();
        last != nullptr && last->IsHeldBy(&ctx.resources())) {
      return FailedPrecondition(
          "the call holds the lock of this mutex already and would wait for itself: a critical "
          "section must not be entered from within");
    }
    auto lock = std::make_shared<Lock>(&ctx.resources());
    mutex->last = lock;
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(lock)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeConsume(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    if (input.rank() != 0) {
      return InvalidArgument("Expected input to be a scalar, saw shape: ",
                             input.shape().ToString());
    }
    VariantObject* const object = input.scalar<Variant>().get();
    auto* const lock = dynamic_cast<Lock*>(object);
    if (lock == nullptr) {
      return InvalidArgument("Expected input to contain a SharedLockReleaser object, but saw: ",
                             object == nullptr ? "nothing" : object->type_name());
    }
    lock->Consume();
    return absl::OkStatus();
  });
}

}  // namespace

const StoredForm kStoredMutex = {
    .kind = kMutexKind, .parts = StoredParts, .value = ValueOfParts, .type_parts = 1};

void RegisterMutexCpuKernels(KernelRegistry& registry) {
  registry.Add("MutexLock", MakeLock);
  registry.Add("ConsumeMutexLock", MakeConsume);
}

}  // namespace formwork
