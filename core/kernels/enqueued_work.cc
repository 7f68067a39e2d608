#include "core/kernels/enqueued_work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/ops/cannot_fail.h"

namespace formwork {
namespace {

// Blocks that somebody else owns.
class Borrowed final : public Allocator {
 public:
  absl::StatusOr<BufferBlock*> Allocate(size_t /*bytes*/, Stream* /*stream*/) override {
    return Internal("borrowed memory allocates nothing");
  }
  void Free(BufferBlock* /*block*/) override {}
};

// Gives a kernel the memory of its outputs, which has been allocated, where it asks for as much.
class OutputAllocator final : public Allocator {
 public:
  OutputAllocator(std::deque<DeviceView>& outputs, Allocator& rest)
      : outputs_(outputs), rest_(rest), taken_(outputs.size()) {}

  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      BufferBlock& block = outputs_[i].block;
      if (block.bytes != bytes || taken_[i].exchange(true, std::memory_order_relaxed)) continue;
      block.refs.store(1, std::memory_order_relaxed);
      return &block;
    }
    return rest_.Allocate(bytes, stream);
  }
  void Free(BufferBlock* block) override { rest_.Free(block); }  // Unused: blocks know theirs.

 private:
  std::deque<DeviceView>& outputs_;
  Allocator& rest_;
  std::deque<std::atomic<bool>> taken_;
};

absl::Status NoVariable() { return Internal("work uses a resource that is no variable"); }

}  // namespace

DeviceView::DeviceView(const Tensor& tensor) : dtype(tensor.dtype()), shape(tensor.shape()) {
  static Borrowed borrowed;
  block.data = tensor.buffer().data();
  block.bytes = block.capacity = tensor.buffer().bytes();
  block.allocator = &borrowed;
  block.device = tensor.buffer().block()->device;  // So that no kernel keeps it.
  block.refs.store(0, std::memory_order_relaxed);
}

Tensor DeviceView::Read(Stream* stream) {
  Tensor tensor;
  if (stream == nullptr && tensor.ResetInside(dtype, shape)) {
    std::memcpy(tensor.mutable_raw(), block.data, block.bytes);
    return tensor;
  }
  block.refs.fetch_add(1, std::memory_order_relaxed);
  return Tensor::OfBuffer(dtype, shape, Buffer(&block));
}

absl::Status DeviceView::Write(const Tensor& value, Stream* stream, FailureWord* unless_failed) {
  if (block.bytes == 0 || value.raw() == block.data) return absl::OkStatus();
  if (stream == nullptr) {
    std::memcpy(block.data, value.raw(), block.bytes);
    return absl::OkStatus();
  }
  if (!value.on_device()) return Internal("work of a device makes a value in host memory");
  block.refs.fetch_add(1, std::memory_order_relaxed);
  Buffer to(&block);
  if (unless_failed == nullptr) {
    stream->Copy(value.buffer(), to);
  } else {
    stream->CopyUnlessFailed(*unless_failed, value.buffer(), to);
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkVariable*> WorkScope::Find(ResourceHandle handle) {
  for (WorkVariable& variable : variables_) {
    if (variable.handle.id == handle.id) return &variable;
  }
  return InvalidArgument("the handle is none of the step's variables: id=", handle.id);
}

absl::StatusOr<Tensor> WorkScope::Read(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(WorkVariable * variable, Find(handle));
  if (variable->after) return variable->after->Read(stream_);
  return variable->before ? variable->before->Read(stream_) : variable->host;
}

absl::Status WorkScope::Assign(ResourceHandle handle, Tensor value) {
  FORMWORK_ASSIGN_OR_RETURN(WorkVariable * variable, Find(handle));
  if (!variable->after) return Internal("work changes a variable that it only reads");
  DeviceView& after = *variable->after;
  if (value.dtype() != after.dtype || value.shape() != after.shape) {
    return Internal("work changes the shape of a variable: from=", after.shape.ToString(),
                    " to=", value.shape().ToString());
  }
  return after.Write(value, stream_);
}

absl::Status WorkScope::Update(ResourceHandle handle, size_t /*bytes_moved*/,
                               absl::FunctionRef<absl::Status(Tensor& value)> update) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, Read(handle));
  FORMWORK_RETURN_IF_ERROR(update(value));
  return Assign(handle, std::move(value));
}

absl::StatusOr<const ResourceType*> WorkScope::TypeOf(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(WorkVariable * variable, Find(handle));
  return &variable->type;
}

