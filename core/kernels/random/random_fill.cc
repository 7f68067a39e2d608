#include "core/kernels/random/random_fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/random/unit_numbers.h"

namespace formwork {
namespace {

// --- Numbers from bits --------------------------------------------------------------------------

inline bfloat16 UnitBfloat16(uint32_t x) {
  bfloat16 one_to_two;
  one_to_two.bits = static_cast<uint16_t>((127u << 7) | (x & 0x7fu));
  return bfloat16(static_cast<float>(one_to_two) - 1.0f);
}

// --- Filling ------------------------------------------------------------------------------------

// Types of 8 bytes take two numbers each, the others one.
template <typename T>
constexpr int kOutputsPerGroup = sizeof(T) == 8 ? 2 : 4;

// Calls convert(numbers, groups, out) for runs of groups, side by side.
template <typename T, typename Convert>
void FillGroups(const Philox& philox, Tensor& tensor, int64_t grain, Convert convert) {
  constexpr int kPer = kOutputsPerGroup<T>;
  constexpr int64_t kRun = 64;
  T* out = tensor.mutable_data<T>();
  const int64_t n = tensor.num_elements();
  const int64_t groups = (n + kPer - 1) / kPer;
  const auto fill = [&](int64_t begin, int64_t end) {
    uint32_t numbers[4 * kRun];
    for (int64_t group = begin; group < end; group += kRun) {
      const int64_t run = std::min(kRun, end - group);
      Philox at = philox;
      at.Skip(static_cast<uint64_t>(group));
      at.Generate(run, numbers);
      const int64_t left = n - group * kPer;
      if (left >= run * kPer) {
        convert(numbers, run, out + group * kPer);
      } else {
        T last[kRun * kPer];
        convert(numbers, run, last);
        std::copy_n(last, left, out + group * kPer);
      }
    }
  };
  if (groups <= grain) {
    fill(0, groups);
  } else {
    ParallelFor(groups, grain, fill);
  }
}

template <typename T>
void FillUniform(const Philox& philox, Tensor& out) {
  FillGroups<T>(philox, out, 1 << 12, [](const uint32_t* x, int64_t groups, T* to) {
    for (int64_t i = 0; i < groups * kOutputsPerGroup<T>; ++i) {
      if constexpr (std::is_same_v<T, double>) {
        to[i] = UnitDouble(x[2 * i], x[2 * i + 1]);
      } else if constexpr (std::is_same_v<T, float>) {
        to[i] = UnitFloat(x[i]);
      } else if constexpr (std::is_same_v<T, half>) {
        to[i] = UnitHalf(x[i]);
      } else {
        to[i] = UnitBfloat16(x[i]);
      }
    }
  });
}

template <typename T>
void FillNormal(const Philox& philox, Tensor& out) {
  FillGroups<T>(philox, out, 1 << 9, [](const uint32_t* x, int64_t groups, T* to) {
    for (int64_t i = 0; i < groups * kOutputsPerGroup<T>; i += 2) {
      if constexpr (std::is_same_v<T, double>) {
        NormalPair(x[2 * i], x[2 * i + 1], x[2 * i + 2], x[2 * i + 3], to + i);
      } else {
        float pair[2];
        NormalPair(x[i], x[i + 1], pair);
        to[i] = T(pair[0]);
        to[i + 1] = T(pair[1]);
      }
    }
  });
}

// Draws again until the value is within two standard deviations; each output group has numbers of
// its own, so that none depends on how often another drew.
template <typename T>
void FillTruncatedNormal(const Philox& philox, Tensor& tensor) {
  constexpr int kPer = kOutputsPerGroup<T>;
  using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
  T* out = tensor.mutable_data<T>();
  const int64_t n = tensor.num_elements();
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      Philox at = philox;
      at.Skip(static_cast<uint64_t>(group) * (kPer * kReservedGroups / 4));
      PhiloxSequence sequence(at);
      const int64_t stop = std::min<int64_t>(n, (group + 1) * kPer);
      for (int64_t i = group * kPer; i < stop;) {
        Compute pair[2];
        if constexpr (std::is_same_v<T, double>) {
          const uint32_t x0 = sequence.Next();
          const uint32_t x1 = sequence.Next();
          const uint32_t x2 = sequence.Next();
          const uint32_t x3 = sequence.Next();
          NormalPair(x0, x1, x2, x3, pair);
        } else {
          const uint32_t x0 = sequence.Next();
          const uint32_t x1 = sequence.Next();
          NormalPair(x0, x1, pair);
        }
        for (Compute value : pair) {
          if (i < stop && std::abs(value) < Compute{2}) out[i++] = T(value);
        }
      }
    }
  };
  const int64_t groups = (n + kPer - 1) / kPer;
  if (groups <= 1 << 8) {
    fill(0, groups);
  } else {
    ParallelFor(groups, 1 << 8, fill);
  }
}

