// Queue...: elements that calls hand to each other.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/queue_state.h"
#include "core/kernels/resource/state_change.h"
#include "core/kernels/state_wait.h"
#include "core/kernels/strided_copy.h"

namespace formwork {
namespace {

const Queue& QueueOf(const Tensor& state) {
  return static_cast<const Queue&>(*state.scalar<Variant>());
}

absl::StatusOr<OpenState> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(OpenState open, OpenStateOf(ctx, IsQueue, "a queue"));
  if (!open.state.has_value()) return FailedPrecondition("the queue has not been begun");
  return open;
}

// The last that is done with `open`. `added`: so many elements; `bytes`: what the queue takes then.
absl::Status Change(KernelContext& ctx, OpenState& open, int64_t added, size_t bytes,
                    absl::FunctionRef<void(Queue&)> change) {
  return ChangeState<Queue>(
      ctx, open.handle, std::move(open.state), bytes,
      [added](Queue& queue) { queue.Reserve(added); }, change);
}

absl::StatusOr<KernelFn> MakeBegin(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(QueueSettings settings,
                            QueueSettingsOf(init.attrs(), init.node_name()));
  return KernelFn([settings = std::move(settings)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState open, OpenStateOf(ctx, IsQueue, "a queue"));
    if (open.state.has_value()) return CheckSharedQueue(QueueOf(open.state).settings(), settings);
    auto queue = std::make_shared<Queue>(open.type, settings);
    const size_t bytes = queue->bytes();
    return ctx.resources().WriteState(open.handle, Tensor::VariantScalar(std::move(queue)), bytes);
  });
}

// A step that may wait: run(ctx, queue, whether it has waited).
template <typename Run>
KernelFn StepThatWaits(Run run) {
  return KernelFn([run = std::move(run)](KernelContext& ctx) -> absl::Status {
    const bool has_waited = ctx.call().awaited() != nullptr;
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(OpenState open, Open(ctx));
    return run(ctx, open, has_waited);
  });
}
// The same of one that takes elements, of the dtypes of its outputs.
template <typename Run>
KernelFn StepThatTakes(const KernelInit& init, Run run) {
  const absl::Span<const DType> dtypes = init.output_dtypes();
  return StepThatWaits(
      [run = std::move(run), dtypes = std::vector<DType>(dtypes.begin(), dtypes.end())](
          KernelContext& ctx, OpenState& open, bool) -> absl::Status {
        FORMWORK_RETURN_IF_ERROR(CheckComponents(open.type, dtypes));
        return run(ctx, open);
      });
}

// --- Adding --------------------------------------------------------------------------------------

// Adds elements, once there is room for all of them.
absl::Status Enqueue(KernelContext& ctx, OpenState& open, bool has_waited,
                     std::vector<Queue::Element> elements) {
  const Queue& queue = QueueOf(open.state);
  // Who has waited since before it was closed goes on, unless that cancelled it.
  if (queue.is_closed() && (!has_waited || queue.refuses_all())) {
    return QueueIsClosed(open.type, queue.settings());
  }
  const auto count = static_cast<int64_t>(elements.size());
  if (count > queue.settings().capacity) {
    return Unimplemented("adding more elements at once than the queue's capacity: elements=", count,
                         " capacity=", queue.settings().capacity);
  }
  if (count > queue.room()) {
    return AwaitState(ctx, open.handle, "room in a queue", [count](const Tensor& state) {
      return QueueOf(state).room() >= count || QueueOf(state).refuses_all();
    });
  }
  if (count == 0) return absl::OkStatus();
  size_t bytes = queue.bytes();
  for (const Queue::Element& element : elements) bytes += Queue::BytesOf(element);
  return Change(ctx, open, count, bytes, [&](Queue& changed) {
    for (Queue::Element& element : elements) changed.Add(std::move(element));
  });
}

std::vector<const Tensor*> ComponentsOf(KernelContext& ctx) {
  std::vector<const Tensor*> components;
  for (int i = 1; i < ctx.num_inputs(); ++i) components.push_back(&ctx.input(i));
  return components;
}

