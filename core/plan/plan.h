#pragma once

// A Plan: a Graph compiled for a device. A program of instructions over the value slots of one
// frame; immutable; shared by every ConcreteFunction that asks for the same cut.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "core/graph/passes/relaxed_regions.h"
#include "core/graph/placement.h"
#include "core/kernels/elementwise/scalar_program.h"
#include "core/kernels/kernel.h"
#include "core/resource/resource.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A resource that the graph names itself (OpTraits::handle_of).
struct NamedResource {
  std::string name;  ///< "container/shared_name", or the shared_name alone.
  ResourceType type;
  Access access = Access::kNone;
};

class Plan {
 public:
  /// Where an instruction or result finds a value.
  struct Ref {
    bool constant = false;
    bool owned = false;  ///< The slot's last use.
    uint32_t index = 0;  ///< Into the frame's slots, or into `constants`.
  };

  /// `count` elements of a list, from `first` on.
  struct Range {
    uint32_t first = 0, count = 0;
  };

  /// Of a plan for a device.
  using Memory = formwork::Memory;

  enum class Code : uint8_t {
    kKernel,   ///< Runs kernels[target].
    kScalar,   ///< Runs scalars[target].
    kMove,     ///< Output k becomes input k, in this order.
    kJump,     ///< Goes on at targets[target].
    kBranch,   ///< At targets[target] where the input is true, else at the next of them.
    kSwitch,   ///< At the one of num_targets, from targets[target] on, that the input chooses.
    kLoop,     ///< As kBranch; the first target is the loop's body.
    kCall,     ///< Makes calls[target], in a frame of its own.
    kFork,     ///< Makes num_targets calls, from calls[target] on, side by side; its inputs and
               ///< outputs are theirs, one after the other.
    kRelease,  ///< Nothing but its releases.
    kRegion,   ///< Begins regions[target].
    kReturn    ///< The plan's results are there.
  };

  struct Instruction {
    Range inputs;    ///< Of `refs`.
    Range outputs;   ///< Of slots.
    Range drops;     ///< Of `drops`: slots that nobody needs after it.
    Range releases;  ///< Of `releases`.
    uint32_t target = 0, num_targets = 0;
    Code code = Code::kKernel;
    bool effect = false;
  };

  /// Where to go on.
  struct Target {
    uint32_t instruction = 0;
    Range drops;  ///< Of `drops`: slots that nobody needs there.
  };

  /// A call of a function that is not part of its caller.
  struct Call {
    uint32_t function = 0;     ///< Of the root plan's functions.
    uint32_t first_state = 0;  ///< Where its state begins in that of its caller.
  };

  /// Hidden state (KernelInit::NewState) of a node, or of all that a called function has.
  struct State {
    std::string node;
    Range numbers;
    std::optional<uint32_t> function;  ///< Of the root plan's functions: it is a call's.
  };

  /// What an instruction is of, for errors and to be read.
  struct Label {
    std::string node;
    const OpDef* op = nullptr;  ///< Null where there is none, or several: errors name theirs.
    std::vector<std::string> parts = {};  ///< Of several nodes in one step: their names.
  };

  std::string name;
  std::vector<Instruction> code;
  std::vector<Label> labels;  ///< Of the instructions.
  std::vector<KernelFn> kernels;
  std::vector<ScalarProgram> scalars;
  std::vector<Call> calls;
  std::vector<Ref> refs;
  std::vector<uint32_t> drops;
  std::vector<Target> targets;
  /// Slots with handles of variables that nothing later touches. Of the root plan alone.
  std::vector<uint32_t> releases;
  std::vector<Tensor> constants;  ///< Without value: a place that nobody refers to.
  std::vector<Ref> results;
  std::vector<State> states;
  uint32_t num_state = 0;  ///< Numbers, those of calls included.
  uint32_t num_slots = 0;
  /// Where the value of each slot is; empty: the plan is for the CPU. Kernels of a plan for a
  /// device are those of core/kernels/enqueued_step.h, and their errors name their nodes.
  std::vector<Memory> memory;
  /// Where an instruction enqueues its work, and which ones' work it waits for there: of a plan
  /// that uses several streams of a device.
  struct OnStream {
    int stream = 0;
    std::vector<uint32_t> waits;
  };
  std::vector<OnStream> on_streams;  ///< By instruction; empty: all is on stream 0.
  int num_streams = 1;
  uint32_t num_points = 0;     ///< Instructions whose work others wait for: so many events.
  uint32_t num_registers = 0;  ///< Of the program of scalars that has most.
  /// Parameter i is moved into slot i.
  std::vector<DType> arg_dtypes;
  std::vector<Access> arg_access;  ///< Of parameters of dtype resource.
  std::vector<DType> result_dtypes;
  std::vector<PartialShape> result_shapes;
  int64_t last_effect = -1;  ///< An instruction: after it a failing call has left all its effects.

  // Of the root plan alone, nested ones included.
  /// Those that are called and not part of their callers.
  std::vector<std::shared_ptr<const Plan>> functions;
  std::vector<NamedResource> named_resources;
  /// Nodes that a device was to run and has no kernel for: the host does.
  struct Fallback {
    const OpDef* op;
    std::string node;
  };
  std::vector<Fallback> fallbacks;
  /// Of a plan for relaxed calls; else empty. The first instruction begins the first one.
  struct Region {
    RegionKind kind = RegionKind::kSnapshot;
    std::string name;
    /// What is touched in it: of parameters (>= 0) and named resources (-1 - index).
    std::map<int32_t, Access> access;
  };
  std::vector<Region> regions;
  bool open_ended = false;      ///< It has a loop or may wait: its nodes do not bound its time.
  bool sized_by_value = false;  ///< Small inputs do not bound the work.
  /// Some step's handle is one of several, and which is known only when it runs. The plan's access
  /// is to all of them.
  bool late_handles = false;
  bool quiet_kernels = true;  ///< What its kernels run is quiet (KernelFunction).
  size_t bytes = 0;           ///< About what the plan holds.
};

/// The program as text, an instruction a line, for people and for tests:
///   3: branch %2 -> 4 drop %1, 6
///   4: %5 = MatMul(%0 %1!) 'dense/MatMul' drop %1
/// A `!` marks what is taken over, `#0` a constant; `@host` and `@device`, in a plan for a device,
/// where a value is made; `stream 1` where a step is enqueued, if not on stream 0, and `wait 3` for
/// which instruction's work it waits there; `region 1 'apply region'` where a part of a relaxed
/// call begins. Of a long one, the first megabyte.
std::string PlanText(const Plan& plan);

/// Calls `visit` with each node's hidden state, calls of functions followed, until it returns
/// false. A node is named by its path of calls, whether these are part of their callers or not; of
/// those that would have one name the later ones are numbered.
void VisitState(const Plan& root,
                absl::FunctionRef<bool(absl::string_view name, Plan::Range numbers)> visit);

}  // namespace formwork
