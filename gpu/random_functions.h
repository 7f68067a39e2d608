// Random numbers: Philox 4x32-10 and TensorFlow's distributions over it, number for number as
// core/kernels/random has them. Compiled for GPUs at run time, from this text behind those of
// item_functions.h and element_access.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include <bit>

#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

#ifdef __CUDACC_RTC__
FORMWORK_ELEMENT float FloatOfBits(uint32_t bits) { return __uint_as_float(bits); }
FORMWORK_ELEMENT double DoubleOfBits(uint64_t bits) {
  return __longlong_as_double(static_cast<int64_t>(bits));
}
#else
FORMWORK_ELEMENT float FloatOfBits(uint32_t bits) { return std::bit_cast<float>(bits); }
FORMWORK_ELEMENT double DoubleOfBits(uint64_t bits) { return std::bit_cast<double>(bits); }
#endif

// --- The generator ------------------------------------------------------------------------------

struct PhiloxGroup {
  uint32_t of[4];
};

// A counter and a key, as formwork::Philox.
struct PhiloxAt {
  uint64_t counter_lo, counter_hi, key;

  // In halves as TensorFlow does, which loses a carry where `groups` stands for a step back.
  FORMWORK_ELEMENT void Skip(uint64_t groups) {
    const uint64_t low = (counter_lo & 0xffffffffu) + (groups & 0xffffffffu);
    const uint32_t high_groups =
        static_cast<uint32_t>(groups >> 32) + static_cast<uint32_t>(low >> 32);
    const uint32_t high = static_cast<uint32_t>(counter_lo >> 32) + high_groups;
    if (high < high_groups) ++counter_hi;
    counter_lo = static_cast<uint64_t>(high) << 32 | (low & 0xffffffffu);
  }

  // The numbers at the counter.
  FORMWORK_ELEMENT PhiloxGroup Group() const {
    constexpr int kRounds = 10;
    uint32_t c0 = static_cast<uint32_t>(counter_lo), c1 = static_cast<uint32_t>(counter_lo >> 32);
    uint32_t c2 = static_cast<uint32_t>(counter_hi), c3 = static_cast<uint32_t>(counter_hi >> 32);
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t a = uint64_t(0xD2511F53) * c0, b = uint64_t(0xCD9E8D57) * c2;
      c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(b);
      c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(a);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return PhiloxGroup{{c0, c1, c2, c3}};
  }
};

// Where a call's numbers begin: in memory, which is read when the kernel runs, or, where `counter`
// is null, as it was known when that was enqueued.
struct PhiloxSource {
  const uint64_t* counter;  // Two words.
  const uint64_t* key;
  PhiloxAt known;

  FORMWORK_ELEMENT PhiloxAt Get() const {
    return counter == nullptr ? known : PhiloxAt{counter[0], counter[1], *key};
  }
};

// --- Numbers from bits --------------------------------------------------------------------------

// Uniform in [0, 1).
template <typename E>
struct UnitNumber;
template <>
struct UnitNumber<float> {
  static FORMWORK_ELEMENT float Of(const uint32_t* x) {
    return FloatOfBits(127u << 23 | (x[0] & 0x7fffffu)) - 1.0f;
  }
};
template <>
struct UnitNumber<double> {
  static FORMWORK_ELEMENT double Of(const uint32_t* x) {
    const uint64_t mantissa = static_cast<uint64_t>(x[0] & 0xfffffu) << 32 | x[1];
    return DoubleOfBits(uint64_t(1023) << 52 | mantissa) - 1.0;
  }
};
template <>
struct UnitNumber<half> {
  static FORMWORK_ELEMENT half Of(const uint32_t* x) {
    half one_to_two;
    one_to_two.bits = static_cast<uint16_t>(15u << 10 | (x[0] & 0x3ffu));
    return Narrow<half>::Of(Widen(one_to_two) - 1.0f);
  }
};
template <>
struct UnitNumber<bfloat16> {
  static FORMWORK_ELEMENT bfloat16 Of(const uint32_t* x) {
    bfloat16 one_to_two;
    one_to_two.bits = static_cast<uint16_t>(127u << 7 | (x[0] & 0x7fu));
    return Narrow<bfloat16>::Of(Widen(one_to_two) - 1.0f);
  }
};

constexpr double kTwoPi = 2 * 3.14159265358979323846;

// Two normal numbers from two uniform ones (Box and Muller), rounded where TensorFlow rounds.
FORMWORK_ELEMENT void NormalPair(const uint32_t* x, float* pair) {
  const float unit = UnitNumber<float>::Of(x);
  const float angle = static_cast<float>(kTwoPi * UnitNumber<float>::Of(x + 1));
  const float length = sqrt(-2.0f * log(unit < 1.0e-7f ? 1.0e-7f : unit));
  pair[0] = sin(angle) * length;
  pair[1] = cos(angle) * length;
}
FORMWORK_ELEMENT void NormalPair(const uint32_t* x, double* pair) {
  const double unit = UnitNumber<double>::Of(x);
  const double angle = kTwoPi * UnitNumber<double>::Of(x + 2);
  const double length = sqrt(-2.0 * log(unit < 1.0e-7 ? 1.0e-7 : unit));
  pair[0] = sin(angle) * length;
  pair[1] = cos(angle) * length;
}

template <typename U>
FORMWORK_ELEMENT U BitsOf(const uint32_t* x) {
  if constexpr (sizeof(U) == 8) {
    return static_cast<U>(x[1]) << 32 | x[0];
  } else {
    return x[0];
  }
}

