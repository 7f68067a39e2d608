#pragma once

// How one device does an op: a function over a KernelContext, made once per node at plan time.
//
// A kernel's author writes a factory and one line in its family's Register function:
//
//   absl::StatusOr<KernelFn> MakeRelu(KernelInit& init) {
//     // attrs are parsed here, once
//     return KernelFn([](KernelContext& ctx) -> absl::Status { ... });
//   }
//   void RegisterNnCpuKernels(KernelRegistry& r) { r.Add("Relu", MakeRelu); }
//
// A kernel that can run longer than 50 ms splits its loops by ParallelFor or ForBlocks, so that a
// deadline or a cancellation cuts it (core/base/stop_flag.h). The executor fails a step whose work
// was cut, whatever the kernel returns.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/stop_flag.h"
#include "core/device/buffer.h"
#include "core/ops/attr.h"
#include "core/ops/element_group.h"
#include "core/ops/op_def.h"
#include "core/resource/resource_access.h"
#include "core/tensor/tensor.h"

namespace formwork {

class Awaited;
class ClientFunctions;
class FunctionRun;
class KernelContext;
class StreamScope;
struct AttentionKind;
struct BoundFunction;
struct KernelFunction;

/// What one execution shares among its steps, nested functions included. core/runtime implements
/// it. Used by one thread at a time.
class CallScope {
 public:
  virtual ~CallScope() = default;
  virtual Allocator& allocator() = 0;
  virtual ResourceAccess& resources() = 0;
  /// Appends to the call's printed text, which goes to the caller in order.
  virtual void Print(absl::string_view text) = 0;
  /// Set once the call is to stop. Kernels' loops look at it by ParallelFor and ForBlocks
  /// (core/base/parallel.h).
  virtual StopFlag& stop() = 0;
  /// A number that KernelInit::NewState() made. Calls that run at once share it.
  virtual std::atomic<uint64_t>& state(int index) = 0;
  /// Where in the ConcreteFunction's state that of the plan begins whose kernels run: at 0 but for
  /// functions that are called and not part of their callers.
  void set_first_state(uint32_t first) { first_state_ = first; }
  uint32_t first_state() const { return first_state_; }
  /// A resource that the plan names (OpTraits::handle_of), by the plan's numbering.
  virtual ResourceHandle named_resource(int index) = 0;
  /// Of a call whose plan is for a device: what its steps are enqueued by.
  virtual StreamScope* streams() { return nullptr; }
  /// The folder in which graphs may name files; empty: there is none.
  virtual absl::string_view files_dir() const { return {}; }
  /// The functions that the call's client keeps (client_functions.h); null: it answers for none.
  virtual ClientFunctions* client_functions() { return nullptr; }
  /// What the step at hand, of an op that waits, waits for; null where it has not begun to. Such a
  /// step sets it and returns Waiting(); it is run again, from its beginning, once that is over, or
  /// where the call is to stop, and then clears it (core/base/awaited.h).
  std::shared_ptr<Awaited>& awaited() { return awaited_; }
  /// Whether the thread is kept while a step waits, since the run is part of another kernel's.
  virtual bool keeps_thread() const { return false; }
  /// A function of a node, ready to run (kernel_function.h). Errors: kUnimplemented where none is
  /// run, as when constants are folded.
  virtual absl::StatusOr<std::unique_ptr<FunctionRun>> NewRun(const BoundFunction& function);

 private:
  uint32_t first_state_ = 0;
  std::shared_ptr<Awaited> awaited_;
};

/// What a factory sees of the node.
class KernelInit {
 public:
  virtual ~KernelInit() = default;
  virtual absl::string_view node_name() const = 0;
  virtual const OpDef& op() const = 0;
  virtual const AttrMap& attrs() const = 0;
  virtual absl::Span<const DType> input_dtypes() const = 0;
  virtual absl::Span<const DType> output_dtypes() const = 0;
  /// Hidden state of the node: `count` numbers that live on from call to call, 0 at first. Each
  /// ConcreteFunction has its own, and knows them by the node's name
  /// (ConcreteFunction::VisitState). The index of the first, for CallScope::state.
  virtual int NewState(int count) = 0;
  /// The one that stands at `index` among the functions that the node's attrs name, compiled. Of an
  /// op of ControlFlow::kKernel. Errors: those of planning it; kUnimplemented where none is run.
  virtual absl::StatusOr<std::shared_ptr<const KernelFunction>> Function(size_t index);
};

/// Where a step finds an input: a slot of the frame, or a constant of the plan or function.
struct InputRef {
  const Tensor* tensor;  ///< Never null while the kernel runs.
  bool owned;            ///< The slot's last use: the kernel may move it out.
};

/// One execution of one step.
class KernelContext {
 public:
  KernelContext(CallScope& call, absl::Span<const InputRef> inputs, absl::Span<Tensor> outputs)
      : call_(call), inputs_(inputs), outputs_(outputs) {}

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Tensor& input(int i) const { return *inputs_[i].tensor; }
  absl::Span<const InputRef> inputs() const { return inputs_; }

