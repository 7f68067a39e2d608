#pragma once

// The steps of a plan for a device: what a kernel's own function becomes there. Each is issued by
// the executor as any kernel is, and enqueues its work on a stream of the call's (StreamScope).
//
// A step's outputs are allocated when it is issued: the op's shape function says how large they are
// by the shapes, and the values in host memory, that are known then. Where that is not enough the
// host waits for the inputs, runs the kernel and copies what it makes to the device.
//
// Errors of these steps name their nodes, and the calls that they are in: one that the work had may
// come out of a later step.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/kernels/kernel.h"

namespace formwork {

/// One node of a plan for a device.
struct DeviceNode {
  std::string name;
  const OpDef* op = nullptr;
  std::shared_ptr<const AttrMap> attrs;
  std::vector<DType> input_dtypes, output_dtypes;
  /// Of a node that is a group, whose stores the step does itself: a variable that has a value of
  /// the result's shape becomes the memory that the kernel writes.
  std::shared_ptr<const ElementGroup> group = nullptr;
  bool effect = false;             ///< That others can see.
  std::vector<bool> host_outputs;  ///< Those that are made in host memory (ArgDef::host).
  /// The device's. Null: it has none, or the node is of the host.
  std::shared_ptr<const KernelFn> kernel;
  /// The host's: of what it runs, and of what is enqueued, for shapes that only values tell. Null:
  /// there is none.
  std::shared_ptr<const KernelFn> host_kernel;
};

/// Enqueues the kernel. It finds inputs where it wants them (ArgDef::host), the others on the
/// device. Where the device has none, the host's runs once the inputs and variables are there, and
/// what it makes of variables is copied back.
KernelFn MakeEnqueuedStep(DeviceNode node);
/// Runs the kernel, all of whose inputs and outputs are in host memory, when it is issued.
/// `after_work`: once everything before has run and nothing has failed, because others see what it
/// does.
KernelFn MakeHostStep(DeviceNode node, bool after_work);

/// Where a step of a plan that uses several streams is enqueued.
struct StepOnStream {
  int stream = 0;
  std::vector<uint32_t> waits;      ///< Points that have to be reached before.
  std::optional<uint32_t> records;  ///< The number of the point behind it, where somebody waits.
};

/// The step, enqueued there.
KernelFn MakeStepOnStream(KernelFn step, StepOnStream on);
/// Enqueues nothing: of a point that a stream is to wait at, or to be recorded.
KernelFn MakeNoStep();

/// Output 0 is input 0, on the device or in host memory.
KernelFn MakeToDevice();
KernelFn MakeToHost();

}  // namespace formwork
