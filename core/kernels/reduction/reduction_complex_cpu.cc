#include <cmath>
#include <complex>

#include "core/kernels/reduction/reduce_loops.h"

namespace formwork {
namespace {

using reduce_loops::kLoops;

template <typename R>
struct Sum {
  using Element = std::complex<R>;
  using Partial = std::complex<R>;
  using Total = std::complex<double>;
  static constexpr bool kByIsa = false;
  static Partial First() { return 0; }
  static Partial Step(Partial a, Element x) { return a + x; }
  static Partial Join(Partial a, Partial b) { return a + b; }
  static Total Begin() { return 0; }
  static Total Add(Total a, Partial b) { return a + Total(b); }
  static Total Merge(Total a, Total b) { return a + b; }
  static Element Finish(Total total, int64_t) { return Element(total); }
};

template <typename R>
struct Mean : Sum<R> {
  static std::complex<R> Finish(std::complex<double> total, int64_t count) {
    // Of nothing it is 0, unlike that of floats; as in TensorFlow.
    return count == 0 ? std::complex<R>() : std::complex<R>(total / static_cast<double>(count));
  }
};

template <typename R>
struct EuclideanNorm : Sum<R> {
  static std::complex<R> Step(std::complex<R> a, std::complex<R> x) { return a + std::norm(x); }
  static std::complex<R> Finish(std::complex<double> total, int64_t) {
    return std::complex<R>(static_cast<R>(std::sqrt(total.real())));
  }
};

template <typename R>
struct Prod {
  using Element = std::complex<R>;
  using Partial = std::complex<R>;
  using Total = std::complex<R>;
  static constexpr bool kByIsa = false;
  static Partial First() { return 1; }
  static Partial Step(Partial a, Partial b) { return a * b; }
  static Partial Join(Partial a, Partial b) { return a * b; }
  static Partial Begin() { return 1; }
  static Partial Add(Partial a, Partial b) { return a * b; }
  static Partial Merge(Partial a, Partial b) { return a * b; }
  static Partial Finish(Partial total, int64_t) { return total; }
};

template <typename R>
const ReductionLoops* OfType(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return &kLoops<Sum<R>>;
    case Reduction::kProd:
      return &kLoops<Prod<R>>;
    case Reduction::kMean:
      return &kLoops<Mean<R>>;
    case Reduction::kEuclideanNorm:
      return &kLoops<EuclideanNorm<R>>;
    default:
      return nullptr;
  }
}

}  // namespace

const ReductionLoops* FindComplexReduction(Reduction reduction, DType dtype) {
  if (dtype == DType::kComplex64) return OfType<float>(reduction);
  if (dtype == DType::kComplex128) return OfType<double>(reduction);
  return nullptr;
}

}  // namespace formwork
