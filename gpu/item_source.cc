#include "gpu/item_source.h"

#include "absl/strings/str_cat.h"
#include "gpu/element_functions_text.h"
#include "gpu/item_functions_text.h"

namespace formwork {
namespace {

constexpr char kItems[] =
    R"( item, unsigned long long n, FailureWord* word, unsigned long long step) {
  if (FailedEarlier(word, step)) return;
  const unsigned long long stride = 1ull * gridDim.x * blockDim.x;
  for (unsigned long long i = 1ull * blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    item(i);
  }
}
)";

}  // namespace

std::string ItemSource(absl::string_view item, absl::string_view more) {
  return absl::StrCat(kElementFunctionsText, kItemFunctionsText, more,
                      "using namespace formwork_element;\n",
                      "extern \"C\" __global__ void __launch_bounds__(256) items(", item, kItems);
}

}  // namespace formwork
