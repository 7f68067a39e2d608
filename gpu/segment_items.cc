#include "gpu/segment_items.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/item_source.h"
#include "gpu/segment_functions_text.h"

namespace formwork {
namespace {

absl::StatusOr<absl::string_view> IndexName(DType dtype) {
  if (dtype == DType::kInt32) return "int32_t";
  if (dtype == DType::kInt64) return "int64_t";
  return Unimplemented("indices of ", DTypeName(dtype), " on a GPU");
}

template <typename T>
formwork_element::Bytes16 BytesOf(T value) {
  formwork_element::Bytes16 bytes{};
  std::memcpy(&bytes, &value, sizeof(value));
  return bytes;
}

// The largest number of T, or the lowest.
template <typename T>
formwork_element::Bytes16 Bound(bool largest) {
  return BytesOf(largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest());
}

}  // namespace

absl::Span<const SegmentOp> SegmentOps() {
  static constexpr SegmentOp kOps[] = {{"UnsortedSegmentSum", "SegmentSum"},
                                       {"UnsortedSegmentProd", "SegmentProd"},
                                       {"UnsortedSegmentMax", "SegmentMax"},
                                       {"UnsortedSegmentMin", "SegmentMin"}};
  return kOps;
}

absl::StatusOr<std::string> SegmentItemName(const SegmentOp& op, DType dtype, DType ids) {
  FORMWORK_ASSIGN_OR_RETURN(const absl::string_view index, IndexName(ids));
  // Those of which memory can be exchanged; and of 8 bits there is none.
  if (ElementTypeName(dtype).empty() || dtype == DType::kBool || DTypeSize(dtype) == 1) {
    return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat("SegmentItem<", ElementTypeName(dtype), ", ", index, ", ", op.combine, ">");
}

formwork_element::Bytes16 FirstOfSegment(const SegmentOp& op, DType dtype) {
  if (op.combine == "SegmentSum") return {};
  const bool product = op.combine == "SegmentProd", largest = op.combine == "SegmentMin";
  switch (dtype) {
    case DType::kFloat:
      return product ? BytesOf(1.0f) : Bound<float>(largest);
    case DType::kDouble:
      return product ? BytesOf(1.0) : Bound<double>(largest);
    case DType::kHalf:
      return product ? BytesOf(half(1.0f)) : BytesOf(uint16_t(largest ? 0x7bff : 0xfbff));
    case DType::kBfloat16:
      return product ? BytesOf(bfloat16(1.0f)) : BytesOf(uint16_t(largest ? 0x7f7f : 0xff7f));
    case DType::kInt16:
      return product ? BytesOf(int16_t{1}) : Bound<int16_t>(largest);
    case DType::kInt32:
      return product ? BytesOf(int32_t{1}) : Bound<int32_t>(largest);
    case DType::kInt64:
      return product ? BytesOf(int64_t{1}) : Bound<int64_t>(largest);
    case DType::kUint16:
      return product ? BytesOf(uint16_t{1}) : Bound<uint16_t>(largest);
    case DType::kUint32:
      return product ? BytesOf(uint32_t{1}) : Bound<uint32_t>(largest);
    default:
      return product ? BytesOf(uint64_t{1}) : Bound<uint64_t>(largest);
  }
}

absl::Status SegmentOutOfRange(uint64_t where, int64_t count) {
  const uint64_t position = where >> 32;
  const uint32_t told = static_cast<uint32_t>(where);
  std::string id = "segment_ids";
  if (position < formwork_element::kMostTold) absl::StrAppend(&id, "[", position, "]");
  if (told != 0) absl::StrAppend(&id, " = ", static_cast<int64_t>(told) - (int64_t{1} << 31));
  return InvalidArgument(id, " is out of range [0, ", count, ")");
}

absl::StatusOr<std::string> CountItemName(DType dtype, DType values) {
  FORMWORK_ASSIGN_OR_RETURN(const absl::string_view index, IndexName(values));
  return absl::StrCat("CountItem<", ElementTypeName(dtype), ", ", index, ">");
}

absl::StatusOr<Dims> PrepareCounts(const Shape& values, const Tensor& size, const Shape& weights) {
  FORMWORK_ASSIGN_OR_RETURN(Dims dims, PrepareBincount(values.dims(), &size));
  if (weights.num_elements() != 0 && weights != values) {
    return InvalidArgument(
        "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts "
        "as all weights equal to 1. Received ",
        weights.ToString());
  }
  return dims;
}

absl::Status NegativeCounted() { return InvalidArgument("Input arr must be non-negative!"); }

std::string SegmentSource(absl::string_view item) {
  return ItemSource(item, absl::StrCat(kElementAccessText, kSegmentFunctionsText));
}

}  // namespace formwork
