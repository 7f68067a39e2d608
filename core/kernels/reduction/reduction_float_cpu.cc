#include <cmath>
#include <limits>
#include <type_traits>

#include "core/kernels/reduction/reduce_loops.h"

namespace formwork {
namespace {

using reduce_loops::kLoops;

// Sums of floats end in double.
template <typename T>
struct FloatOp {
  using Element = T;
  using Partial = T;
  using Total = double;
  static constexpr bool kByIsa = std::is_same_v<T, float>;
};

template <typename T>
struct Sum : FloatOp<T> {
  FORMWORK_ISA_INLINE static T First() { return 0; }
  FORMWORK_ISA_INLINE static T Step(T sum, T x) { return sum + x; }
  FORMWORK_ISA_INLINE static T Join(T a, T b) { return a + b; }
  FORMWORK_ISA_INLINE static double Begin() { return 0; }
  FORMWORK_ISA_INLINE static double Add(double total, T sum) { return total + sum; }
  static double Merge(double a, double b) { return a + b; }
  static T Finish(double total, int64_t) { return static_cast<T>(total); }
};

template <typename T>
struct Mean : Sum<T> {
  static T Finish(double total, int64_t count) {
    return static_cast<T>(total / static_cast<double>(count));
  }
};

template <typename T>
struct EuclideanNorm : Sum<T> {
  FORMWORK_ISA_INLINE static T Step(T sum, T x) { return sum + x * x; }
  static T Finish(double total, int64_t) { return static_cast<T>(std::sqrt(total)); }
};

template <typename T>
struct L2Loss : EuclideanNorm<T> {
  static T Finish(double total, int64_t) { return static_cast<T>(total / 2); }
};

template <typename T>
struct Prod : FloatOp<T> {
  using Total = T;  // A product that overflows on the way stays infinite.
  FORMWORK_ISA_INLINE static T First() { return 1; }
  FORMWORK_ISA_INLINE static T Step(T product, T x) { return product * x; }
  FORMWORK_ISA_INLINE static T Join(T a, T b) { return a * b; }
  FORMWORK_ISA_INLINE static T Begin() { return 1; }
  FORMWORK_ISA_INLINE static T Add(T a, T b) { return a * b; }
  static T Merge(T a, T b) { return a * b; }
  static T Finish(T total, int64_t) { return total; }
};

// NaN wins, as in TensorFlow.
template <typename T, bool kMax>
struct Extreme : FloatOp<T> {
  using Total = T;
  static constexpr bool kByIsa = true;
  FORMWORK_ISA_INLINE static T First() {
    return kMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  }
  FORMWORK_ISA_INLINE static T Join(T a, T b) {
    const bool take = (kMax ? b > a : b < a) | (b != b);
    return take ? b : a;
  }
  FORMWORK_ISA_INLINE static T Step(T a, T x) { return Join(a, x); }
  template <typename V>
  FORMWORK_ISA_INLINE static void StepVectors(V& a, const V& x) {
    a = ((kMax ? x > a : x < a) | (x != x)) ? x : a;
  }
  FORMWORK_ISA_INLINE static T Begin() { return First(); }
  FORMWORK_ISA_INLINE static T Add(T a, T b) { return Join(a, b); }
  static T Merge(T a, T b) { return Join(a, b); }
  static T Finish(T total, int64_t) { return total; }
};

template <typename T, typename Op>
using Of =
    std::conditional_t<std::is_same_v<T, typename Op::Element>, Op, reduce_loops::Widened<Op, T>>;

template <typename T>
const ReductionLoops* OfType(Reduction reduction) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  switch (reduction) {
    case Reduction::kSum:
      return &kLoops<Of<T, Sum<Wide>>>;
    case Reduction::kMean:
      return &kLoops<Of<T, Mean<Wide>>>;
    case Reduction::kProd:
      return &kLoops<Of<T, Prod<Wide>>>;
    case Reduction::kMax:
      return &kLoops<Of<T, Extreme<Wide, true>>>;
    case Reduction::kMin:
      return &kLoops<Of<T, Extreme<Wide, false>>>;
    case Reduction::kEuclideanNorm:
      return &kLoops<Of<T, EuclideanNorm<Wide>>>;
    case Reduction::kL2Loss:
      return &kLoops<Of<T, L2Loss<Wide>>>;
    default:
      return nullptr;
  }
}

}  // namespace

const ReductionLoops* FindFloatReduction(Reduction reduction, DType dtype) {
  switch (dtype) {
    FORMWORK_FLOAT_CASES(return OfType<T>(reduction))
    default:
      return nullptr;
  }
}

}  // namespace formwork
