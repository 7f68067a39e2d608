// The double functions of the elementwise kernels against the C library's long double ones, at
// every level of vector instructions that this machine has.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/kernels/elementwise/elementwise_double_math.h"

namespace formwork {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kWrong = 1e9;

// How far `got` is from `want`, in units of the last place of a double there.
double Distance(double got, long double want) {
  const double rounded = static_cast<double>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : kWrong;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : kWrong;
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : kWrong;
  int exponent;
  std::frexp(want, &exponent);
  return static_cast<double>(std::fabs(got - want) /
                             std::ldexp(1.0L, std::max(exponent - 53, -1074)));
}

#define FORMWORK_LOOP(Name, f)                                                   \
  struct Name {                                                                  \
    FORMWORK_ISA_INLINE static void Run(const double* x, double* y, int64_t n) { \
      for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);                            \
    }                                                                            \
  }
FORMWORK_LOOP(ExpLoop, math::Exp);
FORMWORK_LOOP(Expm1Loop, math::Expm1);
FORMWORK_LOOP(TanhLoop, math::Tanh);
FORMWORK_LOOP(SigmoidLoop, math::Sigmoid);
FORMWORK_LOOP(ErfLoop, math::Erf);
FORMWORK_LOOP(ErfcLoop, math::Erfc);
FORMWORK_LOOP(LogLoop, math::Log);
FORMWORK_LOOP(Log1pLoop, math::Log1p);
FORMWORK_LOOP(SoftplusLoop, math::Softplus);
FORMWORK_LOOP(AtanLoop, math::Atan);
FORMWORK_LOOP(AtanhLoop, math::Atanh);
#undef FORMWORK_LOOP

long double ExactSigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double ExactSoftplus(long double x) {
  return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x)));
}

// Numbers of every size, many of those where the functions bend, and where something changes.
std::vector<double> Sweep() {
  std::vector<double> values = {
      0.0,    -0.0,    1.0,      -1.0,   22.0,
      -22.0,  6.0,     -6.0,     kInf,   -kInf,
      5e-324, -5e-324, 709.78,   709.79, 710.1,
      -708.4, -745.1,  -745.2,   -746.5, 1e308,
      -1e308, -37.429, -36.7368, 0.35,   std::numeric_limits<double>::quiet_NaN()};
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double any = std::bit_cast<double>(random());
    if (!std::isnan(any)) values.push_back(any);
    values.push_back(std::ldexp(static_cast<double>(random() >> 11), -50) - 4);
    values.push_back(std::ldexp(static_cast<double>(random() >> 11), -62) - 1e-3);
    values.push_back(std::ldexp(static_cast<double>(random() >> 11), -43) - 800);
  }
  return values;
}

template <typename Loop>
void RunAt(Isa isa, const double* in, double* out, int64_t n) {
  if (isa == Isa::kAvx512) {
    isa_internal::RunAvx512<Loop>(in, out, n);
  } else if (isa == Isa::kAvx2) {
    isa_internal::RunAvx2<Loop>(in, out, n);
  } else {
    isa_internal::RunBaseline<Loop>(in, out, n);
  }
}

template <typename Loop>
void ExpectWithin(double ulps, long double (*exact)(long double)) {
  const std::vector<double> x = Sweep();
  std::vector<double> y(x.size()), baseline(x.size());
  const int64_t n = static_cast<int64_t>(x.size());
  RunAt<Loop>(Isa::kBaseline, x.data(), baseline.data(), n);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double distance = Distance(baseline[i], exact(x[i]));
    if (distance > worst) {
      worst = distance;
      at = i;
    }
  }
  EXPECT_LE(worst, ulps) << "at " << x[at] << ": " << baseline[at];
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa > HostIsa()) continue;
    RunAt<Loop>(isa, x.data(), y.data(), n);
    size_t other_bits = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      other_bits += !(std::isnan(y[i]) && std::isnan(baseline[i])) &&
                    std::bit_cast<uint64_t>(y[i]) != std::bit_cast<uint64_t>(baseline[i]);
    }
    EXPECT_EQ(other_bits, 0u) << IsaName(isa);
  }
}

TEST(DoubleMathTest, FunctionsAreWithinTheirBounds) {
  ExpectWithin<ExpLoop>(1.5, std::exp);
  ExpectWithin<Expm1Loop>(2.5, std::expm1);
  ExpectWithin<TanhLoop>(3, std::tanh);
  ExpectWithin<SigmoidLoop>(3, ExactSigmoid);
  ExpectWithin<ErfLoop>(2, std::erf);
  ExpectWithin<ErfcLoop>(5, std::erfc);
  ExpectWithin<LogLoop>(1, std::log);
  ExpectWithin<Log1pLoop>(1, std::log1p);
  ExpectWithin<SoftplusLoop>(2, ExactSoftplus);
  ExpectWithin<AtanLoop>(2, std::atan);
  ExpectWithin<AtanhLoop>(2.5, std::atanh);
}

struct Atan2Loop {
  FORMWORK_ISA_INLINE static void Run(const double* yx, double* angle, int64_t n) {
    for (int64_t i = 0; i < n; ++i) angle[i] = math::Atan2(yx[2 * i], yx[2 * i + 1]);
  }
};

TEST(DoubleMathTest, Atan2IsWithin3UlpInEveryQuadrantAndOfEverySize) {
  const std::vector<double> ends = {0.0,   -0.0,   1.0,       -1.0,        kInf,
                                    -kInf, 5e-324, -5e-324,   1.7e308,     -1.7e308,
                                    1e300, 1e-310, 2.25e-308, std::nan("")};
  std::vector<double> yx;
  for (double y : ends) {
    for (double x : ends) yx.insert(yx.end(), {y, x});
  }
  std::mt19937_64 random(2);
  for (double size : {1.0, 1e308, 1e-308}) {
    for (int i = 0; i < 400000; ++i) {
      yx.push_back(size * (std::ldexp(static_cast<double>(random() >> 11), -52) - 1.0));
    }
  }
  for (int i = 0; i < 400000; ++i) {
    const double any = std::bit_cast<double>(random());
    yx.push_back(std::isnan(any) ? 0.0 : any);
  }
  const int64_t n = static_cast<int64_t>(yx.size()) / 2;
  std::vector<double> angles(static_cast<size_t>(n));
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > HostIsa()) continue;
    RunAt<Atan2Loop>(isa, yx.data(), angles.data(), n);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < angles.size(); ++i) {
      const double distance = Distance(
          angles[i],
          std::atan2(static_cast<long double>(yx[2 * i]), static_cast<long double>(yx[2 * i + 1])));
      if (distance <= worst) continue;
      worst = distance;
      at = i;
    }
    EXPECT_LE(worst, 3) << IsaName(isa) << " at " << yx[2 * at] << ", " << yx[2 * at + 1] << ": "
                        << angles[at];
  }
}

}  // namespace
}  // namespace formwork
