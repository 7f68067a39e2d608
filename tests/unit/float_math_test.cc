// The float functions of the elementwise kernels against the C library's double ones: over all of
// the floats, at every level of vector instructions that this machine has.

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "core/kernels/elementwise/elementwise_float_math.h"
#include "gtest/gtest.h"

namespace formwork {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kWrong = 1e9;

// How far `got` is from `want`, in units of the last place of a float there.
double Distance(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : kWrong;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : kWrong;
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : kWrong;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

#define FORMWORK_LOOP(Name, f)                                                 \
  struct Name {                                                                \
    FORMWORK_ISA_INLINE static void Run(const float* x, float* y, int64_t n) { \
      for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);                          \
    }                                                                          \
  }
FORMWORK_LOOP(ExpLoop, math::Exp);
FORMWORK_LOOP(Expm1Loop, math::Expm1);
FORMWORK_LOOP(LogLoop, math::Log);
FORMWORK_LOOP(Log1pLoop, math::Log1p);
FORMWORK_LOOP(TanhLoop, math::Tanh);
FORMWORK_LOOP(SigmoidLoop, math::Sigmoid);
FORMWORK_LOOP(ErfLoop, math::Erf);
FORMWORK_LOOP(ErfcLoop, math::Erfc);
FORMWORK_LOOP(AtanLoop, math::Atan);
FORMWORK_LOOP(AsinLoop, math::Asin);
FORMWORK_LOOP(AtanhLoop, math::Atanh);
FORMWORK_LOOP(SinLoop, math::Sin);
FORMWORK_LOOP(CosLoop, math::Cos);
FORMWORK_LOOP(TanLoop, math::Tan);
#undef FORMWORK_LOOP

double ExactSigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Every 1,009th float and the values at which something changes, up to `most`.
std::vector<float> Sweep(float most) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 1009) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(std::fabs(x) > most)) values.push_back(x);
  }
  for (float x : {0.0f, -0.0f, 1.0f, -1.0f, kInf, -kInf, kNan, 1e-45f, -1e-45f, 88.72f, 88.73f,
                  -87.4f, -103.9f, -104.1f, 10.05f, 0.5f, 3.4028235e38f, -3.4028235e38f}) {
    if (!(std::fabs(x) > most)) values.push_back(x);
  }
  return values;
}

template <typename Loop>
void RunAt(Isa isa, const float* in, float* out, int64_t n) {
  if (isa == Isa::kAvx512) {
    isa_internal::RunAvx512<Loop>(in, out, n);
  } else if (isa == Isa::kAvx2) {
    isa_internal::RunAvx2<Loop>(in, out, n);
  } else {
    isa_internal::RunBaseline<Loop>(in, out, n);
  }
}

template <typename Loop>
void ExpectWithin(double ulps, double (*exact)(double), float most = kInf) {
  const std::vector<float> x = Sweep(most);
  std::vector<float> y(x.size()), baseline(x.size());
  RunAt<Loop>(Isa::kBaseline, x.data(), baseline.data(), static_cast<int64_t>(x.size()));
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > HostIsa()) continue;
    RunAt<Loop>(isa, x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    size_t at = 0, other_bits = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      other_bits += !(std::isnan(y[i]) && std::isnan(baseline[i])) &&
                    std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>(baseline[i]);
      const double distance = Distance(y[i], exact(x[i]));
      if (distance > worst) {
        worst = distance;
        at = i;
      }
    }
    EXPECT_EQ(other_bits, 0u) << "level " << static_cast<int>(isa);
    EXPECT_LE(worst, ulps) << "at " << x[at] << ": " << y[at] << " for " << exact(x[at])
                           << ", level " << static_cast<int>(isa);
  }
}

TEST(FloatMathTest, ExponentialsAreWithinTheirBounds) {
  ExpectWithin<ExpLoop>(1.5, std::exp);
  ExpectWithin<Expm1Loop>(2, std::expm1);
  ExpectWithin<TanhLoop>(6, std::tanh);
  ExpectWithin<SigmoidLoop>(3, ExactSigmoid);
}

