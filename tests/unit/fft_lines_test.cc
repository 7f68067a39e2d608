// Lines that are transformed side by side, against sums of products.

#include "core/kernels/fft/lines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/kernels/fft/transform.h"

namespace formwork {
namespace {

template <typename R>
class LinesTransformTest : public ::testing::Test {
 protected:
  using C = std::complex<R>;
  using Line = std::vector<std::complex<double>>;

  static constexpr double kTolerance = sizeof(R) == 4 ? 2e-6 : 1e-14;

  R Any() { return static_cast<R>(uniform_(random_)); }
  // By the definition.
  static Line Transform(const Line& line, bool inverse) {
    const auto n = static_cast<int64_t>(line.size());
    Line made(line.size()), roots(line.size());
    for (int64_t k = 0; k < n; ++k) {
      const std::complex<double> root = UnitRoot(k, n);
      roots[k] = inverse ? std::conj(root) / static_cast<double>(n) : root;
    }
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t i = 0; i < n; ++i) made[k] += line[i] * roots[k * i % n];
    }
    return made;
  }
  // As far as rounding goes with the number of terms.
  static void ExpectNear(std::complex<double> made, std::complex<double> wanted, int64_t n) {
    EXPECT_LT(std::abs(made - wanted), kTolerance * std::sqrt(static_cast<double>(n)) * 4);
  }

  std::mt19937 random_{2};
  std::uniform_real_distribution<double> uniform_{-1, 1};
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinesTransformTest, Types);

constexpr int64_t kLengths[] = {2, 3, 4, 5, 6, 8, 9, 12, 15, 16, 20, 25, 30, 32, 60, 64, 75, 128};

TYPED_TEST(LinesTransformTest, LengthsOfSmallFactorsThatStayInTheCacheAreTaken) {
  using Lines = LinesTransform<TypeParam>;
  for (const int64_t n : kLengths) EXPECT_TRUE(Lines::Takes(n, 8)) << n;
  for (const int64_t n : {0, 1, 7, 14, 22, 1 << 20}) EXPECT_FALSE(Lines::Takes(n, 8)) << n;
  EXPECT_FALSE(Lines::Takes(64, 1));
}

