#pragma once

// The discrete Fourier transform of several lines at once, side by side in vectors.

#include <algorithm>
#include <complex>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/base/stop_flag.h"

namespace formwork {

/// Of lines of `n` numbers of R, float or double. Each line's result is the same wherever it lies
/// among others. Thread-safe.
template <typename R>
class LinesTransform {
 public:
  /// Whether so many lines of n numbers are worth it: n has no prime factor but 2, 3 and 5, and
  /// they stay in the cache together.
  static bool Takes(int64_t n, int64_t lines);
  /// How many go side by side.
  static int64_t Lines();

  /// `inverse`: with the exponent's sign turned, and divided by n.
  LinesTransform(int64_t n, bool inverse);

  /// What a task works in.
  class Memory {
   public:
    explicit Memory(const LinesTransform& of);

   private:
    friend class LinesTransform;
    std::vector<R> buffer_;
    R* parts_;  // Aligned as vectors are.
  };

  /// At most Lines() lines, where they begin, and how far apart the elements of one are. `to` may
  /// be `from`.
  void Run(absl::Span<const std::complex<R>* const> from, int64_t from_step,
           absl::Span<std::complex<R>* const> to, int64_t to_step, Memory& memory) const;
  /// Lines of 2n real numbers to n + 1 complex ones. `roots`: UnitRoot(k, 2n) for k up to n.
  void RunReal(absl::Span<const R* const> from, absl::Span<std::complex<R>* const> to,
               absl::Span<const std::complex<R>> roots, Memory& memory) const;
  /// Back, where this is an inverse.
  void RunToReal(absl::Span<const std::complex<R>* const> from, absl::Span<R* const> to,
                 absl::Span<const std::complex<R>> roots, Memory& memory) const;

  int64_t length() const { return n_; }
  bool inverse() const { return inverse_; }

  /// One pass over all: sub-transforms of `radix` elements each. `twiddles`: of sub-transform p,
  /// the factors of its results 1 to radix - 1.
  struct Stage {
    int radix;
    int64_t count;   ///< Sub-transforms with different factors.
    int64_t stride;  ///< How many have the same.
    std::vector<std::complex<R>> twiddles;
  };
  const std::vector<Stage>& stages() const { return stages_; }

 private:
  const int64_t n_;
  const bool inverse_;
  std::vector<Stage> stages_;
};

/// `run(from, to, memory, first)` of all of `lines`, as many at a time as go side by side, from
/// line `first` on, split over the compute threads. `from_of(l)`, `to_of(l)`: where line l begins.
template <typename R, typename FromOf, typename ToOf, typename Run>
void ForLines(const LinesTransform<R>& transform, int64_t lines, FromOf from_of, ToOf to_of,
              Run run) {
  const int64_t together = LinesTransform<R>::Lines();
  const int64_t groups = (lines + together - 1) / together;
  const int64_t grain = std::max<int64_t>((1 << 14) / (transform.length() * together), 1);
  ParallelFor(groups, grain, [&](int64_t begin, int64_t end) {
    typename LinesTransform<R>::Memory memory(transform);
    std::vector<decltype(from_of(int64_t{0}))> from;
    std::vector<decltype(to_of(int64_t{0}))> to;
    for (int64_t g = begin; g < end && !WorkIsCut(); ++g) {
      from.clear();
      to.clear();
      for (int64_t l = g * together; l < std::min((g + 1) * together, lines); ++l) {
        from.push_back(from_of(l));
        to.push_back(to_of(l));
      }
      run(from, to, memory, g * together);
    }
  });
}

}  // namespace formwork