absl::StatusOr<KernelFn> MakeEnqueue(KernelInit&) {
  return StepThatWaits([](KernelContext& ctx, OpenState& open, bool has_waited) -> absl::Status {
    const std::vector<const Tensor*> components = ComponentsOf(ctx);
    FORMWORK_RETURN_IF_ERROR(CheckElement(open.type, components));
    Queue::Element element;
    for (const Tensor* component : components) element.push_back(*component);
    std::vector<Queue::Element> elements;
    elements.push_back(std::move(element));
    return Enqueue(ctx, open, has_waited, std::move(elements));
  });
}

absl::StatusOr<KernelFn> MakeEnqueueMany(KernelInit&) {
  return StepThatWaits([](KernelContext& ctx, OpenState& open, bool has_waited) -> absl::Status {
    const std::vector<const Tensor*> batch = ComponentsOf(ctx);
    FORMWORK_ASSIGN_OR_RETURN(const int64_t count, CheckElements(open.type, batch));
    std::vector<Queue::Element> elements(static_cast<size_t>(count));
    for (const Tensor* component : batch) {
      FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> rows,
                                UnstackTensor(ctx.allocator(), *component, 0));
      for (size_t i = 0; i < rows.size(); ++i) elements[i].push_back(std::move(rows[i]));
    }
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return Enqueue(ctx, open, has_waited, std::move(elements));
  });
}

// --- Taking --------------------------------------------------------------------------------------

// `elements`' component `c`, which may be of other shapes in each, as one batch of `count`.
absl::StatusOr<Tensor> Batch(KernelContext& ctx, const ResourceType& type,
                             const std::vector<const Queue::Element*>& elements, size_t c) {
  const ResourceType::Part& part = type.parts[c];
  Dims largest(part.shape.dims().begin(), part.shape.dims().end());
  for (size_t d = 0; d < largest.size(); ++d) {
    if (largest[d] >= 0) continue;
    largest[d] = 0;
    for (const Queue::Element* element : elements) {
      largest[d] = std::max(largest[d], (*element)[c].shape().dim(static_cast<int>(d)));
    }
  }
  std::vector<const Tensor*> rows;
  for (const Queue::Element* element : elements) rows.push_back(&(*element)[c]);
  if (!rows.empty() && part.shape.fully_known()) return StackTensors(ctx.allocator(), rows, 0);
  Dims dims = largest;
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor batch, ZeroTensor(ctx.allocator(), part.dtype, shape));
  if (shape.num_elements() == 0) return batch;
  const size_t width =
      DTypeSize(part.dtype) * static_cast<size_t>(shape.num_elements()) / rows.size();
  auto* to = static_cast<char*>(batch.mutable_raw());
  for (const Tensor* row : rows) {
    CopyDims copy(largest.size());
    int64_t src = 1, dst = 1;
    for (size_t d = largest.size(); d-- > 0;) {
      const int64_t size = row->shape().dim(static_cast<int>(d));
      copy[d] = {size, src, dst};
      src *= size;
      dst *= largest[d];
    }
    if (row->num_elements() > 0) CopyStrided(part.dtype, row->raw(), to, copy);
    to += width;
  }
  return batch;
}

// Takes off those that are `next`.
absl::Status Take(KernelContext& ctx, OpenState& open,
                  const std::vector<const Queue::Element*>& next) {
  size_t bytes = QueueOf(open.state).bytes();
  for (const Queue::Element* element : next) bytes -= Queue::BytesOf(*element);
  const auto count = static_cast<int64_t>(next.size());
  return Change(ctx, open, 0, bytes, [count](Queue& queue) { queue.Remove(count); });
}

absl::StatusOr<KernelFn> MakeDequeue(KernelInit& init) {
  return StepThatTakes(init, [](KernelContext& ctx, OpenState& open) -> absl::Status {
    const Queue& queue = QueueOf(open.state);
    if (queue.available() < 1) {
      if (queue.is_closed()) return TooFewElements(open.type, queue.settings(), 1, queue.size());
      return AwaitState(ctx, open.handle, "an element of a queue", [](const Tensor& state) {
        return QueueOf(state).available() >= 1 || QueueOf(state).is_closed();
      });
    }
    const std::vector<const Queue::Element*> next = queue.Next(1);
    const Queue::Element taken = *next[0];
    FORMWORK_RETURN_IF_ERROR(Take(ctx, open, next));
    for (size_t c = 0; c < taken.size(); ++c) ctx.SetOutput(static_cast<int>(c), taken[c]);
    return absl::OkStatus();
  });
}

