// Division of many integers by one, against C++'s own.

#include "core/kernels/elementwise/integer_division.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/tensor/dtype.h"

namespace formwork {
namespace {

template <typename T>
class IntegerDivisionTest : public ::testing::Test {
 protected:
  static constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();

  // The quotient in whole numbers that are wide enough, rounded down.
  static __int128 Quotient(__int128 a, __int128 b) {
    const __int128 q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
  }
  // Positive, next to powers of two and any.
  std::vector<T> Divisors() {
    std::vector<T> all = {1, 3, 5, 7, 10, 641, 1000, kMost, kMost - 1};
    for (int bit = 1; bit < static_cast<int>(8 * sizeof(T)) - 1; ++bit) {
      for (const int near : {-1, 0, 1}) all.push_back(static_cast<T>((T{1} << bit) + near));
    }
    for (int i = 0; i < 300; ++i) all.push_back(Any(1 + i % (8 * sizeof(T) - 1)));
    std::erase_if(all, [](T d) { return d <= 0; });
    return all;
  }
  // Of `bits` bits, not negative.
  T Any(size_t bits) { return static_cast<T>(random_() >> (64 - bits)); }
  std::vector<T> Dividends(T by) {
    std::vector<T> all = {kLeast, kLeast + 1, -1, 0, 1, kMost - 1, kMost};
    for (int i = 0; i < 100; ++i) {
      const T any = Any(1 + i % (8 * sizeof(T) - 1));
      const T whole = static_cast<T>(any / by * by);  // A multiple, and its neighbours.
      for (const T x : {any, whole}) {
        for (const int near : {-1, 0}) all.insert(all.end(), {T(x + near), T(-x - near)});
      }
    }
    return all;
  }

  std::mt19937_64 random_{5};
};
using Types = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(IntegerDivisionTest, Types);

TYPED_TEST(IntegerDivisionTest, QuotientsByPositiveNumbersAreRoundedDown) {
  using T = TypeParam;
  for (const T by : this->Divisors()) {
    const elementwise::FloorDivisor<T> divisor(by);
    for (const T x : this->Dividends(by)) {
      ASSERT_EQ(divisor.Of(x), static_cast<T>(this->Quotient(x, by))) << x << " by " << by;
    }
  }
}

// Those by which nothing is multiplied, too.
TYPED_TEST(IntegerDivisionTest, TheTablesLoopsDivideByAnyNumber) {
  using T = TypeParam;
  const DType dtype = DTypeOf<T>::value;
  const DType dtypes[] = {dtype, dtype};
  std::vector<T> divisors = this->Divisors();
  divisors.insert(divisors.end(), {-1, -2, -7, -1000, this->kLeast, this->kLeast + 1});
  for (const absl::string_view op : {"FloorDiv", "FloorMod"}) {
    const BlockOp* const found = FindBlockOp(op, dtypes, dtype);
    ASSERT_NE(found, nullptr);
    ASSERT_NE(found->right_scalar, nullptr);
    for (const T by : divisors) {
      const std::vector<T> x = this->Dividends(by);
      std::vector<T> made(x.size());
      const void* const operands[] = {x.data(), &by};
      found->right_scalar(operands, made.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const __int128 q = this->Quotient(x[i], by);
        const auto wanted = static_cast<T>(op == "FloorDiv" ? q : x[i] - q * by);
        ASSERT_EQ(made[i], wanted) << op << " of " << x[i] << " by " << by;
      }
    }
  }
}

}  // namespace
}  // namespace formwork
