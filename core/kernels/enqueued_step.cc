#include "core/kernels/enqueued_step.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/kernels/enqueued_stores.h"
#include "core/kernels/enqueued_work.h"
#include "core/kernels/state_wait.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// A node that is issued.
class Issue {
 public:
  Issue(const DeviceNode& node, KernelContext& ctx)
      : node_(node),
        ctx_(ctx),
        streams_(*ctx.call().streams()),
        ticket_(streams_.ticket()),
        step_(streams_.NextStep()),
        stores_(streams_, step_) {}

  /// Whether the error that Run gave has a node's name already.
  bool names_itself() const { return names_itself_; }

  absl::Status Run() {
    for (int i = 0; i < ctx_.num_inputs(); ++i) {
      const Tensor& input = ctx_.input(i);
      streams_.CheckCaptured(input);
      if (input.dtype() == DType::kResource && input.num_elements() != 1) {
        return InvalidArgument("resource must be a single handle: shape=",
                               input.shape().ToString());
      }
    }
    // Before it looks at a resource. One that waits for its client does so in its kernel.
    if (node_.op->waits && node_.op->effect == Effect::kWrite) {
      FORMWORK_RETURN_IF_ERROR(ComeBack(ctx_));
    }
    if (node_.op->loads_variable) return Load();
    if (node_.op->stores_variable) return Store();
    if (node_.group != nullptr) return RunGroup();
    if (node_.kernel == nullptr || std::find(node_.host_outputs.begin(), node_.host_outputs.end(),
                                             true) != node_.host_outputs.end()) {
      return RunOnHost();
    }
    if (node_.op->effect == Effect::kRandom) streams_.AbandonCapture();
    // Its place in a sequence is taken when it is issued; work that computes runs later.
    if (node_.op->effect == Effect::kRandom && !streams_.stream().enqueues()) return RunOnHost();
    const bool has_handles = std::find(node_.input_dtypes.begin(), node_.input_dtypes.end(),
                                       DType::kResource) != node_.input_dtypes.end();
    if (has_handles) {
      FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ticket_.TypeOf(Handle(0)));
      if (!type->is_variable()) return RunOnHost();
    }
    std::optional<std::vector<Shape>> shapes;
    FORMWORK_ASSIGN_OR_RETURN(shapes, OutputShapes());
    return shapes ? Enqueue(*shapes) : RunOnHost();
  }

 private:
  ResourceHandle Handle(int i) { return ctx_.input(i).scalar<ResourceHandle>(); }

  absl::Status Load() {
    FORMWORK_ASSIGN_OR_RETURN(Tensor value, ticket_.ReadEnqueued(Handle(0)));
    if (value.dtype() != node_.output_dtypes[0]) {
      return InvalidArgument("Trying to read variable with wrong dtype. Expected ",
                             GraphDTypeName(node_.output_dtypes[0]), " got ",
                             GraphDTypeName(value.dtype()));
    }
    FORMWORK_ASSIGN_OR_RETURN(value, streams_.ToDevice(value));
    ctx_.SetOutput(0, std::move(value));
    return absl::OkStatus();
  }

  absl::Status Store() {
    const Tensor& value = ctx_.input(1);
    if (!ticket_.IsInitialized(Handle(0)) || ShapeOf(Handle(0)) != value.shape()) {
      // What the variable was could not be kept if an earlier step has failed: so it must not.
      FORMWORK_RETURN_IF_ERROR(streams_.Ready());
    }
    // What a kernel may yet say about an earlier step would have to be looked at on the device; and
    // what other streams have read is not the variable's stream's.
    const bool is_own = ctx_.inputs()[1].owned && value.on_device() && value.unique() &&
                        !streams_.several() && streams_.capture() == nullptr &&
                        streams_.status()->word() == nullptr;
    return is_own ? stores_.TakeOver(Handle(0), ctx_.TakeInput(1)) : stores_.Copy(Handle(0), value);
  }

  // A group's stores as they are found.
  struct Stores {
    absl::InlinedVector<ResourceHandle, 4> handles;
    // By output: the store that it is the memory of, the first of those to a variable of its shape,
    // or -1; and where that variable's value is.
    absl::InlinedVector<int, 4> of_output;
    absl::InlinedVector<const BufferBlock*, 4> blocks;
    bool late = false;  // One is to a variable of another shape, or of none.
  };

  // Errors name the store's node.
  absl::Status FindStores(const ElementGroup& group, absl::Span<const Shape> shapes,
                          Stores& stores) {
    stores.of_output.resize(shapes.size(), -1);
    stores.blocks.resize(shapes.size(), nullptr);
    for (size_t s = 0; s < group.stores.size(); ++s) {
      const uint16_t k = group.stores[s].output;
      const ResourceHandle handle = Handle(static_cast<int>(group.inputs.size() + s));
      const absl::Status fits =
          ticket_.CheckAssign(handle, group.dtype(group.outputs[k]), shapes[k]);
      if (!fits.ok()) return Annotate(fits, absl::StrCat("node '", group.stores[s].node, "'"));
      stores.handles.push_back(handle);
      const absl::StatusOr<Tensor> value = ticket_.Read(handle);
      if (!value.ok() || value->shape() != shapes[k]) {
        stores.late = true;
      } else if (stores.of_output[k] < 0) {
        stores.of_output[k] = static_cast<int>(s);
        stores.blocks[k] = value->buffer().block();
      }
    }
    return absl::OkStatus();
  }

  // Where the step is the last to hold a variable's value, it lets go of that before the store, so
  // that the variable is changed in place: each element is read before it is written. Not where the
  // work computes: a result could then be there before all is read.
  absl::Status RunGroup() {
    const ElementGroup& group = *node_.group;
    const int inputs = static_cast<int>(group.inputs.size());
    absl::InlinedVector<const Shape*, 16> of_inputs;
    for (int i = 0; i < inputs; ++i) of_inputs.push_back(&ctx_.input(i).shape());
    absl::InlinedVector<Shape, 4> shapes(group.outputs.size());
    Stores stores;
    names_itself_ = true;
    FORMWORK_RETURN_IF_ERROR(group.OutputShapes(of_inputs, absl::MakeSpan(shapes)));
    FORMWORK_RETURN_IF_ERROR(FindStores(group, shapes, stores));
    names_itself_ = false;
    if (stores.late) FORMWORK_RETURN_IF_ERROR(streams_.Ready());  // As Store.
    const bool in_place = streams_.stream().enqueues() &&
                          absl::c_all_of(shapes, [&](const Shape& s) { return s == shapes[0]; });
    auto work = std::make_unique<Work>(node_, streams_, step_, ctx_.call());
    for (int i = 0; i < inputs; ++i) {
      const Tensor& input = ctx_.input(i);
      if (in_place && ctx_.inputs()[i].owned && input.on_device() && input.shape() == shapes[0] &&
          absl::c_linear_search(stores.blocks, input.buffer().block())) {
        work->AddInputInPlace(input);
        ctx_.TakeInput(i);  // And let go of.
      } else {
        work->AddInput(input);
      }
    }
    std::deque<Tensor> held;  // Until the work is enqueued.
    absl::Status opened;
    for (size_t k = 0; k < shapes.size() && opened.ok(); ++k) {
      const DType dtype = group.dtype(group.outputs[k]);
      const int s = stores.of_output[k];
      opened = s < 0 ? AddOutput(*work, k, dtype, shapes[k])
                     : AddStored(*work, k, stores.handles[s], dtype, shapes[k], held);
    }
    Launch(std::move(work), opened);
    FORMWORK_RETURN_IF_ERROR(opened);
    for (size_t s = 0; s < stores.handles.size(); ++s) {
      const uint16_t k = group.stores[s].output;
      if (stores.of_output[k] == static_cast<int>(s)) continue;
      FORMWORK_RETURN_IF_ERROR(stores_.Copy(stores.handles[s], ctx_.output(k)));
    }
    return absl::OkStatus();
  }

  absl::Status AddOutput(Work& work, size_t k, DType dtype, const Shape& shape) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor output, streams_.Allocate(dtype, shape));
    ctx_.SetOutput(static_cast<int>(k), std::move(output));
    work.AddOutput(ctx_.output(static_cast<int>(k)));
    return absl::OkStatus();
  }

  absl::Status AddStored(Work& work, size_t k, ResourceHandle handle, DType dtype,
                         const Shape& shape, std::deque<Tensor>& held) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor before, stores_.HostValueOnDevice(handle));
    FORMWORK_ASSIGN_OR_RETURN(AccessTicket::EnqueuedWrite write,
                              ticket_.WriteEnqueued(handle, dtype, shape));
    held.push_back(before.has_value() ? std::move(before) : std::move(write.before));
    ctx_.SetOutput(static_cast<int>(k), std::move(write.after));
    work.AddStored(held.back(), ctx_.output(static_cast<int>(k)));
    return absl::OkStatus();
  }

  // Where it has not been put together as a whole, variables that are open already keep their
  // values.
  void Launch(std::unique_ptr<Work> work, const absl::Status& opened) {
    if (!opened.ok()) {
      streams_.status()->Fail(step_, AtNode(node_, streams_.calls(), opened), streams_.effects());
      work->Skip();
    }
    Work::Launch(std::move(work));
  }

  Shape ShapeOf(ResourceHandle handle) {
    const absl::StatusOr<Tensor> value = ticket_.Read(handle);
    return value.ok() ? value->shape() : Shape();
  }

  // Nullopt where they are not known before the kernel has run.
  absl::StatusOr<std::optional<std::vector<Shape>>> OutputShapes() {
    std::vector<Shape> known;
    const size_t n = node_.output_dtypes.size();
    if (n == 0) return known;
    if (node_.op->shape_fn == nullptr) return std::nullopt;
    std::vector<PartialShape> shapes;
    std::vector<const Tensor*> constants;
    for (int i = 0; i < ctx_.num_inputs(); ++i) {
      const Tensor& input = ctx_.input(i);
      if (input.dtype() == DType::kResource) {
        FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ticket_.Read(Handle(i)));
        shapes.push_back(value.shape());
        constants.push_back(nullptr);
        continue;
      }
      shapes.push_back(input.shape());
      constants.push_back(input.on_device() ? nullptr : &input);
    }
    InferenceContext inference(*node_.attrs, std::move(shapes), std::move(constants),
                               node_.input_dtypes, static_cast<int>(n));
    // What it refuses the kernel refuses too, in its own words.
    if (!node_.op->shape_fn(inference).ok()) return std::nullopt;
    for (size_t k = 0; k < n; ++k) {
      const std::optional<Shape> shape = inference.outputs()[k].ToShape();
      if (!shape) return std::nullopt;
      known.push_back(*shape);
    }
    return known;
  }

  absl::Status Enqueue(const std::vector<Shape>& shapes) {
    auto work = std::make_unique<Work>(node_, streams_, step_, ctx_.call());
    std::deque<Tensor> held;  // Until the work is enqueued.
    for (size_t k = 0; k < shapes.size(); ++k) {
      FORMWORK_RETURN_IF_ERROR(AddOutput(*work, k, node_.output_dtypes[k], shapes[k]));
    }
    for (int i = 0; i < ctx_.num_inputs(); ++i) work->AddInput(ctx_.input(i));
    const absl::Status opened = OpenVariables(*work, held);
    Launch(std::move(work), opened);
    return opened;
  }

  absl::Status OpenVariables(Work& work, std::deque<Tensor>& held) {
    const bool writes = node_.op->effect == Effect::kWrite;
    if (writes) {  // All of them have values, or none is touched.
      for (int i = 0; i < ctx_.num_inputs(); ++i) {
        if (ctx_.input(i).dtype() != DType::kResource) continue;
        FORMWORK_RETURN_IF_ERROR(ticket_.Read(Handle(i)).status());
      }
    }
    for (int i = 0; i < ctx_.num_inputs(); ++i) {
      if (ctx_.input(i).dtype() != DType::kResource || work.knows(Handle(i))) continue;
      FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ticket_.TypeOf(Handle(i)));
      if (!writes) {
        FORMWORK_ASSIGN_OR_RETURN(held.emplace_back(), ticket_.ReadEnqueued(Handle(i)));
        if (streams_.stream().enqueues()) {  // Its kernels reach the device's memory alone.
          FORMWORK_ASSIGN_OR_RETURN(held.back(), streams_.ToDevice(held.back()));
        }
        work.AddRead(Handle(i), *type, held.back());
        continue;
      }
      FORMWORK_ASSIGN_OR_RETURN(Tensor before, stores_.HostValueOnDevice(Handle(i)));
      const Shape shape = ShapeOf(Handle(i));
      FORMWORK_ASSIGN_OR_RETURN(AccessTicket::EnqueuedWrite write,
                                ticket_.WriteEnqueued(Handle(i), type->parts[0].dtype, shape));
      if (!before.has_value()) before = std::move(write.before);
      const Tensor& from = held.emplace_back(std::move(before));
      work.AddWrite(Handle(i), *type, from, held.emplace_back(std::move(write.after)));
    }
    return absl::OkStatus();
  }

  // Runs the kernel here, once the inputs are.
  absl::Status RunOnHost() {
    streams_.AbandonCapture();
    if (node_.host_kernel == nullptr) {
      return Unimplemented(node_.op->name, ": the host has no kernel, and values decide on shapes");
    }
    const bool writes = node_.op->effect == Effect::kWrite;
    std::vector<Tensor> inputs;
    std::deque<WorkVariable> variables;
    for (int i = 0; i < ctx_.num_inputs(); ++i) inputs.push_back(ctx_.input(i));
    for (int i = 0; i < ctx_.num_inputs(); ++i) {
      if (ctx_.input(i).dtype() != DType::kResource) continue;
      FORMWORK_ASSIGN_OR_RETURN(const ResourceType* type, ticket_.TypeOf(Handle(i)));
      if (!type->is_variable()) continue;
      FORMWORK_ASSIGN_OR_RETURN(Tensor value, ticket_.ReadEnqueued(Handle(i)));
      WorkVariable& read = variables.emplace_back();
      read.handle = Handle(i);
      read.type = *type;
      inputs.push_back(std::move(value));
    }
    const bool all_here = std::none_of(inputs.begin(), inputs.end(),
                                       [](const Tensor& input) { return input.on_device(); });
    // What is written must not be where earlier work fails.
    FORMWORK_RETURN_IF_ERROR(all_here && writes ? streams_.Ready()
                                                : streams_.ToHost(absl::MakeSpan(inputs)));
    const size_t n = static_cast<size_t>(ctx_.num_inputs());
    std::vector<Tensor> written;
    for (size_t v = 0; v < variables.size(); ++v) {
      if (!writes) {
        variables[v].host = inputs[n + v];
        continue;
      }
      FORMWORK_ASSIGN_OR_RETURN(written.emplace_back(), CopyInBuffer(inputs[n + v]));
      variables[v].after.emplace(written.back());
    }
    std::vector<InputRef> refs;
    for (size_t i = 0; i < n; ++i) refs.push_back({&inputs[i], false});
    std::vector<Tensor> outputs(node_.output_dtypes.size());
    WorkScope scope(ctx_.allocator(), variables);
    CallScope& call = variables.empty() ? ctx_.call() : scope;
    KernelContext host(call, refs, absl::MakeSpan(outputs));
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&] { return (*node_.host_kernel)(host); }));
    for (size_t v = 0; v < written.size(); ++v) {
      if (variables[v].after->held()) return Internal(node_.op->name, " keeps a variable's memory");
      FORMWORK_ASSIGN_OR_RETURN(
          AccessTicket::EnqueuedWrite write,
          ticket_.WriteEnqueued(variables[v].handle, written[v].dtype(), written[v].shape()));
      Buffer after = write.after.buffer();
      streams_.stream().Copy(written[v].buffer(), after);
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!node_.host_outputs[k]) {
        FORMWORK_ASSIGN_OR_RETURN(outputs[k], streams_.ToDevice(outputs[k]));
      }
      ctx_.SetOutput(static_cast<int>(k), std::move(outputs[k]));
    }
    return absl::OkStatus();
  }

  // In host memory, and in a buffer, so that it can be copied to the device.
  absl::StatusOr<Tensor> CopyInBuffer(const Tensor& value) {
    FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block,
                              ctx_.allocator().Allocate(value.bytes(), nullptr));
    Buffer buffer(block);
    if (value.bytes() > 0) std::memcpy(buffer.data(), value.raw(), value.bytes());
    return Tensor::OfBuffer(value.dtype(), value.shape(), std::move(buffer));
  }

  const DeviceNode& node_;
  KernelContext& ctx_;
  StreamScope& streams_;
  AccessTicket& ticket_;
  const int64_t step_;
  EnqueuedStores stores_;
  bool names_itself_ = false;
};

}  // namespace

