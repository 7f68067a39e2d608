#include "gpu/determinism.h"

#include <atomic>

#include "gpu/gpu.h"

namespace formwork {
namespace {

std::atomic<bool> required = false;

}  // namespace

void RequireDeterminism(bool require) { required.store(require, std::memory_order_relaxed); }

bool DeterminismIsRequired() { return required.load(std::memory_order_relaxed); }

void AddOfOpenOrder(KernelRegistry& registry, absl::string_view op, KernelFactory factory) {
  if (!DeterminismIsRequired()) registry.Add(op, factory);
}

}  // namespace formwork