  /// Moves input i out where this step is its last use, else copies (sharing the elements). Use at
  /// most once for each input, and not input(i) afterwards.
  Tensor TakeInput(int i) {
    if (inputs_[i].owned) return std::move(*const_cast<Tensor*>(inputs_[i].tensor));
    return *inputs_[i].tensor;
  }
  /// True where input i may be overwritten: its last use, and nobody else holds its elements.
  bool CanOverwrite(int i) const { return inputs_[i].owned && inputs_[i].tensor->unique(); }

  void SetOutput(int i, Tensor value) { outputs_[i] = std::move(value); }
  const Tensor& output(int i) const { return outputs_[i]; }  ///< As it has been set.
  /// Allocates output i; the pointer holds until the kernel returns. Plain data is uninitialised.
  absl::StatusOr<Tensor*> AllocateOutput(int i, DType dtype, const Shape& shape) {
    // Most values of a loop are small: they need no allocator and no copy.
    if (outputs_[i].ResetInside(dtype, shape)) return &outputs_[i];
    absl::StatusOr<Tensor> tensor = Tensor::Allocate(call_.allocator(), dtype, shape);
    if (!tensor.ok()) return std::move(tensor).status();
    outputs_[i] = *std::move(tensor);
    return &outputs_[i];
  }
  /// Output i of `dtype` and `shape`, in the memory of the first of `candidates` that may be
  /// overwritten and has as many bytes, else allocated. The caller reads inputs through pointers
  /// taken by data() BEFORE this call, except that a value held inside its Tensor moves: use
  /// input-to-output aliasing only where element i of the output needs element i of the input
  /// alone.
  absl::StatusOr<Tensor*> ForwardOrAllocate(absl::Span<const int> candidates, int i, DType dtype,
                                            const Shape& shape);

  Allocator& allocator() { return call_.allocator(); }
  ResourceAccess& resources() { return call_.resources(); }
  CallScope& call() { return call_; }

 private:
  CallScope& call_;
  absl::Span<const InputRef> inputs_;
  absl::Span<Tensor> outputs_;
};

using KernelFn = absl::AnyInvocable<absl::Status(KernelContext&) const>;
using KernelFactory = absl::StatusOr<KernelFn> (*)(KernelInit&);

/// How a device runs groups of elementwise nodes (core/ops/element_group.h).
struct GroupKernels {
  /// Its inputs are the group's, and its outputs what the group's step makes; handles of what is
  /// stored come behind the inputs, and are not the kernel's to look at.
  absl::StatusOr<KernelFn> (*make)(const ElementGroup& group) = nullptr;
  /// Whether a group may have such an instruction.
  bool (*takes)(absl::string_view op, absl::Span<const DType> operands, DType result) = nullptr;
  /// Whether a group may end in such a reduction of elements of `dtype` (ElementGroup::reduction).
  /// Null: in none.
  bool (*reduces)(absl::string_view op, DType dtype) = nullptr;
};

/// The kernels of one device. Built once by a Register function, then read by many threads.
class KernelRegistry {
 public:
  /// Of ops that `ops` declares. It must outlive the registry.
  explicit KernelRegistry(const OpRegistry& ops) : ops_(ops) {}

  /// A second kernel of an op, or one of an op that is not declared or that plans do themselves (it
  /// runs functions), ends the process with a message that names the op. That of an op that names a
  /// resource begins the resource: it runs behind the handle, its first input, and has no output.
  /// It counts as an effect where the resource had no value before.
  void Add(absl::string_view op, KernelFactory factory);
  /// Null where this device has no kernel for the op.
  KernelFactory Find(absl::string_view op) const;
  std::vector<std::string> Names() const;  ///< Sorted.

  void SetGroups(const GroupKernels& groups) { groups_ = groups; }
  /// Null where the device has none.
  const GroupKernels* groups() const { return groups_.make == nullptr ? nullptr : &groups_; }

  void SetAttention(bool (*takes)(const AttentionKind& kind)) { takes_attention_ = takes; }
  /// Whether the device has a kernel of _Attention for it.
  bool TakesAttention(const AttentionKind& kind) const {
    return takes_attention_ != nullptr && takes_attention_(kind);
  }

 private:
  const OpRegistry& ops_;
  GroupKernels groups_;
  bool (*takes_attention_)(const AttentionKind& kind) = nullptr;
  absl::flat_hash_map<std::string, KernelFactory> factories_;
};

}  // namespace formwork