// --- Distributions ------------------------------------------------------------------------------

// The elements that a group makes: those of 8 bytes take two numbers each, the others one.
template <typename E>
constexpr int kGroupOf = sizeof(E) == 8 ? 2 : 4;

// Integers from `low` on, of `count` values.
struct RandomRange {
  uint64_t low, count;
};

// A distribution makes group `group` of a call whose numbers begin `at`; of the last group the
// first `wanted` elements are read.
struct UniformDraw {
  template <typename E>
  static FORMWORK_ELEMENT void Do(PhiloxAt at, uint64_t group, const RandomRange& /*range*/,
                                  int /*wanted*/, E* to) {
    at.Skip(group);
    const PhiloxGroup x = at.Group();
    for (int i = 0; i < kGroupOf<E>; ++i) to[i] = UnitNumber<E>::Of(x.of + i * (4 / kGroupOf<E>));
  }
};

struct NormalDraw {
  template <typename E>
  static FORMWORK_ELEMENT void Do(PhiloxAt at, uint64_t group, const RandomRange& /*range*/,
                                  int /*wanted*/, E* to) {
    typedef decltype(Widen(E())) C;
    at.Skip(group);
    const PhiloxGroup x = at.Group();
    for (int i = 0; i < kGroupOf<E>; i += 2) {
      C pair[2];
      NormalPair(x.of + i * (4 / kGroupOf<E>), pair);
      to[i] = Narrow<E>::Of(pair[0]);
      to[i + 1] = Narrow<E>::Of(pair[1]);
    }
  }
};

// Draws again until the value is within two standard deviations: a group has 256 groups of numbers
// for each four of its elements, so that none depends on how often another one drew.
struct TruncatedNormalDraw {
  template <typename E>
  static FORMWORK_ELEMENT void Do(PhiloxAt at, uint64_t group, const RandomRange& /*range*/,
                                  int wanted, E* to) {
    typedef decltype(Widen(E())) C;
    constexpr int kNumbersOfPair = sizeof(C) == 8 ? 4 : 2;
    at.Skip(group * (kGroupOf<E> * 256 / 4));
    for (int made = 0; made < wanted; at.Skip(1)) {
      const PhiloxGroup x = at.Group();
      for (int k = 0; k < 4; k += kNumbersOfPair) {
        C pair[2];
        NormalPair(x.of + k, pair);
        for (int i = 0; i < 2; ++i) {
          if (made < wanted && abs(pair[i]) < C(2)) to[made++] = Narrow<E>::Of(pair[i]);
        }
      }
    }
  }
};

struct FullIntDraw {
  template <typename E>
  static FORMWORK_ELEMENT void Do(PhiloxAt at, uint64_t group, const RandomRange& /*range*/,
                                  int /*wanted*/, E* to) {
    typedef typename UnsignedOf<E>::type U;
    at.Skip(group);
    const PhiloxGroup x = at.Group();
    for (int i = 0; i < kGroupOf<E>; ++i) {
      to[i] = static_cast<E>(BitsOf<U>(x.of + i * (4 / kGroupOf<E>)));
    }
  }
};

struct RangeDraw {
  template <typename E>
  static FORMWORK_ELEMENT void Do(PhiloxAt at, uint64_t group, const RandomRange& range,
                                  int /*wanted*/, E* to) {
    typedef typename UnsignedOf<E>::type U;
    at.Skip(group);
    const PhiloxGroup x = at.Group();
    const U low = static_cast<U>(range.low), count = static_cast<U>(range.count);
    for (int i = 0; i < kGroupOf<E>; ++i) {
      to[i] = static_cast<E>(low + BitsOf<U>(x.of + i * (4 / kGroupOf<E>)) % count);
    }
  }
};

// --- Items --------------------------------------------------------------------------------------

template <typename E>
struct alignas(sizeof(E) * kGroupOf<E>) ElementGroup {
  E of[kGroupOf<E>];
};

// An item is a group of the `n` elements of `to`.
template <typename E, typename Draw>
struct RandomItem {
  PhiloxSource source;
  RandomRange range;
  E* to;
  uint64_t n;

  FORMWORK_ELEMENT void operator()(uint64_t group) const {
    constexpr uint64_t kSize = kGroupOf<E>;
    const uint64_t left = n - group * kSize;
    const int wanted = static_cast<int>(left < kSize ? left : kSize);
    ElementGroup<E> made = {};
    Draw::Do(source.Get(), group, range, wanted, made.of);
    if (left >= kSize) {
      reinterpret_cast<ElementGroup<E>*>(to)[group] = made;
    } else {
      for (int i = 0; i < wanted; ++i) to[group * kSize + static_cast<uint64_t>(i)] = made.of[i];
    }
  }
};

// A generator in memory, counter and key, moves on. One item.
struct SkipItem {
  uint64_t* state;
  uint64_t* before;  // Where it is copied as it was, unless that is null.
  uint64_t groups;

  FORMWORK_ELEMENT void operator()(uint64_t /*i*/) const {
    PhiloxAt at{state[0], state[1], state[2]};
    if (before != nullptr) {
      before[0] = at.counter_lo;
      before[1] = at.counter_hi;
      before[2] = at.key;
    }
    at.Skip(groups);
    state[0] = at.counter_lo;
    state[1] = at.counter_hi;
  }
};

}  // namespace formwork_element
