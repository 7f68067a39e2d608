#pragma once

// Loops over channels that lie side by side, a register at a time.

#include <cstdint>

#include "core/kernels/isa.h"

namespace formwork {

// Channels that are worked on together, a vector of kBytes: one register of the host's, because gcc
// keeps wider vectors in memory, as it does arrays.
template <typename T, int kBytes>
constexpr int64_t kBlock = kBytes / static_cast<int64_t>(sizeof(T));
template <typename T, int kBytes>
struct Vector {
  // Wherever the channels begin.
  typedef T Block __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};

/// Rows<T, bytes of the host's vectors>::Run(args...) compiled for this machine.
template <template <typename, int> typename Rows, typename T, typename... Args>
void ForBlocksOfHost(Args... args) {
  switch (HostIsa()) {
    case Isa::kAvx512:
      return ForHostIsa<Rows<T, 64>>(args...);
    case Isa::kAvx2:
      return ForHostIsa<Rows<T, 32>>(args...);
    case Isa::kBaseline:
      return ForHostIsa<Rows<T, 16>>(args...);
  }
}

}  // namespace formwork
