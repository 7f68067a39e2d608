#include "gpu/transform_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_source.h"
#include "gpu/resize_items.h"
#include "gpu/transform_functions_text.h"

namespace formwork {

static_assert(static_cast<int>(FillMode::kConstant) == formwork_element::kFillConstant);
static_assert(static_cast<int>(FillMode::kReflect) == formwork_element::kFillReflect);
static_assert(static_cast<int>(FillMode::kWrap) == formwork_element::kFillWrap);
static_assert(static_cast<int>(FillMode::kNearest) == formwork_element::kFillNearest);

absl::StatusOr<TransformGeometry> PrepareTransformCall(const KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      const TransformGeometry geometry,
      PrepareTransform(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(), &ctx.input(2)));
  if (ctx.num_inputs() > 3 && ctx.input(3).rank() != 0) {
    return InvalidArgument("fill_value must be a scalar");
  }
  return geometry;
}

absl::StatusOr<std::string> TransformItemName(DType dtype) {
  const bool taken = IsFloating(dtype) || dtype == DType::kUint8 || dtype == DType::kInt32 ||
                     dtype == DType::kInt64;
  if (!taken) return Unimplemented("transforms of ", DTypeName(dtype), " on a GPU");
  return absl::StrCat("TransformItem<", ElementTypeName(dtype), ">");
}

const std::string& TransformText() {
  static const auto* const text =
      new std::string(absl::StrCat(ResizeText(), kTransformFunctionsText));
  return *text;
}

}  // namespace formwork
