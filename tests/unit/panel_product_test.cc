#include "core/kernels/gemm/panel_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace formwork {
namespace {

struct Case {
  int64_t m, n, taps, depth;
  bool bias, residual;
  Activation activation;
};

double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu6:
      return std::clamp(x, 0.0, 6.0);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case Activation::kNone:
      return x;
  }
  return x;
}

// Each number of rows of a tile, each width of a last strip, panels that are cut, several blocks of
// rows, rows of pieces that lie anywhere, and columns of the packed matrix that lie side by side or
// apart.
TEST(PanelProductTest, MatchesPlainSums) {
  std::mt19937 random(5);
  auto values = [&random](int64_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = static_cast<float>(static_cast<int>(random() % 33) - 16) / 16.0f;
    return v;
  };
  std::vector<Case> cases;
  for (int64_t m = 1; m <= 14; ++m) {
    cases.push_back({m, 10 + 3 * m, 1, 20, m % 2 == 0, m % 3 == 0, Activation::kNone});
  }
  for (int64_t n : {8, 16, 17, 24, 25, 32, 40, 47, 56, 88}) {
    cases.push_back({11, n, 1, 40, true, n % 16 == 0, Activation::kRelu});
  }
  for (Activation a :
       {Activation::kNone, Activation::kRelu, Activation::kRelu6, Activation::kGelu}) {
    cases.push_back({49, 33, 9, 16, true, true, a});
    cases.push_back({500, 56, 1, 70, false, true, a});
    cases.push_back({13, 7, 3, 5, true, false, a});
    // Tiles that are cut in halves (AVX-512), and an odd number of steps.
    cases.push_back({20, 24, 3, 5, true, false, a});
    cases.push_back({5, 23, 3, 5, true, true, a});
    cases.push_back({11, 40, 3, 7, true, true, a});
  }
  for (const Case& c : cases) {
    const int64_t k = c.taps * c.depth, ldc = c.n + 2;
    const std::vector<float> a = values(c.m * k), bias = values(c.n);
    const bool by_columns = c.m % 2 == 0;
    const std::vector<float> b = values(k * c.n);
    std::vector<float> panels(PanelElements(k, c.n));
    PackPanels(k, c.n, b.data(), by_columns ? 1 : c.n, by_columns ? k : 1, panels.data());
    std::vector<float> got = values(c.m * ldc);
    const std::vector<float> before = got;
    PanelProduct product = {.m = c.m,
                            .n = c.n,
                            .taps = c.taps,
                            .depth = c.depth,
                            .panels = panels.data(),
                            .bias = c.bias ? bias.data() : nullptr,
                            .residual = c.residual ? got.data() : nullptr,
                            .activation = c.activation,
                            .c = got.data(),
                            .ldc = ldc};
    // Pieces of a row: the first of all rows, then the second of all.
    auto at = [&](int64_t i, int64_t t) { return (t * c.m + i) * c.depth; };
    RunPanelProduct(product, [&](int64_t first, int64_t count, const float** rows) {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t t = 0; t < c.taps; ++t) rows[t * count + i] = a.data() + at(first + i, t);
      }
    });
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < ldc; ++j) {
        double want = before[i * ldc + j];
        if (j < c.n) {
          want = (c.residual ? want : 0) + (c.bias ? bias[j] : 0);
          for (int64_t p = 0; p < k; ++p) {
            want += static_cast<double>(a[at(i, p / c.depth) + p % c.depth]) *
                    static_cast<double>(by_columns ? b[j * k + p] : b[p * c.n + j]);
          }
          want = Activated(c.activation, want);
        }
        ASSERT_NEAR(got[i * ldc + j], want, 1e-5 * (1 + std::abs(want)))
            << c.m << "x" << c.n << "x" << c.taps << "x" << c.depth << " at " << i << "," << j;
      }
    }
  }
}

// Two products of other depths, in parts that lie anywhere.
TEST(PanelProductTest, AddsAnotherProductAndCutsColumns) {
  std::mt19937 random(7);
  auto values = [&random](int64_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = static_cast<float>(static_cast<int>(random() % 33) - 16) / 16.0f;
    return v;
  };
  for (const auto& [m, width, parts] : {std::tuple<int64_t, int64_t, int64_t>{1, 16, 1},
                                        {5, 48, 3},
                                        {7, 16, 5},
                                        {32, 128, 4},
                                        {400, 16, 2}}) {
    const int64_t n = width * parts, k = 20, l = 33;
    const std::vector<float> a = values(m * k), b = values(k * n), c = values(m * l),
                             d = values(l * n), bias = values(n);
    std::vector<float> b_panels(PanelElements(k, n)), d_panels(PanelElements(l, n));
    PackPanels(k, n, b.data(), n, 1, b_panels.data());
    PackPanels(l, n, d.data(), n, 1, d_panels.data());
    std::vector<std::vector<float>> got(parts, values(m * width));
    std::vector<float*> to;
    for (std::vector<float>& part : got) to.push_back(part.data());
    RunPanelProduct({.m = m,
                     .n = n,
                     .taps = 1,
                     .depth = k,
                     .panels = b_panels.data(),
                     .bias = bias.data(),
                     .plus = {l, c.data(), d_panels.data()},
                     .activation = Activation::kRelu,
                     .c = nullptr,
                     .ldc = width,
                     .parts = to},
                    [&, k = k](int64_t first, int64_t count, const float** rows) {
                      for (int64_t i = 0; i < count; ++i) rows[i] = a.data() + (first + i) * k;
                    });
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double want = bias[j];
        for (int64_t p = 0; p < k; ++p) want += double{a[i * k + p]} * double{b[p * n + j]};
        for (int64_t p = 0; p < l; ++p) want += double{c[i * l + p]} * double{d[p * n + j]};
        ASSERT_NEAR(got[j / width][i * width + j % width], std::max(want, 0.0),
                    1e-5 * (1 + std::abs(want)))
            << m << "x" << n << " at " << i << "," << j;
      }
    }
  }
}

// NaN goes through a product and stops at a ReLU, as in TensorFlow's fused ones.
TEST(PanelProductTest, AReluMakesZeroOfNan) {
  const float a = NAN, b[17] = {};
  std::vector<float> panels(PanelElements(1, 17));
  PackPanels(1, 17, b, 17, 1, panels.data());
  for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
    float c[17];
    RunPanelProduct({.m = 1,
                     .n = 17,
                     .taps = 1,
                     .depth = 1,
                     .panels = panels.data(),
                     .activation = activation,
                     .c = c,
                     .ldc = 17},
                    [&a](int64_t, int64_t, const float** rows) { rows[0] = &a; });
    for (float x : c) {
      if (activation == Activation::kNone) {
        EXPECT_TRUE(std::isnan(x));
      } else {
        EXPECT_EQ(x, 0.0f);
      }
    }
  }
}

}  // namespace
}  // namespace formwork
