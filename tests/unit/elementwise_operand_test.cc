// Operands that are broadcast, against indices that are counted one by one.

#include "core/kernels/elementwise/elementwise_operand.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

namespace formwork {
namespace {

// Which element of an operand of `shape` is at `position` of `out`.
int64_t ElementAt(const Shape& shape, const Shape& out, int64_t position) {
  int64_t element = 0, stride = 1;
  for (int i = out.rank() - 1; i >= 0; --i) {
    const int64_t index = position % out.dim(i);
    position /= out.dim(i);
    const int k = i - (out.rank() - shape.rank());
    if (k < 0) continue;
    if (shape.dim(k) > 1) element += index * stride;
    stride *= shape.dim(k);
  }
  return element;
}

// Runs of random length, at random places, of elements of `width` bytes.
void ExpectRuns(const Shape& shape, const Shape& out, size_t width, std::mt19937& random) {
  SCOPED_TRACE(absl::StrCat(shape.ToString(), " in ", out.ToString(), ", width ", width));
  std::vector<uint8_t> data(static_cast<size_t>(shape.num_elements()) * width);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  const Operand operand(data.data(), width, shape, out);
  std::vector<uint8_t> scratch(static_cast<size_t>(kBlockElements) * width);
  for (int round = 0; round < 8; ++round) {
    const int64_t n = round == 0 ? std::min(kBlockElements, out.num_elements())
                                 : 1 + static_cast<int64_t>(random()) %
                                           std::min(kBlockElements, out.num_elements());
    const int64_t begin =
        round == 0 ? 0 : static_cast<int64_t>(random()) % (out.num_elements() - n + 1);
    // Exactly as long as the run: what is written behind it would be found by AddressSanitizer.
    std::vector<uint8_t> exact(static_cast<size_t>(n) * width);
    const auto* const run = static_cast<const uint8_t*>(
        operand.Run(begin, n, operand.is_splat() ? scratch.data() : exact.data()));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t element = ElementAt(shape, out, begin + i);
      ASSERT_EQ(std::memcmp(run + static_cast<size_t>(i) * width,
                            data.data() + static_cast<size_t>(element) * width, width),
                0)
          << "element " << i << " of " << n << " from " << begin;
    }
  }
}

TEST(OperandTest, RunsAreThoseOfTheBroadcastOperand) {
  std::mt19937 random(1);
  const int64_t kDims[] = {1, 2, 3, 4, 5, 8, 17, 64, 100, 900};
  for (int round = 0; round < 2000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 4);
    Dims out, in;
    int64_t elements = 1;
    for (int i = 0; i < rank; ++i) {
      int64_t dim = kDims[random() % std::size(kDims)];
      if (elements * dim > 200'000) dim = 2;
      elements *= dim;
      out.push_back(dim);
      in.push_back(random() % 2 == 0 ? 1 : dim);
    }
    // Dimensions at the front may be missing.
    const auto missing = static_cast<ptrdiff_t>(random() % static_cast<uint32_t>(rank));
    in.erase(in.begin(), in.begin() + missing);
    const size_t widths[] = {1, 2, 4, 8, 16};
    ExpectRuns(*Shape::Make(in), *Shape::Make(out), widths[random() % std::size(widths)], random);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(OperandTest, OfNoElementsThereIsNoRun) {
  const float data[3] = {1, 2, 3};
  const Operand operand(data, sizeof(float), Shape({3}), Shape({0, 3}));
  float out = 7;
  operand.Run(0, 0, &out);
  EXPECT_EQ(out, 7);
}

}  // namespace
}  // namespace formwork
