#pragma once

// The discrete Fourier transform of one line of complex numbers, of any length.

#include <complex>
#include <cstdint>
#include <memory>

namespace formwork {

/// Of `n` numbers of R, float or double. A plan is used by one thread at a time.
template <typename R>
class FourierTransform {
 public:
  /// n >= 1. `inverse`: with the exponent's sign turned, and divided by n.
  FourierTransform(int64_t n, bool inverse);
  ~FourierTransform();

  /// `in` and `out` do not overlap. Long lines are split over threads and can be stopped; `out` is
  /// then unfinished.
  void Run(const std::complex<R>* in, std::complex<R>* out);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

/// e^(-2 pi i k / n), 0 <= k < n.
std::complex<double> UnitRoot(int64_t k, int64_t n);

}  // namespace formwork