// `up_to`: of a closed queue fewer will do.
template <bool up_to>
absl::StatusOr<KernelFn> MakeDequeueMany(KernelInit& init) {
  return StepThatTakes(init, [](KernelContext& ctx, OpenState& open) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        int64_t count, BatchToTake(open.type, ctx.input(1), up_to ? "DequeueUpTo" : "DequeueMany"));
    const Queue& queue = QueueOf(open.state);
    if (queue.is_closed() && queue.size() < count) {
      if (!up_to || queue.size() == 0) {
        return TooFewElements(open.type, queue.settings(), count, queue.size());
      }
      count = queue.size();
    }
    if (count > 0 && queue.available() < count) {
      if (count > queue.settings().capacity - queue.settings().least_left) {
        return Unimplemented("taking more elements at once than may be left to be taken: n=", count,
                             " capacity=", queue.settings().capacity,
                             " min_after_dequeue=", queue.settings().least_left);
      }
      return AwaitState(ctx, open.handle, "elements of a queue", [count](const Tensor& state) {
        return QueueOf(state).available() >= count || QueueOf(state).is_closed();
      });
    }
    const std::vector<const Queue::Element*> next = queue.Next(count);
    std::vector<Tensor> batches;
    for (size_t c = 0; c < open.type.parts.size(); ++c) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor batch, Batch(ctx, open.type, next, c));
      batches.push_back(std::move(batch));
    }
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (count > 0) FORMWORK_RETURN_IF_ERROR(Take(ctx, open, next));
    for (size_t c = 0; c < batches.size(); ++c) {
      ctx.SetOutput(static_cast<int>(c), std::move(batches[c]));
    }
    return absl::OkStatus();
  });
}

// --- The rest ------------------------------------------------------------------------------------

absl::StatusOr<KernelFn> MakeClose(KernelInit& init) {
  const bool cancels = init.attrs().GetOr<bool>("cancel_pending_enqueues", false);
  return KernelFn([cancels](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(OpenState open, Open(ctx));
    const Queue& queue = QueueOf(open.state);
    if (queue.is_closed() && !cancels) {
      return absl::CancelledError(
          absl::StrCat("Queue '", queue.settings().name, "' is already closed."));
    }
    return Change(ctx, open, 0, queue.bytes(), [&](Queue& changed) { changed.Close(cancels); });
  });
}

absl::StatusOr<KernelFn> MakeSize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState open, Open(ctx));
    ctx.SetOutput(0, Tensor::Scalar(static_cast<int32_t>(QueueOf(open.state).size())));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeIsClosed(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState open, Open(ctx));
    ctx.SetOutput(0, Tensor::Scalar(QueueOf(open.state).is_closed()));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterQueueCpuKernels(KernelRegistry& registry) {
  for (absl::string_view version : {"", "V2"}) {
    const auto add = [&](absl::string_view op, KernelFactory factory) {
      registry.Add(absl::StrCat(op, version), factory);
    };
    add("FIFOQueue", MakeBegin);
    add("PaddingFIFOQueue", MakeBegin);
    add("PriorityQueue", MakeBegin);
    add("RandomShuffleQueue", MakeBegin);
    add("QueueEnqueue", MakeEnqueue);
    add("QueueEnqueueMany", MakeEnqueueMany);
    add("QueueDequeue", MakeDequeue);
    add("QueueDequeueMany", MakeDequeueMany<false>);
    add("QueueDequeueUpTo", MakeDequeueMany<true>);
    add("QueueClose", MakeClose);
    add("QueueSize", MakeSize);
    add("QueueIsClosed", MakeIsClosed);
  }
}

}  // namespace formwork
