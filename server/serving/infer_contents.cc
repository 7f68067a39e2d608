#include "server/serving/infer_contents.h"

#include <limits>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "formwork/serving/inference_service.pb.h"
#include "server/serving/infer.h"
#include "server/value_codec.h"

namespace formwork::server {
namespace {

using Contents = inference::InferTensorContents;

// Where a dtype's elements are, and how.
struct ContentsField {
  uint32_t number = 0;  // 0: nowhere.
  WireType type = WireType::kVarint;
  size_t least_bytes = 1;  // Of an element.
};

ContentsField ContentsFieldOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {Contents::kBoolContentsFieldNumber};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return {Contents::kIntContentsFieldNumber};
    case DType::kInt64:
      return {Contents::kInt64ContentsFieldNumber};
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
      return {Contents::kUintContentsFieldNumber};
    case DType::kUint64:
      return {Contents::kUint64ContentsFieldNumber};
    case DType::kFloat:
      return {Contents::kFp32ContentsFieldNumber, WireType::kFixed32, sizeof(float)};
    case DType::kDouble:
      return {Contents::kFp64ContentsFieldNumber, WireType::kFixed64, sizeof(double)};
    case DType::kString:
      return {Contents::kBytesContentsFieldNumber, WireType::kBytes, 2};
    default:
      return {};
  }
}

// Reads one element; false where it is malformed. `*fits`: whether T has its value.
template <typename T>
bool ReadContentsElement(WireReader& reader, T* element, bool* fits) {
  if constexpr (std::is_same_v<T, std::string>) {
    WireReader text;
    if (!reader.ReadNested(&text)) return false;
    element->resize(text.remaining());
    text.CopyTo(element->data(), element->size());
  } else if constexpr (std::is_floating_point_v<T>) {
    if (reader.remaining() < sizeof(T)) return false;
    reader.CopyTo(element, sizeof(T));
  } else {
    uint64_t bits;
    if (!reader.ReadVarint(&bits)) return false;
    if constexpr (std::is_same_v<T, bool>) {
      *element = bits != 0;
    } else if constexpr (sizeof(T) == sizeof(uint64_t)) {
      *element = static_cast<T>(bits);
    } else {
      // As protobuf reads a field of 32 bits.
      using Wide = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
      const Wide wide = static_cast<Wide>(bits);
      *element = static_cast<T>(wide);
      *fits = *element == wide;
    }
  }
  return true;
}

// Fills a tensor's elements.
template <typename T>
class ContentsReader {
 public:
  ContentsReader(const ContentsField& field, Tensor& tensor)
      : field_(field), name_(DTypeName(tensor.dtype())), elements_(tensor.mutable_span<T>()) {}

