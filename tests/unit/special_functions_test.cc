// Special functions where their library needs help; elsewhere the op cases hold them.

#include "core/kernels/elementwise/special_functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace formwork::math {
namespace {

template <typename T>
class SpecialFunctionsTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SpecialFunctionsTest, Floats);

// Under UBSan too.
TYPED_TEST(SpecialFunctionsTest, OrdersThatNoIntegerHoldsAreEven) {
  using T = TypeParam;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  for (const T order : {T(1e30), T(std::ldexp(1.0, 53)), kInfinity}) {
    EXPECT_EQ(Zeta(order, T(0)), kInfinity);
    EXPECT_EQ(Zeta(order, T(-2)), kInfinity);
    EXPECT_EQ(Polygamma(order, T(-2)), kInfinity);
    EXPECT_EQ(Zeta(order, T(2)), 0);
  }
  EXPECT_EQ(Polygamma(T(2), kInfinity), 0);
  EXPECT_EQ(Zeta(T(4), T(-2)), kInfinity);
  EXPECT_TRUE(std::isnan(Zeta(T(3), T(-2))));
}

}  // namespace
}  // namespace formwork::math