// What tf.tanh of TensorFlow 2.21 gives on x86: a program that prints losses prints the same ones.
TEST(FloatMathTest, TanhIsTensorFlowsToTheBit) {
  constexpr std::pair<uint32_t, uint32_t> kBits[] = {
      {0x0da24260, 0x0da24260}, {0x38d1b717, 0x38d1b717}, {0x3a03126f, 0x3a03126e},
      {0x40fccccd, 0x3f7ffffd}, {0x40fd1eb8, 0x3f800000}, {0xc0c3d6a9, 0xbf7fff63},
      {0x40101c27, 0x3f7a64cd}, {0x40e4cb8f, 0x3f7fffea}, {0x409ecb82, 0x3f7ff996},
      {0xc09e47d9, 0xbf7ff962}, {0xc066355c, 0xbf7f9da1}, {0x40d72ab2, 0x3f7fffd0},
      {0xc10e7bcd, 0xbf800000}, {0x40b9070f, 0x3f7ffec0}, {0x40ab1cab, 0x3f7ffd09},
      {0xbf13c178, 0xbf054671}, {0xc062e81a, 0xbf7f92f3}, {0xc07f40f2, 0xbf7fd303},
      {0x3d57e36d, 0x3d57b04e}, {0xbeee3327, 0xbede61e0}, {0xbc6fa185, 0xbc6f9d24},
      {0x3eb1ff64, 0x3eab2839}, {0xbf2c0f39, 0xbf161bfa}, {0xbe6a4c9d, 0xbe664b5c},
      {0xbf735b44, 0xbf3d748e}, {0xbf250f93, 0xbf11717c}, {0xbf6bbdf9, 0xbf39ef4c},
      {0xbdf0bbbb, 0xbdefa175}, {0xbf223bb0, 0xbf0f842d}, {0x3e0ae329, 0x3e0a0aba},
      {0x3da0835b, 0x3da02f6c}, {0xbdbf6ad3, 0xbdbedca1},
  };
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > HostIsa()) continue;
    std::vector<float> x, y(std::size(kBits));
    for (const auto& [in, out] : kBits) x.push_back(std::bit_cast<float>(in));
    RunAt<TanhLoop>(isa, x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), kBits[i].second) << "tanh of " << x[i];
    }
  }
}

TEST(FloatMathTest, LogarithmsAreWithinTheirBounds) {
  ExpectWithin<LogLoop>(1.5, std::log);
  ExpectWithin<Log1pLoop>(2, std::log1p);
}

TEST(FloatMathTest, ErrorFunctionsAreWithinTheirBounds) {
  ExpectWithin<ErfLoop>(6, std::erf);
  ExpectWithin<ErfcLoop>(5, std::erfc);
}

TEST(FloatMathTest, AnglesAreWithinTheirBounds) {
  ExpectWithin<AtanLoop>(2, std::atan);
  ExpectWithin<AsinLoop>(2.5, std::asin);
  ExpectWithin<AtanhLoop>(3, std::atanh);
  ExpectWithin<SinLoop>(2, std::sin, math::kMostAngle);
  ExpectWithin<CosLoop>(2, std::cos, math::kMostAngle);
  ExpectWithin<TanLoop>(2, std::tan, math::kMostAngle);
}

TEST(FloatMathTest, AnglesOfTwoAreWithinTheirBound) {
  std::vector<float> values = {0.0f,  -0.0f, 1.0f,   -1.0f,         kInf,
                               -kInf, kNan,  1e-45f, 3.4028235e38f, -3.4028235e38f};
  uint32_t state = 1;
  for (int i = 0; i < 1000; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(std::bit_cast<float>(state));
    values.push_back(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-29f);
  }
  double worst = 0;
  for (float y : values) {
    for (float x : values) {
      const double distance = Distance(math::Atan2(y, x), std::atan2(double{y}, double{x}));
      EXPECT_LT(distance, kWrong) << y << ", " << x;
      worst = std::max(worst, distance);
    }
  }
  EXPECT_LE(worst, 2.5);
}

TEST(FloatMathTest, PowerIsTheCLibrarysWhereItIsSpecial) {
  const float special[] = {0.0f,  -0.0f, 1.0f,  -1.0f, kInf,  -kInf,  kNan,        2.0f,
                           -2.0f, 0.5f,  -0.5f, 3.0f,  -3.0f, 1e-45f, 16777217.0f, -8388609.0f};
  for (float x : special) {
    for (float y : special) {
      EXPECT_LE(Distance(math::Pow(x, y), std::pow(double{x}, double{y})), 1)
          << x << " to the power of " << y;
    }
  }
}

TEST(FloatMathTest, PowerIsWithinItsBound) {
  uint64_t state = 1;
  auto next = [&state]() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  };
  double worst = 0;
  for (int i = 0; i < 500000; ++i) {
    const float x = std::fabs(std::bit_cast<float>(next()));
    const float log2 = std::log2(x);
    // Powers that neither overflow nor vanish, for the most part.
    const float y = (static_cast<int>(next() % 3000000) - 1500000) / 1e4f / (log2 == 0 ? 1 : log2);
    worst = std::max(worst, Distance(math::Pow(x, y), std::pow(double{x}, double{y})));
  }
  EXPECT_LE(worst, 1);
}

}  // namespace
}  // namespace formwork
