#include "core/ops/graph_dtype.h"

namespace formwork {

absl::string_view GraphDTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return "float";
    case DType::kDouble:
      return "double";
    case DType::kHalf:
      return "half";
    default:
      return DTypeName(dtype);
  }
}

}  // namespace formwork
