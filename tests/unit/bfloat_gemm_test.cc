// Products of bfloat16 by instructions for them, against sums in double.

#include "core/kernels/gemm/bfloat_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/parallel.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

struct Size {
  int64_t m, n, k;
};

TEST(BfloatGemmTest, RoundsSumsOnce) {
  if (!HasBfloatProducts()) GTEST_SKIP() << "no instructions for bfloat16";
  SetParallelThreads(2);
  KernelRunner run;
  std::mt19937 random(6);
  // The last ones are split, by rows and by columns.
  for (const Size& s : {Size{1, 1, 1},
                        {3, 5, 7},
                        {64, 32, 32},
                        {33, 65, 129},
                        {1, 700, 300},
                        {300, 1, 500},
                        {500, 130, 400},
                        {130, 500, 400}}) {
    std::vector<bfloat16> a(s.m * s.k), b(s.k * s.n), c(s.m * s.n);
    for (auto* values : {&a, &b}) {
      for (bfloat16& x : *values) x = bfloat16(static_cast<float>(random() % 257) / 64 - 2);
    }
    for (int variant = 0; variant < 4; ++variant) {
      const bool trans_a = variant & 1, trans_b = variant & 2;
      SCOPED_TRACE(absl::StrCat(s.m, "x", s.n, "x", s.k, " variant ", variant));
      ASSERT_OK(BfloatGemm(run.allocator(), trans_a, trans_b, s.m, s.n, s.k, a.data(), b.data(),
                           c.data()));
      // Of large ones some elements.
      const int64_t step = s.m * s.n > 10000 ? 13 : 1;
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = i % step; j < s.n; j += step) {
          double sum = 0, size = 0;
          for (int64_t p = 0; p < s.k; ++p) {
            const double term =
                static_cast<double>(static_cast<float>(a[trans_a ? p * s.m + i : i * s.k + p])) *
                static_cast<float>(b[trans_b ? j * s.k + p : p * s.n + j]);
            sum += term;
            size += std::abs(term);
          }
          // Half a unit of the last of 8 bits, and what floats lose on the way.
          ASSERT_NEAR(static_cast<float>(c[i * s.n + j]), sum, std::abs(sum) / 256 + size * 1e-6)
              << i << "," << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace formwork::testing
