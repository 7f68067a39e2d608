#include <cmath>
#include <limits>
#include <type_traits>

#include "core/kernels/reduction/reduce_loops.h"

namespace formwork {
namespace {

using reduce_loops::kLoops;

// Sums and products wrap around: they are taken in an unsigned type, which may, and are the same
// bits whether elements have a sign.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T, bool kProduct>
struct Fold {
  using Element = T;
  using Partial = Wrapping<T>;
  using Total = Partial;
  static constexpr bool kByIsa = false;
  static Partial First() { return kProduct ? 1 : 0; }
  static Partial Join(Partial a, Partial b) { return kProduct ? a * b : a + b; }
  static Partial Step(Partial a, T x) { return Join(a, static_cast<Partial>(x)); }
  static Partial Begin() { return First(); }
  static Partial Add(Partial a, Partial b) { return Join(a, b); }
  static Partial Merge(Partial a, Partial b) { return Join(a, b); }
  static T Finish(Partial total, int64_t) { return static_cast<T>(total); }
};

// In 64 bits, so that bytes do not overflow; the division truncates.
template <typename T>
struct Mean : Fold<uint64_t, false> {
  using Element = T;
  static uint64_t Step(uint64_t a, T x) { return a + static_cast<uint64_t>(x); }
  static T Finish(uint64_t total, int64_t count) {
    if (count == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(static_cast<int64_t>(total) / count);
    } else {
      return static_cast<T>(total / static_cast<uint64_t>(count));
    }
  }
};

template <typename T>
struct EuclideanNorm : Fold<T, false> {
  using Partial = Wrapping<T>;
  static Partial Step(Partial a, T x) {
    return a + static_cast<Partial>(x) * static_cast<Partial>(x);
  }
  static T Finish(Partial total, int64_t) {
    // The sum of squares in T, then its root.
    const double root = std::sqrt(static_cast<double>(static_cast<T>(total)));
    return std::isnan(root) ? T(0) : static_cast<T>(root);
  }
};

template <typename T, bool kMax>
struct Extreme {
  using Element = T;
  using Partial = T;
  using Total = T;
  static constexpr bool kByIsa = false;
  static T First() {
    return kMax ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  }
  static T Step(T a, T b) { return (kMax ? b > a : b < a) ? b : a; }
  static T Join(T a, T b) { return Step(a, b); }
  static T Begin() { return First(); }
  static T Add(T a, T b) { return Step(a, b); }
  static T Merge(T a, T b) { return Step(a, b); }
  static T Finish(T total, int64_t) { return total; }
};

// Bytes may hold more than 0 and 1 only where a client sent them so.
template <bool kAll>
struct Logical {
  using Element = bool;
  using Partial = uint8_t;
  using Total = uint8_t;
  static constexpr bool kByIsa = false;
  static uint8_t First() { return kAll ? 1 : 0; }
  static uint8_t Join(uint8_t a, uint8_t b) { return kAll ? a & b : a | b; }
  static uint8_t Step(uint8_t a, bool x) { return Join(a, x ? 1 : 0); }
  static uint8_t Begin() { return First(); }
  static uint8_t Add(uint8_t a, uint8_t b) { return Join(a, b); }
  static uint8_t Merge(uint8_t a, uint8_t b) { return Join(a, b); }
  static bool Finish(uint8_t total, int64_t) { return total != 0; }
};

template <typename T>
const ReductionLoops* OfType(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return &kLoops<Fold<std::make_unsigned_t<T>, false>>;
    case Reduction::kProd:
      return &kLoops<Fold<std::make_unsigned_t<T>, true>>;
    case Reduction::kMean:
      return &kLoops<Mean<T>>;
    case Reduction::kMax:
      return &kLoops<Extreme<T, true>>;
    case Reduction::kMin:
      return &kLoops<Extreme<T, false>>;
    case Reduction::kEuclideanNorm:
      return &kLoops<EuclideanNorm<T>>;
    default:
      return nullptr;
  }
}

}  // namespace

const ReductionLoops* FindIntegerReduction(Reduction reduction, DType dtype) {
  if (dtype == DType::kBool) {
    if (reduction == Reduction::kAll) return &kLoops<Logical<true>>;
    if (reduction == Reduction::kAny) return &kLoops<Logical<false>>;
  }
  switch (dtype) {
    FORMWORK_INTEGER_CASES(return OfType<T>(reduction))
    default:
      return nullptr;
  }
}

}  // namespace formwork
