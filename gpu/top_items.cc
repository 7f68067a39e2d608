#include "gpu/top_items.h"

#include <limits>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_functions_text.h"
#include "gpu/element_source.h"
#include "gpu/item_functions_text.h"
#include "gpu/item_source.h"
#include "gpu/top_functions_text.h"

namespace formwork {
namespace {

using formwork_element::kTopSorted;

// Of longer rows the work that counting is grows beyond that of a block.
constexpr int64_t kShortRow = 128;

std::string BlockKernel(absl::string_view name, absl::string_view parameters,
                        absl::string_view body) {
  return absl::StrCat("extern \"C\" __global__ void __launch_bounds__(",
                      formwork_element::kTopThreads, ") ", name, "(", parameters, ") {\n", body,
                      "}\n");
}
std::string BlockSource(absl::string_view kernels) {
  return absl::StrCat(kElementFunctionsText, kItemFunctionsText, kElementAccessText,
                      kTopFunctionsText, "using namespace formwork_element;\n", kernels);
}

}  // namespace

absl::StatusOr<TopPlan> PlanTop(int64_t n, int64_t k) {
  if (n >= std::numeric_limits<uint32_t>::max()) {
    return Unimplemented("TopKV2 of rows of ", n, " elements on a GPU");
  }
  const uint64_t padded = absl::bit_ceil(static_cast<uint64_t>(k));
  if (n <= kShortRow) return TopPlan{TopPlan::Way::kByRank, padded};
  if (padded <= kTopSorted) return TopPlan{TopPlan::Way::kByBlock, padded};
  return TopPlan{TopPlan::Way::kByNetwork, padded};
}

std::vector<OrderStep> OrderSteps(uint64_t padded) {
  std::vector<OrderStep> steps = {{true, 2, kTopSorted, 0}};
  for (uint64_t size = 2 * kTopSorted; size <= padded; size *= 2) {
    for (uint64_t stride = size / 2; stride >= kTopSorted; stride /= 2) {
      steps.push_back({false, size, size, stride});
    }
    steps.push_back({true, size, size, 0});
  }
  return steps;
}

size_t CandidateBytes(DType dtype) {
  using formwork_element::Candidate;
  return DTypeSize(dtype) == 8 ? sizeof(Candidate<uint64_t>) : sizeof(Candidate<uint32_t>);
}

std::string TopItemName(absl::string_view item, DType dtype, DType index) {
  return absl::StrCat(item, "<", ElementTypeName(dtype), ", ", ElementTypeName(index), ">");
}

std::string OrderItemName(DType dtype) {
  return absl::StrCat("OrderItem<uint", DTypeSize(dtype) == 8 ? 64 : 32, "_t>");
}

std::string TopItemSource(absl::string_view item) {
  return ItemSource(item, absl::StrCat(kElementAccessText, kTopFunctionsText));
}

std::string TopSource(DType dtype, DType index) {
  const std::string rows = TopItemName("TopRows", dtype, index);
  const std::string order = OrderItemName(dtype);
  return BlockSource(absl::StrCat(
      "typedef ", rows, "::Key Key;\n",
      BlockKernel("top", absl::StrCat(rows, " rows"),
                  "  __shared__ TopShared<Key> shared;\n"
                  "  for (uint64_t row = blockIdx.x; row < rows.rows; row += gridDim.x) {\n"
                  "    TopOfRow(rows, row, shared);\n"
                  "  }\n"),
      BlockKernel("order",
                  absl::StrCat(order, " of, unsigned long long chunks, unsigned long long from"),
                  "  __shared__ Candidate<Key> shared[kTopSorted];\n"
                  "  for (uint64_t i = blockIdx.x; i < chunks; i += gridDim.x) {\n"
                  "    OrderChunk(of, i, from, shared);\n"
                  "  }\n")));
}

std::string InTopSource(DType index) {
  return BlockSource(
      BlockKernel("in_top", absl::StrCat("InTopRows<", ElementTypeName(index), "> rows"),
                  "  __shared__ InTopShared shared;\n"
                  "  for (uint64_t row = blockIdx.x; row < rows.rows; row += gridDim.x) {\n"
                  "    InTopOfRow(rows, row, shared);\n"
                  "  }\n"));
}

}  // namespace formwork