absl::StatusOr<Tensor> WorkScope::ReadState(ResourceHandle /*handle*/) { return NoVariable(); }
absl::Status WorkScope::WriteState(ResourceHandle /*handle*/, Tensor /*state*/, size_t /*bytes*/) {
  return NoVariable();
}
absl::Status WorkScope::Destroy(ResourceHandle /*handle*/, bool /*ignore_missing*/) {
  return NoVariable();
}

absl::Status AtNode(const DeviceNode& node, const std::shared_ptr<const std::string>& calls,
                    const absl::Status& status) {
  HeapScope unlimited(nullptr);  // To say what was refused must not be refused.
  return InCalls(calls, Annotate(status, absl::StrCat("node '", node.name, "'")));
}

absl::Status InCalls(const std::shared_ptr<const std::string>& calls, const absl::Status& status) {
  const HeapScope unlimited(nullptr);  // As above.
  return calls == nullptr ? status : Annotate(status, *calls);
}

Tensor ValueBefore(KernelContext& ctx, int i) {
  Work::Stored* const stored =
      static_cast<WorkScope&>(ctx.call()).work().stored(static_cast<size_t>(i));
  return stored != nullptr && stored->before ? stored->before->Read(&StreamOf(ctx)) : Tensor();
}

absl::StatusOr<FailurePlace> MayFail(KernelContext& ctx, EnqueuedStatus::Explain explain) {
  return static_cast<WorkScope&>(ctx.call()).work().MayFail(std::move(explain));
}

FailureWord* EarlierFailure(KernelContext& ctx) {
  FailureWord* const word = static_cast<WorkScope&>(ctx.call()).work().word();
  return word == nullptr ? nullptr : word->of_kernels();
}

absl::StatusOr<FailurePlace> Work::MayFail(EnqueuedStatus::Explain explain) const {
  if (CannotFailByValue(node_.op->name, node_.output_dtypes)) {
    return Internal(node_.op->name, " was to be one that cannot fail by value");
  }
  FORMWORK_ASSIGN_OR_RETURN(FailureWord* const word,
                            status_->MayFail(
                                streams_.stream(), step_,
                                [&node = node_, calls = calls_, explain = std::move(explain)](
                                    uint64_t where) { return AtNode(node, calls, explain(where)); },
                                effects_));
  return FailurePlace{word->of_kernels(), static_cast<uint64_t>(step_)};
}

void Work::AddInput(const Tensor& value) {
  if (!value.on_device()) {
    inputs_.push_back({kNoView, value});
    return;
  }
  access_.reads.push_back(&value.buffer());
  AddInputInPlace(value);
}

void Work::AddInputInPlace(const Tensor& value) {
  streams_.NoteRead(value);
  inputs_.push_back({views_.size(), Tensor()});
  views_.emplace_back(value);
}

void Work::AddOutput(const Tensor& value) {
  access_.writes.push_back(&value.buffer());
  outputs_.emplace_back(value);
}

void Work::AddStored(const Tensor& before, const Tensor& after) {
  Stored& stored = stored_.emplace_back();
  stored.output = outputs_.size();
  AddOutput(after);
  if (before.buffer().block() == after.buffer().block()) return;
  access_.reads.push_back(&before.buffer());
  stored.before.emplace(before);
}

Work::Stored* Work::stored(size_t output) const {
  const auto found = std::find_if(stored_.begin(), stored_.end(),
                                  [&](const Stored& stored) { return stored.output == output; });
  return found == stored_.end() ? nullptr : &*found;
}

void Work::AddRead(ResourceHandle handle, const ResourceType& type, const Tensor& value) {
  WorkVariable& variable = AddVariable(handle, type);
  if (value.on_device()) {
    access_.reads.push_back(&value.buffer());
    variable.before.emplace(value);
  } else {
    variable.host = value;
  }
}

void Work::AddWrite(ResourceHandle handle, const ResourceType& type, const Tensor& before,
                    const Tensor& after) {
  WorkVariable& variable = AddVariable(handle, type);
  variable.after.emplace(after);
  access_.writes.push_back(&after.buffer());
  if (before.buffer().block() != after.buffer().block()) {
    access_.reads.push_back(&before.buffer());
    variable.before.emplace(before);
  }
}

bool Work::knows(ResourceHandle handle) const {
  return std::any_of(variables_.begin(), variables_.end(),
                     [&](const WorkVariable& variable) { return variable.handle.id == handle.id; });
}

