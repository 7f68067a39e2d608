#include "core/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "core/base/parallel.h"

namespace formwork {
namespace {

struct Size {
  int64_t m, n, k;
};

template <typename T>
class GemmTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, uint32_t, uint64_t>;
TYPED_TEST_SUITE(GemmTest, Types);

// Every way to store the operands, with rows further apart than they are long, against a sum in
// long double; what lies between the rows of c must stay as it is.
TYPED_TEST(GemmTest, MatchesPlainSums) {
  using T = TypeParam;
  std::mt19937 random(7);
  const std::vector<Size> sizes = {{1, 1, 1},     {3, 5, 7},     {8, 8, 8},      {1, 100, 60},
                                   {100, 1, 60},  {33, 49, 300}, {97, 385, 257}, {500, 9, 300},
                                   {9, 700, 300}, {2, 3, 0}};
  for (const Size& s : sizes) {
    for (int variant = 0; variant < 8; ++variant) {
      const bool trans_a = variant & 1, trans_b = variant & 2, add = variant & 4;
      const int64_t lda = (trans_a ? s.m : s.k) + 3, ldb = (trans_b ? s.k : s.n) + 1;
      const int64_t ldc = s.n + (s.n == 1 ? 0 : 2);
      std::vector<T> a((trans_a ? s.k : s.m) * lda), b((trans_b ? s.n : s.k) * ldb);
      std::vector<T> c(s.m * ldc);
      for (auto* values : {&a, &b, &c}) {
        for (T& value : *values) value = static_cast<T>(random() % 17) / T(4);
      }
      const std::vector<T> before = c;
      Gemm(trans_a, trans_b, s.m, s.n, s.k, a.data(), lda, b.data(), ldb, T(add ? 1 : 0), c.data(),
           ldc);
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < ldc; ++j) {
          long double want = before[i * ldc + j];
          if (j < s.n) {
            want = add ? want : 0;
            for (int64_t p = 0; p < s.k; ++p) {
              want += static_cast<long double>(trans_a ? a[p * lda + i] : a[i * lda + p]) *
                      static_cast<long double>(trans_b ? b[j * ldb + p] : b[p * ldb + j]);
            }
          }
          ASSERT_NEAR(static_cast<double>(c[i * ldc + j]), static_cast<double>(want),
                      1e-4 * (1 + std::abs(static_cast<double>(want))))
              << s.m << "x" << s.n << "x" << s.k << " variant " << variant << " at " << i << ","
              << j;
        }
      }
    }
  }
}

// beta 0 means that c is not read: what it holds, NaN too, is gone.
TEST(GemmBetaTest, DoesNotReadWhatItOverwrites) {
  const std::vector<float> a(40 * 50, 1.0f), b(50 * 60, 1.0f);
  std::vector<float> c(40 * 60, NAN);
  Gemm(false, false, 40, 60, 50, a.data(), 50, b.data(), 60, 0.0f, c.data(), 60);
  for (float value : c) ASSERT_EQ(value, 50.0f);
}

// A row is split while threads are free, which is another's doing: its bits are the same.
TYPED_TEST(GemmTest, ARowHasTheSameBitsInPartsAsInOne) {
  using T = TypeParam;
  constexpr int64_t kDepth = 700, kColumns = 1003;
  std::mt19937 random(3);
  std::vector<T> a(kDepth), b(kDepth * kColumns), parts(kColumns), one(kColumns);
  for (auto* values : {&a, &b}) {
    for (T& value : *values) value = static_cast<T>(random() % 1000) / T(7);
  }
  auto multiply = [&](std::vector<T>& c) {
    Gemm(false, false, 1, kColumns, kDepth, a.data(), kDepth, b.data(), kColumns, T(0), c.data(),
         kColumns);
  };
  SetParallelThreads(2);
  ASSERT_TRUE(ThreadsAreFree());
  multiply(parts);
  absl::BlockingCounter computing(ParallelThreads());
  absl::Notification done;
  std::vector<std::thread> threads;
  for (int i = 0; i < ParallelThreads(); ++i) {
    threads.emplace_back([&] {
      const ComputeScope computes;
      computing.DecrementCount();
      done.WaitForNotification();
    });
  }
  computing.Wait();
  EXPECT_FALSE(ThreadsAreFree());
  multiply(one);
  done.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(parts, one);
}

}  // namespace
}  // namespace formwork