template <typename U>
inline U BitsOf(const uint32_t* x, int64_t i) {
  if constexpr (sizeof(U) == 8) {
    return x[2 * i] | (static_cast<uint64_t>(x[2 * i + 1]) << 32);
  } else {
    return x[i];
  }
}

template <typename T>
void FillFullInt(const Philox& philox, Tensor& out) {
  FillGroups<T>(philox, out, 1 << 12, [](const uint32_t* x, int64_t groups, T* to) {
    for (int64_t i = 0; i < groups * kOutputsPerGroup<T>; ++i) {
      to[i] = static_cast<T>(BitsOf<std::make_unsigned_t<T>>(x, i));
    }
  });
}

template <typename T>
absl::Status FillRange(const Philox& philox, T low, T high, Tensor& out) {
  if (low >= high) {
    return InvalidArgument("Need minval < maxval, got ", low, " >= ", high);
  }
  using U = std::make_unsigned_t<T>;
  const U range = static_cast<U>(math::Sub(high, low));
  FillGroups<T>(philox, out, 1 << 10, [=](const uint32_t* x, int64_t groups, T* to) {
    for (int64_t i = 0; i < groups * kOutputsPerGroup<T>; ++i) {
      to[i] = math::Add(low, static_cast<T>(BitsOf<U>(x, i) % range));
    }
  });
  return absl::OkStatus();
}

}  // namespace

RandomFillFn RandomFillFor(Distribution distribution, DType dtype) {
  switch (distribution) {
    case Distribution::kUniform:
      switch (dtype) {
        FORMWORK_FLOAT_CASES(return &FillUniform<T>)
        default:
          return nullptr;
      }
    case Distribution::kNormal:
      switch (dtype) {
        FORMWORK_FLOAT_CASES(return &FillNormal<T>)
        default:
          return nullptr;
      }
    case Distribution::kTruncatedNormal:
      switch (dtype) {
        FORMWORK_FLOAT_CASES(return &FillTruncatedNormal<T>)
        default:
          return nullptr;
      }
    case Distribution::kFullInt:
      switch (dtype) {
        FORMWORK_CASE(int32_t, return &FillFullInt<T>)
        FORMWORK_CASE(int64_t, return &FillFullInt<T>)
        FORMWORK_CASE(uint32_t, return &FillFullInt<T>)
        FORMWORK_CASE(uint64_t, return &FillFullInt<T>)
        default:
          return nullptr;
      }
  }
  return nullptr;
}

absl::Status FillUniformInt(const Philox& philox, const Tensor& minval, const Tensor& maxval,
                            Tensor& out) {
  switch (out.dtype()) {
    FORMWORK_CASE(int32_t, return FillRange(philox, minval.scalar<T>(), maxval.scalar<T>(), out))
    FORMWORK_CASE(int64_t, return FillRange(philox, minval.scalar<T>(), maxval.scalar<T>(), out))
    FORMWORK_CASE(uint32_t, return FillRange(philox, minval.scalar<T>(), maxval.scalar<T>(), out))
    FORMWORK_CASE(uint64_t, return FillRange(philox, minval.scalar<T>(), maxval.scalar<T>(), out))
    default:
      return Unimplemented("random integers: dtype ", DTypeName(out.dtype()), " is not supported");
  }
}

}  // namespace formwork
