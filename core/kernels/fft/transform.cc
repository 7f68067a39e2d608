// A line by itself: of small factors, up to some thousand elements, it is kissfft's, as Eigen has
// it. A longer one is cut into rows and columns of such, which go side by side if they can, and one
// with a large prime factor is a convolution of a power of two (Bluestein's algorithm), in double.

#include "core/kernels/fft/transform.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <complex>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/fft/lines.h"

namespace formwork {
namespace {

constexpr int64_t kLeaf = 4096;        // The longest line that is one call of kissfft.
constexpr int64_t kLargestPrime = 61;  // Its work for a prime factor is that times the length.

int64_t LargestPrimeFactor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) {
      largest = std::max(largest, p);
      n /= p;
    }
  }
  return std::max(largest, n);
}

// The divisor of n that is the nearest to its square root from below.
int64_t MiddleDivisor(int64_t n) {
  int64_t d = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % d != 0) --d;
  return d;
}

template <typename R>
std::complex<R> Times(std::complex<R> a, std::complex<R> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace

std::complex<double> UnitRoot(int64_t k, int64_t n) {
  // By octants, so that the argument is small and the quarters are exact.
  const int64_t eighth = 8 * k / n;
  const double step = 2 * M_PI / static_cast<double>(n);
  const int64_t quarter = (eighth + 1) / 2;
  const double angle = step * (static_cast<double>(4 * k - quarter * n) / 4);
  const double c = std::cos(angle), s = std::sin(angle);
  switch (quarter % 4) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

template <typename R>
struct FourierTransform<R>::Plan {
  using C = std::complex<R>;
  int64_t n;
  bool inverse;
  double factor = 1;  // Of the result.

  // A leaf.
  Eigen::internal::kiss_cpx_fft<R> kiss;

  // Rows and columns: columns of length n1, rows of length n2, what is between in roots.
  int64_t n1 = 0, n2 = 0;
  std::vector<std::complex<double>> coarse, fine;  // Root k is coarse[k / kFine] fine[k % kFine].
  static constexpr int64_t kFine = 4096;

  // A convolution.
  int64_t padded = 0;
  std::vector<std::complex<double>> chirp, filter;

  Plan(int64_t length, bool inverse) : n(length), inverse(inverse) {
    if (LargestPrimeFactor(n) > kLargestPrime) {
      MakeConvolution();
    } else if (n > kLeaf) {
      n1 = MiddleDivisor(n);
      n2 = n / n1;
      for (int64_t k = 0; k < n; k += kFine) coarse.push_back(Root(k));
      for (int64_t k = 0; k < kFine; ++k) fine.push_back(Root(k));
    } else {
      kiss.make_twiddles(static_cast<int>(n), inverse);
      kiss.factorize(static_cast<int>(n));
    }
  }

  std::complex<double> Root(int64_t k) const {
    const std::complex<double> root = UnitRoot(k % n, n);
    return inverse ? std::conj(root) : root;
  }

  void MakeConvolution() {
    padded = 1;
    while (padded < 2 * n - 1) padded *= 2;
    chirp.resize(static_cast<size_t>(n));
    std::vector<std::complex<double>> kernel(static_cast<size_t>(padded));
    int64_t square = 0;  // Of k, modulo 2n.
    for (int64_t k = 0; k < n; ++k) {
      if (WorkIsCutAt(k)) return;
      const std::complex<double> root = UnitRoot(square, 2 * n);
      chirp[k] = inverse ? std::conj(root) : root;
      kernel[k] = std::conj(chirp[k]);
      if (k > 0) kernel[padded - k] = kernel[k];
      square = (square + 2 * k + 1) % (2 * n);
    }
    filter.resize(static_cast<size_t>(padded));
    FourierTransform<double>(padded, false).Run(kernel.data(), filter.data());
  }

  void RunConvolution(const C* in, C* out) const {
    std::vector<std::complex<double>> a(static_cast<size_t>(padded)),
        b(static_cast<size_t>(padded));
    for (int64_t k = 0; k < n; ++k) a[k] = Times(std::complex<double>(in[k]), chirp[k]);
    FourierTransform<double>(padded, false).Run(a.data(), b.data());
    if (WorkIsCut()) return;
    for (int64_t k = 0; k < padded; ++k) b[k] = Times(b[k], filter[k]);
    FourierTransform<double>(padded, true).Run(b.data(), a.data());
    if (WorkIsCut()) return;
    const double scale = inverse ? 1 / static_cast<double>(n) : 1;
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<C>(Times(a[k], chirp[k]) * scale);
  }

  // Element j * n1 + i is column j's i-th one, which goes with the root of both.
  C Turned(C x, int64_t j, int64_t i) const {
    const int64_t k = j * i;
    return Times(x, static_cast<C>(Times(coarse[k / kFine], fine[k % kFine])));
  }

  // The same as below, of lengths that go side by side.
  void RunRowsAndColumnsSideBySide(const C* in, C* out) const {
    const std::unique_ptr<C[]> middle(new C[static_cast<size_t>(n)]);
    const LinesTransform<R> column(n1, inverse), row(n2, inverse);
    C* const between = middle.get();
    ForLines(
        column, n2, [=](int64_t j) { return in + j; }, [=](int64_t j) { return between + j; },
        [&](auto& from, auto& to, auto& memory, int64_t first) {
          column.Run(from, n2, to, n2, memory);
          const int64_t end = first + static_cast<int64_t>(to.size());
          for (int64_t i = 0; i < n1; ++i) {
            for (int64_t j = first; j < end; ++j) {
              between[i * n2 + j] = Turned(between[i * n2 + j], j, i);
            }
          }
        });
    ForLines(
        row, n1,
        [between, width = n2](int64_t i) { return static_cast<const C*>(between + i * width); },
        [=](int64_t i) { return out + i; },
        [&](auto& from, auto& to, auto& memory, int64_t /*first*/) {
          row.Run(from, 1, to, n1, memory);
        });
  }

  void RunRowsAndColumns(const C* in, C* out) const {
    if (LinesTransform<R>::Takes(n1, n2) && LinesTransform<R>::Takes(n2, n1)) {
      return RunRowsAndColumnsSideBySide(in, out);
    }
    constexpr int64_t kColumns = 16;  // That are read together, for the sake of the cache.
    const std::unique_ptr<C[]> middle(new C[static_cast<size_t>(n)]);
    const int64_t grain = std::max<int64_t>((1 << 14) / (n1 * kColumns), 1);
    ParallelFor((n2 + kColumns - 1) / kColumns, grain, [&](int64_t begin, int64_t end) {
      FourierTransform<R> column(n1, inverse);
      std::vector<C> from(static_cast<size_t>(n1 * kColumns)), to(static_cast<size_t>(n1));
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kColumns, count = std::min(kColumns, n2 - first);
        for (int64_t i = 0; i < n1; ++i) {
          for (int64_t j = 0; j < count; ++j) from[j * n1 + i] = in[i * n2 + first + j];
        }
        for (int64_t j = 0; j < count; ++j) {
          column.Run(from.data() + j * n1, to.data());
          for (int64_t i = 0; i < n1; ++i) {
            from[j * n1 + i] = Turned(to[i], first + j, i);
          }
        }
        for (int64_t i = 0; i < n1; ++i) {
          for (int64_t j = 0; j < count; ++j) middle[i * n2 + first + j] = from[j * n1 + i];
        }
      }
    });
    ParallelFor((n1 + kColumns - 1) / kColumns, std::max<int64_t>((1 << 14) / (n2 * kColumns), 1),
                [&](int64_t begin, int64_t end) {
                  FourierTransform<R> row(n2, inverse);
                  std::vector<C> to(static_cast<size_t>(n2 * kColumns));
                  for (int64_t block = begin; block < end; ++block) {
                    const int64_t first = block * kColumns, count = std::min(kColumns, n1 - first);
                    for (int64_t i = 0; i < count; ++i) {
                      row.Run(middle.get() + (first + i) * n2, to.data() + i * n2);
                    }
                    for (int64_t j = 0; j < n2; ++j) {
                      for (int64_t i = 0; i < count; ++i) out[j * n1 + first + i] = to[i * n2 + j];
                    }
                  }
                });
  }

  void Run(const C* in, C* out) {
    if (padded > 0) return RunConvolution(in, out);
    if (n1 > 0) return RunRowsAndColumns(in, out);
    if (n == 1) {
      out[0] = in[0];
      return;
    }
    kiss.work(0, out, in, 1, 1);
    if (!inverse) return;
    const R scale = R(1) / static_cast<R>(n);
    for (int64_t k = 0; k < n; ++k) out[k] *= scale;
  }
};

template <typename R>
FourierTransform<R>::FourierTransform(int64_t n, bool inverse)
    : plan_(std::make_unique<Plan>(n, inverse)) {}

template <typename R>
FourierTransform<R>::~FourierTransform() = default;

template <typename R>
void FourierTransform<R>::Run(const std::complex<R>* in, std::complex<R>* out) {
  plan_->Run(in, out);
}

template class FourierTransform<float>;
template class FourierTransform<double>;

}  // namespace formwork
