#include "gpu/tf32.h"

#include <atomic>

#include "gpu/gpu.h"

namespace formwork {
namespace {

std::atomic<bool> allowed = false;

}  // namespace

void AllowTf32(bool allow) { allowed.store(allow, std::memory_order_relaxed); }

bool Tf32IsAllowed() { return allowed.load(std::memory_order_relaxed); }

}  // namespace formwork