// As many lines as vectors hold, and fewer; wherever their elements lie.
TYPED_TEST(LinesTransformTest, GiveTheDefinition) {
  using C = typename TestFixture::C;
  using Lines = LinesTransform<TypeParam>;
  for (const int64_t n : kLengths) {
    for (const bool inverse : {false, true}) {
      const Lines transform(n, inverse);
      typename Lines::Memory memory(transform);
      for (const int64_t count :
           {int64_t{1}, int64_t{3}, int64_t{4}, Lines::Lines() - 1, Lines::Lines()}) {
        for (const bool columns : {false, true}) {
          SCOPED_TRACE(absl::StrCat(n, inverse ? " inverse, " : ", ", count,
                                    columns ? " columns" : " rows"));
          const int64_t step = columns ? count + 1 : 1, apart = columns ? 1 : n + 1;
          std::vector<C> from(static_cast<size_t>((n + 1) * (count + 1)), C(7, 7)), to = from;
          std::vector<const C*> begins;
          std::vector<C*> results;
          std::vector<typename TestFixture::Line> wanted;
          for (int64_t l = 0; l < count; ++l) {
            typename TestFixture::Line line;
            for (int64_t i = 0; i < n; ++i) {
              const C x(this->Any(), this->Any());
              from[l * apart + i * step] = x;
              line.push_back(std::complex<double>(x.real(), x.imag()));
            }
            wanted.push_back(this->Transform(line, inverse));
            begins.push_back(from.data() + l * apart);
            results.push_back(to.data() + l * apart);
          }
          transform.Run(begins, step, results, step, memory);
          for (int64_t l = 0; l < count; ++l) {
            for (int64_t k = 0; k < n; ++k) {
              C& made = to[l * apart + k * step];
              this->ExpectNear(std::complex<double>(made.real(), made.imag()), wanted[l][k], n);
              made = C(7, 7);
            }
          }
          for (const C& other : to) EXPECT_EQ(other, C(7, 7));
          // In place, and with other steps there than here.
          std::vector<C*> own;
          for (int64_t l = 0; l < count; ++l) own.push_back(from.data() + l * apart);
          std::vector<C> packed(static_cast<size_t>(n * count));
          std::vector<C*> packed_lines;
          for (int64_t l = 0; l < count; ++l) packed_lines.push_back(packed.data() + l * n);
          transform.Run(begins, step, packed_lines, 1, memory);
          transform.Run(begins, step, own, step, memory);
          for (int64_t l = 0; l < count; ++l) {
            for (int64_t k = 0; k < n; ++k) {
              EXPECT_EQ(packed[l * n + k], from[l * apart + k * step]);
              const C made = packed[l * n + k];
              this->ExpectNear(std::complex<double>(made.real(), made.imag()), wanted[l][k], n);
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(LinesTransformTest, RealLinesGiveHalfOfTheDefinition) {
  using R = TypeParam;
  using C = typename TestFixture::C;
  using Lines = LinesTransform<R>;
  for (const int64_t half : kLengths) {
    const int64_t n = 2 * half;
    std::vector<C> roots;
    for (int64_t k = 0; k <= half; ++k) roots.push_back(static_cast<C>(UnitRoot(k, n)));
    const Lines forward(half, false), back(half, true);
    typename Lines::Memory memory(forward);
    for (const int64_t count : {int64_t{2}, Lines::Lines() - 1, Lines::Lines()}) {
      SCOPED_TRACE(absl::StrCat(n, ", ", count));
      std::vector<R> real(static_cast<size_t>(n * count)), again(real);
      std::vector<C> halves(static_cast<size_t>((half + 1) * count));
      std::vector<const R*> from;
      std::vector<C*> middle;
      std::vector<const C*> of_middle;
      std::vector<R*> to;
      for (R& x : real) x = this->Any();
      for (int64_t l = 0; l < count; ++l) {
        from.push_back(real.data() + l * n);
        middle.push_back(halves.data() + l * (half + 1));
        of_middle.push_back(middle.back());
        to.push_back(again.data() + l * n);
      }
      forward.RunReal(from, middle, roots, memory);
      for (int64_t l = 0; l < count; ++l) {
        typename TestFixture::Line line(from[l], from[l] + n);
        line = this->Transform(line, false);
        for (int64_t k = 0; k <= half; ++k) {
          this->ExpectNear(std::complex<double>(middle[l][k].real(), middle[l][k].imag()), line[k],
                           n);
        }
        middle[l][0] += C(0, 9);  // These are real, whatever else is there.
        middle[l][half] += C(0, 9);
      }
      back.RunToReal(of_middle, to, roots, memory);
      for (size_t i = 0; i < real.size(); ++i) this->ExpectNear(again[i], real[i], n);
    }
  }
}

// Where a line lies among others, and beside what, does not show in its bits.
TYPED_TEST(LinesTransformTest, ALineIsTheSameBesideAnyOthers) {
  using C = typename TestFixture::C;
  using Lines = LinesTransform<TypeParam>;
  constexpr int64_t kLength = 60;
  const Lines transform(kLength, false);
  typename Lines::Memory memory(transform);
  std::vector<C> line(kLength), alone(kLength);
  for (C& x : line) x = C(this->Any(), this->Any());
  const std::vector<const C*> one = {line.data()};
  const std::vector<C*> result = {alone.data()};
  transform.Run(one, 1, result, 1, memory);
  const auto count = static_cast<size_t>(Lines::Lines());
  std::vector<C> others(kLength * count, C(NAN, INFINITY)), made(others);
  std::vector<const C*> from;
  std::vector<C*> to;
  for (size_t l = 0; l < count; ++l) {
    from.push_back(l % 2 == 0 ? others.data() + l * kLength : line.data());
    to.push_back(made.data() + l * kLength);
  }
  transform.Run(from, 1, to, 1, memory);
  for (size_t l = 1; l < count; l += 2) {
    EXPECT_EQ(std::vector<C>(to[l], to[l] + kLength), alone) << l;
  }
}

}  // namespace
}  // namespace formwork