WorkVariable& Work::AddVariable(ResourceHandle handle, const ResourceType& type) {
  WorkVariable& variable = variables_.emplace_back();
  variable.handle = handle;
  variable.type = type;
  return variable;
}

void Work::Launch(std::unique_ptr<Work> work) {
  Stream& stream = work->streams_.stream();
  const BufferAccess access = std::move(work->access_);
  stream.Launch(access, [work = std::move(work), on = stream.enqueues() ? &stream : nullptr] {
    return work->Run(on);
  });
}

absl::Status Work::Run(Stream* stream) {
  const StopScope uncut(nullptr);  // On the thread of whoever waits: perhaps another call's.
  for (WorkVariable& variable : variables_) {
    if (!variable.after || !variable.before) continue;
    FORMWORK_RETURN_IF_ERROR(variable.after->Write(variable.before->Read(stream), stream));
  }
  if (skipped_ || status_->FailedBefore(step_)) {
    for (Stored& stored : stored_) {
      if (!stored.before) continue;
      FORMWORK_RETURN_IF_ERROR(outputs_[stored.output].Write(stored.before->Read(stream), stream));
    }
    return absl::OkStatus();
  }
  absl::Status status = CatchOutOfMemory([&] { return RunKernel(stream); });
  status.Update(CheckNothingHeld());
  // A failure is the call's, not the stream's.
  if (!status.ok()) status_->Fail(step_, AtNode(node_, calls_, status), effects_);
  return absl::OkStatus();
}

absl::Status Work::CheckNothingHeld() const {
  const auto held = [](const DeviceView& view) { return view.held(); };
  bool any = std::any_of(views_.begin(), views_.end(), held) ||
             std::any_of(outputs_.begin(), outputs_.end(), held);
  any |= std::any_of(stored_.begin(), stored_.end(),
                     [&](const Stored& stored) { return stored.before && stored.before->held(); });
  for (const WorkVariable& variable : variables_) {
    any |=
        (variable.before && variable.before->held()) || (variable.after && variable.after->held());
  }
  return any ? Internal(node_.op->name, " keeps memory of the device") : absl::OkStatus();
}

absl::Status Work::MoveApart(absl::Span<Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool in_others = std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& view) {
      return &view != &outputs_[i] && view.block.data == outputs[i].raw();
    });
    if (!in_others) continue;
    FORMWORK_ASSIGN_OR_RETURN(Tensor apart,
                              Tensor::Allocate(host_, outputs[i].dtype(), outputs[i].shape()));
    if (apart.bytes() > 0) std::memcpy(apart.mutable_raw(), outputs[i].raw(), apart.bytes());
    outputs[i] = std::move(apart);
  }
  return absl::OkStatus();
}

absl::Status Work::RunKernel(Stream* stream) {
  std::deque<Tensor> inputs;
  std::vector<InputRef> refs;
  for (const Input& input : inputs_) {
    inputs.push_back(input.view == kNoView ? input.host : views_[input.view].Read(stream));
    refs.push_back({&inputs.back(), false});
  }
  std::vector<Tensor> outputs(outputs_.size());
  if (stream == nullptr) {
    OutputAllocator allocator(outputs_, host_);
    WorkScope scope(allocator, variables_);
    KernelContext ctx(scope, refs, absl::MakeSpan(outputs));
    FORMWORK_RETURN_IF_ERROR((*node_.kernel)(ctx));
  } else {
    WorkScope scope(memory_, variables_, outputs_, *stream, *this, call_);
    KernelContext ctx(scope, refs, absl::MakeSpan(outputs));
    FORMWORK_RETURN_IF_ERROR((*node_.kernel)(ctx));
  }
  if (stream == nullptr) {
    FORMWORK_RETURN_IF_ERROR(MoveApart(absl::MakeSpan(outputs)));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (stream != nullptr && !outputs[i].has_value()) continue;
    if (outputs[i].dtype() != outputs_[i].dtype || outputs[i].shape() != outputs_[i].shape) {
      return Internal(node_.op->name, " makes a value of another shape than inferred: inferred=",
                      outputs_[i].shape.ToString(), " made=", outputs[i].shape().ToString());
    }
    FORMWORK_RETURN_IF_ERROR(outputs_[i].Write(outputs[i], stream));
  }
  return absl::OkStatus();
}

}  // namespace formwork
