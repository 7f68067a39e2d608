#include "core/kernels/kernel.h"

#include <algorithm>

namespace formwork {

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
  factories_[std::string(op)] = factory;
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
