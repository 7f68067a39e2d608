// Segments of so many rows that they are combined in pieces, against sums one by one.

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

TEST(SegmentTest, RowsOfEachWidthGoToTheirSegments) {
  KernelRunner run;
  std::mt19937 random(4);
  constexpr int64_t kRows = 150000, kSegments = 9;
  for (const int64_t width : {1, 2, 4, 5, 40}) {
    for (const bool sorted : {false, true}) {
      Tensor ids = Tensor::Allocate(run.allocator(), DType::kInt32, Shape({kRows})).value();
      auto* const id = ids.mutable_data<int32_t>();
      for (int64_t r = 0; r < kRows; ++r) {
        id[r] = static_cast<int32_t>(random() % (kSegments + 1)) - 1;  // -1: left out.
      }
      if (sorted) std::sort(id, id + kRows);
      Tensor data = Tensor::Allocate(run.allocator(), DType::kFloat, Shape({kRows, width})).value();
      for (int64_t i = 0; i < kRows * width; ++i) {
        data.mutable_data<float>()[i] = static_cast<float>(random() % 7) - 3;  // Sums are exact.
      }
      Tensor count = Tensor::Allocate(run.allocator(), DType::kInt32, Shape()).value();
      count.mutable_data<int32_t>()[0] = kSegments;
      std::vector<float> sums(kSegments * width, 0.0f);
      std::vector<float> largest(kSegments * width, std::numeric_limits<float>::lowest());
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t c = 0; c < width && id[r] >= 0; ++c) {
          const float x = data.data<float>()[r * width + c];
          sums[id[r] * width + c] += x;
          largest[id[r] * width + c] = std::max(largest[id[r] * width + c], x);
        }
      }
      const KernelRunner::Attrs attrs = {
          {"T", DType::kFloat}, {"Tindices", DType::kInt32}, {"Tnumsegments", DType::kInt32}};
      const auto expect = [&](absl::string_view op, const std::vector<float>& wanted) {
        const absl::StatusOr<Tensor> made = run.One(op, attrs, {data, ids, count});
        ASSERT_OK(made);
        EXPECT_EQ(std::vector<float>(made->data<float>(), made->data<float>() + kSegments * width),
                  wanted)
            << op << " of width " << width;
      };
      expect("UnsortedSegmentSum", sums);
      expect("UnsortedSegmentMax", largest);
    }
  }
}

}  // namespace
}  // namespace formwork::testing
