#pragma once

// What a call has enqueued while it is captured, so that another one, given values of the same
// shapes, can enqueue the same work at once (core/runtime/captured_run.h).

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/device/captured_memory.h"
#include "core/kernels/kernel.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct DeviceNode;

/// Of one call, on its thread. A value in host memory that follows from arguments need not be in
/// another call what it is in this one: it is one of the call's values, which are numbered,
/// arguments first. All others there are the same in each call.
class StreamCapture {
 public:
  /// `args`: where the steps find what the call was given. They outlive it.
  StreamCapture(std::shared_ptr<CapturedMemory> memory, absl::Span<const Tensor> args);

  /// What the host does of values, each time.
  struct HostStep {
    struct Input {
      std::optional<size_t> value;
      Tensor constant;
    };
    const DeviceNode* node;  ///< Of the plan.
    std::vector<Input> inputs;
    size_t first_output, num_outputs;
  };
  /// A value is copied to the device there, each time.
  struct Upload {
    size_t value;
    Tensor to;
  };

  CapturedMemory& memory() { return *memory_; }
  const std::vector<HostStep>& host_steps() const { return host_steps_; }
  const std::vector<Upload>& uploads() const { return uploads_; }
  size_t num_values() const { return num_values_; }

  /// Which of the call's values `slot` has, if it has one.
  std::optional<size_t> ValueOf(const Tensor& slot) const {
    const auto found = values_.find(&slot);
    return found == values_.end() ? std::nullopt : std::optional<size_t>(found->second);
  }
  /// The node is about to be run by the host, all of it in its memory. False: it uses such values
  /// in a way that cannot be repeated.
  bool NoteHostStep(const DeviceNode& node, KernelContext& ctx);
  void NoteUpload(size_t value, Tensor to) { uploads_.push_back({value, std::move(to)}); }

 private:
  const std::shared_ptr<CapturedMemory> memory_;
  HashMap<const Tensor*, size_t> values_;  // By slots, each of which has one value.
  size_t num_values_ = 0;
  std::vector<HostStep> host_steps_;
  std::vector<Upload> uploads_;
};

}  // namespace formwork
