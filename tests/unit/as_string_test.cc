// Numbers as text are what printf writes, whichever way they are written.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

KernelRunner::Attrs Attrs(DType dtype, int64_t precision, bool scientific, bool shortest) {
  return {{"T", dtype},           {"precision", precision}, {"scientific", scientific},
          {"shortest", shortest}, {"width", int64_t{-1}},   {"fill", std::string()}};
}

TEST(AsStringTest, WritesDoublesAsPrintfDoes) {
  KernelRunner run;
  std::mt19937_64 random(3);
  constexpr int64_t kCount = 5000;  // So many that threads share them.
  Tensor x = Tensor::Allocate(run.allocator(), DType::kDouble, Shape({kCount})).value();
  double* const values = x.mutable_data<double>();
  for (int64_t i = 0; i < kCount; ++i) {
    values[i] = i % 2 == 0 ? std::bit_cast<double>(random())  // Of any size, NaN among them.
                           : std::ldexp(static_cast<double>(random() % 2000001) - 1e6, -10);
  }
  const double edges[] = {0.0,
                          -0.0,
                          0.5,
                          2.5,
                          1e15,
                          1e-5,
                          123456.5,
                          INFINITY,
                          -INFINITY,
                          NAN,
                          -NAN,
                          9.9999995,
                          0.00012345,
                          std::numeric_limits<double>::max(),
                          std::numeric_limits<double>::denorm_min()};
  std::copy(std::begin(edges), std::end(edges), values);
  for (const char letter : {'f', 'e', 'g'}) {
    for (const int precision : {-1, 0, 1, 12, 64, 65}) {
      const absl::StatusOr<Tensor> texts =
          run.One("AsString", Attrs(DType::kDouble, precision, letter == 'e', letter == 'g'), {x});
      ASSERT_OK(texts);
      const std::string form = precision < 0
                                   ? absl::StrCat("%", std::string(1, letter))
                                   : absl::StrCat("%.", precision, std::string(1, letter));
      for (int64_t i = 0; i < kCount; ++i) {
        char wanted[512];
        std::snprintf(wanted, sizeof(wanted), form.c_str(), values[i]);
        ASSERT_EQ(texts->data<std::string>()[i], wanted) << form << " at " << i;
      }
    }
  }
}

TEST(AsStringTest, WritesIntegersOfEachWidth) {
  KernelRunner run;
  Tensor x = Tensor::Allocate(run.allocator(), DType::kInt64, Shape({3})).value();
  x.mutable_data<int64_t>()[0] = std::numeric_limits<int64_t>::min();
  x.mutable_data<int64_t>()[1] = 0;
  x.mutable_data<int64_t>()[2] = std::numeric_limits<int64_t>::max();
  const absl::StatusOr<Tensor> texts =
      run.One("AsString", Attrs(DType::kInt64, -1, false, false), {x});
  ASSERT_OK(texts);
  EXPECT_EQ(texts->data<std::string>()[0], "-9223372036854775808");
  EXPECT_EQ(texts->data<std::string>()[1], "0");
  EXPECT_EQ(texts->data<std::string>()[2], "9223372036854775807");
  Tensor y = Tensor::Allocate(run.allocator(), DType::kUint64, Shape({1})).value();
  y.mutable_data<uint64_t>()[0] = std::numeric_limits<uint64_t>::max();
  const absl::StatusOr<Tensor> most =
      run.One("AsString", Attrs(DType::kUint64, -1, false, false), {y});
  ASSERT_OK(most);
  EXPECT_EQ(most->data<std::string>()[0], "18446744073709551615");
}

}  // namespace
}  // namespace formwork::testing
