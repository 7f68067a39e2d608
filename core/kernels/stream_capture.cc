#include "core/kernels/stream_capture.h"

#include "core/kernels/enqueued_step.h"

namespace formwork {

StreamCapture::StreamCapture(std::shared_ptr<CapturedMemory> memory, absl::Span<const Tensor> args)
    : memory_(std::move(memory)) {
  for (const Tensor& arg : args) {
    // What a handle is of is compared as a whole.
    if (arg.dtype() != DType::kResource) values_[&arg] = num_values_;
    ++num_values_;
  }
}

bool StreamCapture::NoteHostStep(const DeviceNode& node, KernelContext& ctx) {
  if (node.op->effect != Effect::kNone || node.op->waits) return false;
  HostStep step{&node, {}, num_values_, static_cast<size_t>(ctx.num_outputs())};
  bool follows = false;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& input = ctx.input(i);
    const std::optional<size_t> value = ValueOf(input);
    follows = follows || value.has_value();
    step.inputs.push_back({value, value ? Tensor() : input});
  }
  if (!follows) return true;
  for (const HostStep::Input& input : step.inputs) {
    if (input.constant.on_device()) return false;
  }
  for (int i = 0; i < ctx.num_outputs(); ++i) values_[&ctx.output(i)] = num_values_++;
  host_steps_.push_back(std::move(step));
  return true;
}

}  // namespace formwork
