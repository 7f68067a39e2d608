#pragma once

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), and the sequences
// that TensorFlow draws from it, bit for bit.

#include <array>
#include <cstdint>

namespace formwork {

/// A counter and a key: each counter value gives four numbers. A value; copy it freely.
class Philox {
 public:
  using Group = std::array<uint32_t, 4>;

  Philox() = default;
  /// As TensorFlow seeds it from two seeds.
  Philox(uint64_t seed_lo, uint64_t seed_hi) : counter_hi_(seed_hi), key_(seed_lo) {}
  Philox(uint64_t counter_lo, uint64_t counter_hi, uint64_t key)
      : counter_lo_(counter_lo), counter_hi_(counter_hi), key_(key) {}

  uint64_t counter_lo() const { return counter_lo_; }
  uint64_t counter_hi() const { return counter_hi_; }
  uint64_t key() const { return key_; }

  /// In halves as TensorFlow does, which loses a carry where `groups` stands for a step back.
  void Skip(uint64_t groups) {
    const uint64_t low = (counter_lo_ & 0xffffffffu) + (groups & 0xffffffffu);
    const uint32_t high_groups =
        static_cast<uint32_t>(groups >> 32) + static_cast<uint32_t>(low >> 32);
    const uint32_t high = static_cast<uint32_t>(counter_lo_ >> 32) + high_groups;
    if (high < high_groups) ++counter_hi_;
    counter_lo_ = (static_cast<uint64_t>(high) << 32) | (low & 0xffffffffu);
  }
  /// The group at the counter.
  Group Peek() const;
  /// The same, and moves on.
  Group Next() {
    const Group group = Peek();
    Skip(1);
    return group;
  }
  /// Writes groups 0 ... n-1 from the counter on, four numbers each.
  void Generate(int64_t n, uint32_t* out) const;

 private:
  uint64_t counter_lo_ = 0;
  uint64_t counter_hi_ = 0;
  uint64_t key_ = 0;
};

/// Single numbers of a Philox, in order.
class PhiloxSequence {
 public:
  /// Where it is.
  struct State {
    uint64_t counter_lo, counter_hi, key;  ///< Of the group that is under way.
    int used;                              ///< Numbers of that; 4: it is over.
  };

  explicit PhiloxSequence(const Philox& philox) : philox_(philox) {}
  explicit PhiloxSequence(const State& state)
      : philox_(state.counter_lo, state.counter_hi, state.key), used_(state.used) {
    begun_ = philox_;
    if (used_ < 4) group_ = philox_.Next();
  }
  State state() const {
    const Philox& at = used_ < 4 ? begun_ : philox_;
    return {at.counter_lo(), at.counter_hi(), at.key(), used_};
  }
  uint32_t Next() {
    if (used_ == 4) {
      begun_ = philox_;
      group_ = philox_.Next();
      used_ = 0;
    }
    return group_[used_++];
  }

 private:
  Philox philox_;
  Philox begun_;  // As it was before the group.
  Philox::Group group_{};
  int used_ = 4;
};

}  // namespace formwork