  absl::Status Read(WireReader contents) {
    while (!contents.done()) {
      uint32_t tag;
      if (!contents.ReadTag(&tag)) return Malformed(kName);
      const bool is_single = tag == MakeTag(field_.number, field_.type);
      if (is_single) {
        FORMWORK_RETURN_IF_ERROR(ReadOne(contents));
      } else if (tag == MakeTag(field_.number, WireType::kBytes)) {
        WireReader packed;
        if (!contents.ReadNested(&packed)) return Malformed(kName);
        FORMWORK_RETURN_IF_ERROR(ReadPacked(packed));
      } else {
        FORMWORK_RETURN_IF_ERROR(PassOver(tag, contents));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    if (count_ == elements_.size()) return absl::OkStatus();
    return InvalidArgument("contents has fewer elements than the shape: elements=", count_,
                           " expected=", elements_.size());
  }

 private:
  static constexpr char kName[] = "InferTensorContents";

  absl::Status ReadOne(WireReader& reader) {
    if (count_ == elements_.size()) {
      return InvalidArgument("contents has more elements than the shape: expected=",
                             elements_.size());
    }
    bool fits = true;
    if (!ReadContentsElement(reader, &elements_[count_], &fits)) return Malformed(kName);
    if (!fits) {
      return InvalidArgument("contents: element ", count_, " is beyond the range of ", name_);
    }
    ++count_;
    return absl::OkStatus();
  }

  absl::Status ReadPacked(WireReader packed) {
    if constexpr (std::is_floating_point_v<T>) {
      const size_t count = packed.remaining() / sizeof(T);
      if (count * sizeof(T) != packed.remaining()) return Malformed(kName);
      if (count > 0 && count <= elements_.size() - count_) {
        packed.CopyTo(&elements_[count_], packed.remaining());
        count_ += count;
        return absl::OkStatus();
      }
    }
    while (!packed.done()) FORMWORK_RETURN_IF_ERROR(ReadOne(packed));
    return absl::OkStatus();
  }

  // A field that is not the dtype's: none that has elements.
  absl::Status PassOver(uint32_t tag, WireReader& contents) {
    const size_t before = contents.remaining();
    if (!contents.SkipField(tag)) return Malformed(kName);
    const uint32_t number = tag >> 3;
    const bool has_elements = before - contents.remaining() > 1;  // More than a length of 0.
    if (number >= Contents::kBoolContentsFieldNumber &&
        number <= Contents::kBytesContentsFieldNumber && number != field_.number && has_elements) {
      return InvalidArgument("contents has elements in a field that is not of ", name_,
                             ": field=", number, " expected=", field_.number);
    }
    return absl::OkStatus();
  }

  const ContentsField field_;
  const absl::string_view name_;
  const absl::Span<T> elements_;
  size_t count_ = 0;
};

template <typename T>
absl::Status FillFromContents(absl::Span<const WireReader> contents, const ContentsField& field,
                              Tensor& tensor) {
  ContentsReader<T> reader(field, tensor);
  for (const WireReader& piece : contents) FORMWORK_RETURN_IF_ERROR(reader.Read(piece));
  return reader.Finish();
}

absl::Status FillFromContents(absl::Span<const WireReader> contents, const ContentsField& field,
                              Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kBool:
      return FillFromContents<bool>(contents, field, tensor);
    case DType::kInt8:
      return FillFromContents<int8_t>(contents, field, tensor);
    case DType::kInt16:
      return FillFromContents<int16_t>(contents, field, tensor);
    case DType::kInt32:
      return FillFromContents<int32_t>(contents, field, tensor);
    case DType::kInt64:
      return FillFromContents<int64_t>(contents, field, tensor);
    case DType::kUint8:
      return FillFromContents<uint8_t>(contents, field, tensor);
    case DType::kUint16:
      return FillFromContents<uint16_t>(contents, field, tensor);
    case DType::kUint32:
      return FillFromContents<uint32_t>(contents, field, tensor);
    case DType::kUint64:
      return FillFromContents<uint64_t>(contents, field, tensor);
    case DType::kFloat:
      return FillFromContents<float>(contents, field, tensor);
    case DType::kDouble:
      return FillFromContents<double>(contents, field, tensor);
    default:
      return FillFromContents<std::string>(contents, field, tensor);
  }
}

}  // namespace

absl::StatusOr<Tensor> ReadInferContents(absl::Span<const WireReader> contents, DType dtype,
                                         absl::Span<const int64_t> dims, Allocator& allocator) {
  const ContentsField field = ContentsFieldOf(dtype);
  if (field.number == 0) {
    return InvalidArgument("elements of ", DatatypeOf(dtype),
                           " are sent in raw_input_contents: contents has no field for them");
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  size_t bytes = 0;
  for (const WireReader& piece : contents) bytes += piece.remaining();
  if (shape.num_elements() > static_cast<int64_t>(bytes / field.least_bytes)) {
    return InvalidArgument("contents is too short for the shape: bytes=", bytes,
                           " shape=", shape.ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, dtype, shape));
  FORMWORK_RETURN_IF_ERROR(FillFromContents(contents, field, tensor));
  return tensor;
}

}  // namespace formwork::server
