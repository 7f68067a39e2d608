#pragma once

#include <atomic>
#include <cstdint>
#include <random>

#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/kernels/random/philox.h"
#include "core/ops/random.h"

namespace formwork {

/// The sequence of a node whose seeds are attrs. How far it has got is hidden state; without seeds
/// in the attrs, so is the seed that the first call draws.
class SequencePosition {
 public:
  /// `more`: numbers of hidden state that the node wants besides.
  static absl::StatusOr<SequencePosition> Of(KernelInit& init, int more = 0) {
    FORMWORK_ASSIGN_OR_RETURN(const SeedAttrs attrs, SeedAttrs::FromAttrs(init.attrs()));
    return SequencePosition(attrs, init.NewState(more + (attrs.seeded() ? 1 : 2)));
  }

  /// The index of the first of these, for CallScope::state.
  int more() const { return position_ + (seeded_ ? 1 : 2); }

  /// Takes the next `groups` groups.
  Philox Reserve(KernelContext& ctx, uint64_t groups) const {
    Philox philox = seeded_ ? start_ : Philox(SeedIn(ctx.call().state(position_ + 1)), 0);
    philox.Skip(ctx.call().state(position_).fetch_add(groups, std::memory_order_relaxed));
    return philox;
  }

 private:
  // 0: none has been drawn yet.
  static uint64_t SeedIn(std::atomic<uint64_t>& state) {
    uint64_t seed = state.load(std::memory_order_relaxed);
    while (seed == 0) {
      std::random_device device;
      const uint64_t drawn = device() | (static_cast<uint64_t>(device()) << 32);
      if (state.compare_exchange_strong(seed, drawn, std::memory_order_relaxed)) seed = drawn;
    }
    return seed;
  }

  SequencePosition(const SeedAttrs& attrs, int position)
      : start_(static_cast<uint64_t>(attrs.seed), static_cast<uint64_t>(attrs.seed2)),
        seeded_(attrs.seeded()),
        position_(position) {}

  Philox start_;
  bool seeded_;
  int position_;  // Its place in the state; that of the seed follows.
};

}  // namespace formwork
