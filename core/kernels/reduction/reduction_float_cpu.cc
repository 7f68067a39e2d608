#include <cmath>
#include <limits>

#include "core/kernels/reduction/reduce_loops.h"

namespace formwork {
namespace {

using reduce_loops::kLoops;

// half and bfloat16 compute through float; sums of floats end in double.
template <typename T>
struct Wider {
  using type = float;
};
template <>
struct Wider<double> {
  using type = double;
};

template <typename T>
struct FloatOp {
  using Element = T;
  using Partial = typename Wider<T>::type;
  using Total = double;
  static constexpr bool kByIsa = std::is_same_v<T, float>;
  FORMWORK_ISA_INLINE static Partial Value(T x) { return static_cast<Partial>(x); }
  static T Rounded(double total) { return static_cast<T>(static_cast<Partial>(total)); }
};

template <typename T>
struct Sum : FloatOp<T> {
  using Partial = typename FloatOp<T>::Partial;
  FORMWORK_ISA_INLINE static Partial First() { return 0; }
  FORMWORK_ISA_INLINE static Partial Step(Partial sum, T x) { return sum + FloatOp<T>::Value(x); }
  FORMWORK_ISA_INLINE static Partial Join(Partial a, Partial b) { return a + b; }
  FORMWORK_ISA_INLINE static double Begin() { return 0; }
  FORMWORK_ISA_INLINE static double Add(double total, Partial sum) { return total + sum; }
  static double Merge(double a, double b) { return a + b; }
  static T Finish(double total, int64_t) { return FloatOp<T>::Rounded(total); }
};

template <typename T>
struct Mean : Sum<T> {
  static T Finish(double total, int64_t count) {
    return FloatOp<T>::Rounded(total / static_cast<double>(count));
  }
};

template <typename T>
struct EuclideanNorm : Sum<T> {
  using Partial = typename FloatOp<T>::Partial;
  FORMWORK_ISA_INLINE static Partial Step(Partial sum, T x) {
    return sum + FloatOp<T>::Value(x) * FloatOp<T>::Value(x);
  }
  static T Finish(double total, int64_t) { return FloatOp<T>::Rounded(std::sqrt(total)); }
};

template <typename T>
struct L2Loss : EuclideanNorm<T> {
  static T Finish(double total, int64_t) { return FloatOp<T>::Rounded(total / 2); }
};

template <typename T>
struct Prod : FloatOp<T> {
  using Partial = typename FloatOp<T>::Partial;
  using Total = Partial;  // A product that overflows on the way stays infinite.
  FORMWORK_ISA_INLINE static Partial First() { return 1; }
  FORMWORK_ISA_INLINE static Partial Step(Partial product, T x) {
    return product * FloatOp<T>::Value(x);
  }
  FORMWORK_ISA_INLINE static Partial Join(Partial a, Partial b) { return a * b; }
  FORMWORK_ISA_INLINE static Partial Begin() { return 1; }
  FORMWORK_ISA_INLINE static Partial Add(Partial a, Partial b) { return a * b; }
  static Partial Merge(Partial a, Partial b) { return a * b; }
  static T Finish(Partial total, int64_t) { return static_cast<T>(total); }
};

// NaN wins, as in TensorFlow.
template <typename T, bool kMax>
struct Extreme : FloatOp<T> {
  using Partial = typename FloatOp<T>::Partial;
  using Total = Partial;
  FORMWORK_ISA_INLINE static Partial First() {
    return kMax ? -std::numeric_limits<Partial>::infinity()
                : std::numeric_limits<Partial>::infinity();
  }
  FORMWORK_ISA_INLINE static Partial Join(Partial a, Partial b) {
    const bool take = (kMax ? b > a : b < a) | (b != b);
    return take ? b : a;
  }
  FORMWORK_ISA_INLINE static Partial Step(Partial a, T x) { return Join(a, FloatOp<T>::Value(x)); }
  FORMWORK_ISA_INLINE static Partial Begin() { return First(); }
  FORMWORK_ISA_INLINE static Partial Add(Partial a, Partial b) { return Join(a, b); }
  static Partial Merge(Partial a, Partial b) { return Join(a, b); }
  static T Finish(Partial total, int64_t) { return static_cast<T>(total); }
};

template <typename T>
const ReductionLoops* OfType(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return &kLoops<Sum<T>>;
    case Reduction::kMean:
      return &kLoops<Mean<T>>;
    case Reduction::kProd:
      return &kLoops<Prod<T>>;
    case Reduction::kMax:
      return &kLoops<Extreme<T, true>>;
    case Reduction::kMin:
      return &kLoops<Extreme<T, false>>;
    case Reduction::kEuclideanNorm:
      return &kLoops<EuclideanNorm<T>>;
    case Reduction::kL2Loss:
      return &kLoops<L2Loss<T>>;
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