KernelFn MakeEnqueuedStep(DeviceNode node) {
  return KernelFn([node = std::move(node)](KernelContext& ctx) -> absl::Status {
    StreamScope& streams = *ctx.call().streams();
    FORMWORK_RETURN_IF_ERROR(streams.MayGoOn());
    Issue issue(node, ctx);
    const absl::Status status = issue.Run();
    if (status.ok() && node.effect) streams.NoteEffect();
    if (status.ok() || IsWaiting(status)) return status;
    const absl::Status earlier = streams.status()->Get();
    if (!earlier.ok()) return earlier;
    return issue.names_itself() ? InCalls(streams.calls(), status)
                                : AtNode(node, streams.calls(), status);
  });
}

KernelFn MakeHostStep(DeviceNode node, bool after_work) {
  return KernelFn([node = std::move(node), after_work](KernelContext& ctx) -> absl::Status {
    StreamScope& streams = *ctx.call().streams();
    if (after_work) FORMWORK_RETURN_IF_ERROR(streams.Ready());
    StreamCapture* const capture = streams.capture();
    if (capture != nullptr && !capture->NoteHostStep(node, ctx)) streams.AbandonCapture();
    const absl::Status status = (*node.host_kernel)(ctx);
    if (IsWaiting(status)) return status;
    if (!status.ok()) return AtNode(node, streams.calls(), status);
    if (node.effect) streams.NoteEffect();
    return status;
  });
}

KernelFn MakeStepOnStream(KernelFn step, StepOnStream on) {
  return KernelFn([step = std::move(step), on = std::move(on)](KernelContext& ctx) -> absl::Status {
    StreamScope& streams = *ctx.call().streams();
    const absl::Cleanup back = [&streams] { streams.Go(0); };
    streams.Go(on.stream);
    for (uint32_t point : on.waits) streams.WaitForPoint(point);
    FORMWORK_RETURN_IF_ERROR(step(ctx));
    if (on.records) streams.RecordPoint(*on.records);
    return absl::OkStatus();
  });
}

KernelFn MakeNoStep() {
  return KernelFn([](KernelContext& /*ctx*/) { return absl::OkStatus(); });
}

KernelFn MakeToDevice() {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor copy, ctx.call().streams()->ToDevice(ctx.input(0)));
    ctx.SetOutput(0, std::move(copy));
    return absl::OkStatus();
  });
}

KernelFn MakeToHost() {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    Tensor value = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(ctx.call().streams()->ToHost(absl::MakeSpan(&value, 1)));
    ctx.SetOutput(0, std::move(value));
    return absl::OkStatus();
  });
}

}  // namespace formwork
