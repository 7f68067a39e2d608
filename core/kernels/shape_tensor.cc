#include "core/kernels/shape_tensor.h"

#include <algorithm>

#include "core/base/status.h"

namespace formwork {

absl::Status OutputIntegers(KernelContext& ctx, int i, DType dtype,
                            absl::Span<const int64_t> values) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor * out, ctx.AllocateOutput(i, dtype, Shape{static_cast<int64_t>(values.size())}));
  if (dtype == DType::kInt64) {
    std::copy(values.begin(), values.end(), out->mutable_data<int64_t>());
  } else if (dtype == DType::kInt32) {
    int32_t* to = out->mutable_data<int32_t>();
    for (int64_t value : values) *to++ = static_cast<int32_t>(value);
  } else {
    return InvalidArgument("integers of dtype ", DTypeName(dtype), " are not supported");
  }
  return absl::OkStatus();
}

}  // namespace formwork
