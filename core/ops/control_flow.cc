#include "core/ops/control_flow.h"

#include <complex>

#include "core/base/status.h"

namespace formwork {

absl::StatusOr<bool> IsTrue(const Tensor& condition) {
  if (condition.rank() != 0) return condition.num_elements() > 0;
  switch (condition.dtype()) {
    FORMWORK_INTEGER_CASES(return condition.scalar<T>() != 0)
    FORMWORK_CASE(bool, return condition.scalar<T>())
    FORMWORK_CASE(float, return condition.scalar<T>() != 0.0f)
    FORMWORK_CASE(double, return condition.scalar<T>() != 0.0)
    FORMWORK_CASE(half, return static_cast<float>(condition.scalar<T>()) != 0.0f)
    FORMWORK_CASE(bfloat16, return static_cast<float>(condition.scalar<T>()) != 0.0f)
    FORMWORK_COMPLEX_CASES(return condition.scalar<T>() != T(0))
    case DType::kString:
      return !condition.scalar<std::string>().empty();
    default:
      return InvalidArgument(DTypeName(condition.dtype()), " cannot be converted to a boolean");
  }
}

absl::StatusOr<size_t> ChooseBranch(ControlFlow kind, const Tensor& selector, size_t branches) {
  if (kind == ControlFlow::kIf) {
    absl::StatusOr<bool> condition = IsTrue(selector);
    if (!condition.ok()) return condition.status();
    return *condition ? 0 : 1;
  }
  if (selector.rank() != 0) {
    return InvalidArgument("branch_index must be a scalar: ", selector.shape().ToString());
  }
  const int32_t index = selector.scalar<int32_t>();
  return index >= 0 && static_cast<size_t>(index) < branches ? static_cast<size_t>(index)
                                                             : branches - 1;
}

}  // namespace formwork
