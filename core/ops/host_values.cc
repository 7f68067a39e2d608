#include "core/ops/host_values.h"

#include <optional>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"

namespace formwork {

absl::StatusOr<Shape> ShapeFromTensor(const Tensor& dims, absl::string_view what) {
  if (dims.rank() > 1) {
    return InvalidArgument(what, " must represent a vector, got shape ", dims.shape().ToString());
  }
  if (dims.num_elements() > kMaxRank) {
    return InvalidArgument(what, " has too many dimensions: rank=", dims.num_elements(),
                           " limit=", kMaxRank);
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(dims, what));
  int64_t product = 1;
  for (int64_t value : values) {
    if (value < 0) return InvalidArgument("Dimension ", value, " must be >= 0");
    std::optional<int64_t> next = CheckedMul(product, value);
    if (!next) {
      return InvalidArgument("Shape [", absl::StrJoin(values, ","),
                             "] would have more than 2**63 - 1 elements");
    }
    product = *next;
  }
  return Shape::Trusted(values);
}

absl::StatusOr<int64_t> IntegerFromTensor(const Tensor& tensor, absl::string_view what) {
  if (tensor.num_elements() != 1) {
    return InvalidArgument(what, " must be a scalar, got shape ", tensor.shape().ToString());
  }
  switch (tensor.dtype()) {
    case DType::kInt32:
      return tensor.scalar<int32_t>();
    case DType::kInt64:
      return tensor.scalar<int64_t>();
    case DType::kInt16:
      return tensor.scalar<int16_t>();
    case DType::kInt8:
      return tensor.scalar<int8_t>();
    default:
      return InvalidArgument(what, " must be an integer, not ", DTypeName(tensor.dtype()));
  }
}

}  // namespace formwork
