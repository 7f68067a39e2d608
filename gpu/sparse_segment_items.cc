#include "gpu/sparse_segment_items.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/sparse_segment_functions_text.h"

namespace formwork {

namespace element = formwork_element;

absl::Span<const SparseSegmentOp> SparseSegmentOps() {
  static constexpr SparseSegmentOp kOps[] = {
      {"SparseSegmentSumWithNumSegments", element::kSumOfRows, false},
      {"SparseSegmentMeanWithNumSegments", element::kMeanOfRows, false},
      {"SparseSegmentSqrtNWithNumSegments", element::kSqrtNOfRows, false},
      {"SparseSegmentSumGrad", element::kSumOfRows, true},
      {"SparseSegmentMeanGrad", element::kMeanOfRows, true},
      {"SparseSegmentSqrtNGrad", element::kSqrtNOfRows, true}};
  return kOps;
}

absl::StatusOr<SegmentGeometry> PrepareSparseSegmentCall(const SparseSegmentOp& op,
                                                         const KernelContext& ctx) {
  const auto prepare = op.is_gradient ? &PrepareSparseSegmentGrad : &PrepareSparseSegment;
  return prepare(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                 ctx.input(2).shape().dims(), &ctx.input(3));
}

absl::StatusOr<std::string> SparseSegmentItemName(const SparseSegmentOp& op, DType dtype,
                                                  DType index, DType ids) {
  const absl::string_view element = ElementTypeName(dtype);
  // Gradients of half precision are summed in float.
  const bool summed = dtype == DType::kFloat || dtype == DType::kDouble;
  if (element.empty() || dtype == DType::kBool || (op.is_gradient && !summed)) {
    return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat(op.is_gradient ? "SparseSegmentGradItem<" : "SparseSegmentItem<", element,
                      ", ", ElementTypeName(index), ", ", ElementTypeName(ids), ">");
}

std::string CheckRowsItemName(DType index, DType ids) {
  return absl::StrCat("CheckRowsItem<", ElementTypeName(index), ", ", ElementTypeName(ids), ">");
}

std::string CountIdsItemName(DType ids) {
  return absl::StrCat("CountIdsItem<", ElementTypeName(ids), ">");
}

const std::string& SparseSegmentText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kSparseSegmentFunctionsText));
  return *text;
}

absl::Status BadRow(const SparseSegmentOp& op, int64_t rows, int64_t segments, uint64_t where) {
  const bool is_index = where >> 63 != 0;
  const uint64_t position = where >> 32 & element::kMostRowsTold;
  const uint32_t told = static_cast<uint32_t>(where);
  if (!is_index && !op.is_gradient) {
    if (told == element::kNegativeId) return InvalidArgument("segment ids must be >= 0");
    if (told == element::kIdBeforeLast) return InvalidArgument("segment ids are not increasing");
    return InvalidArgument("segment ids must be < num_segments");
  }
  const int64_t value = static_cast<int64_t>(told) - (int64_t{1} << 31);
  if (op.is_gradient) {
    return InvalidArgument(is_index ? "Index" : "Segment id",
                           told == 0 ? "" : absl::StrCat(" ", value), " out of range [0, ",
                           is_index ? rows : segments, ").");
  }
  std::string index = "Bad: indices";
  if (position < element::kMostRowsTold) absl::StrAppend(&index, "[", position, "]");
  if (told != 0) absl::StrAppend(&index, " == ", value);
  return InvalidArgument(index, " out of range [0, ", rows, ")");
}

}  // namespace formwork
