#include "core/kernels/kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/base/status.h"
#include "core/kernels/kernel_function.h"

namespace formwork {
namespace {

[[noreturn]] void BrokenKernel(absl::string_view op, absl::string_view why) {
  std::fprintf(stderr, "broken kernel of %s: %s\n", std::string(op).c_str(),
               std::string(why).c_str());
  std::abort();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FunctionRun>> CallScope::NewRun(const BoundFunction&) {
  return Unimplemented("functions are not run here");
}

absl::StatusOr<std::shared_ptr<const KernelFunction>> KernelInit::Function(size_t) {
  return Unimplemented("functions are not run here");
}

BoundFunction BoundFunction::Of(std::shared_ptr<const KernelFunction> function, CallScope& call) {
  BoundFunction bound;
  for (int index : function->named) bound.named.push_back(call.named_resource(index));
  bound.function = std::move(function);
  return bound;
}

absl::StatusOr<Tensor*> KernelContext::ForwardOrAllocate(absl::Span<const int> candidates, int i,
                                                         DType dtype, const Shape& shape) {
  const int64_t bytes = shape.num_elements() * static_cast<int64_t>(DTypeSize(dtype));
  for (int candidate : candidates) {
    const Tensor& input = *inputs_[candidate].tensor;
    // Values held inside their Tensor cost no allocation: nothing is won by taking them over, and
    // the input's address would change under the kernel.
    if (!input.buffer() || !IsPlainData(input.dtype()) || !IsPlainData(dtype)) continue;
    if (!CanOverwrite(candidate) || static_cast<int64_t>(input.bytes()) != bytes) continue;
    outputs_[i] = TakeInput(candidate).Reshaped(shape).Recast(dtype);
    return &outputs_[i];
  }
  return AllocateOutput(i, dtype, shape);
}

void KernelRegistry::Add(absl::string_view op, KernelFactory factory) {
  const OpDef* const declared = ops_.Find(op);
  if (declared == nullptr) BrokenKernel(op, "its op is not declared");
  const bool runs_functions = declared->control_flow == ControlFlow::kKernel;
  if (declared->control_flow != ControlFlow::kNone && !runs_functions) {
    BrokenKernel(op, "its op runs functions, which plans do");
  }
  if (!factories_.emplace(std::string(op), factory).second) BrokenKernel(op, "registered twice");
}

KernelFactory KernelRegistry::Find(absl::string_view op) const {
  auto found = factories_.find(op);
  return found == factories_.end() ? nullptr : found->second;
}

std::vector<std::string> KernelRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace formwork
