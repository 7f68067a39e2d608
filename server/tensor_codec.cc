#include "server/tensor_codec.h"

#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "core/base/checked_math.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/tensor/bools.h"

namespace formwork::server {
namespace {

// formwork.v1.Tensor's fields.
constexpr uint32_t kDtype = 1;
constexpr uint32_t kDims = 2;
constexpr uint32_t kContent = 15;

// Below this a copy is cheaper than a slice of its own.
constexpr size_t kReferenceBytes = 4096;
// Received bytes that are worth a task of their own to gather.
constexpr int64_t kGatherGrain = int64_t{1} << 20;

absl::Status ContentMismatch(int64_t have, DType dtype, const Shape& shape, int64_t want) {
  return InvalidArgument("Tensor: content has another size than dtype and dims say: bytes=", have,
                         " expected=", want, " dtype=", std::string(DTypeName(dtype)),
                         " dims=", shape.ToString());
}

size_t DimsPayloadSize(const Shape& shape) {
  size_t bytes = 0;
  for (int64_t dim : shape.dims()) bytes += VarintSize(static_cast<uint64_t>(dim));
  return bytes;
}

size_t ContentSize(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) return tensor.bytes();
  size_t bytes = 0;
  for (const std::string& element : tensor.span<std::string>()) {
    bytes += sizeof(uint32_t) + element.size();
  }
  return bytes;
}

}  // namespace

void TensorParts::AddDim(uint64_t dim) {
  // One more than any shape may have is enough for Build to refuse it.
  if (dims_.size() <= static_cast<size_t>(kMaxRank)) dims_.push_back(static_cast<int64_t>(dim));
}

bool TensorParts::Parse(WireReader message) {
  while (!message.done()) {
    uint32_t tag;
    uint64_t value;
    WireReader packed;
    if (!message.ReadTag(&tag)) return false;
    switch (tag) {
      case MakeTag(kDtype, WireType::kVarint):
        if (!message.ReadVarint(&value)) return false;
        dtype_ = static_cast<int32_t>(value);
        break;
      case MakeTag(kDims, WireType::kVarint):
        if (!message.ReadVarint(&value)) return false;
        AddDim(value);
        break;
      case MakeTag(kDims, WireType::kBytes):
        if (!message.ReadNested(&packed)) return false;
        while (!packed.done()) {
          if (!packed.ReadVarint(&value)) return false;
          AddDim(value);
        }
        break;
      case MakeTag(kContent, WireType::kBytes):
        if (!message.ReadNested(&content_)) return false;
        break;
      default:
        if (!message.SkipField(tag)) return false;
    }
  }
  return true;
}

absl::StatusOr<Tensor> TensorParts::Build(Allocator& allocator) const {
  const DType dtype = dtype_ > 0 && dtype_ < 256 ? static_cast<DType>(dtype_) : DType::kInvalid;
  if (!IsKnown(dtype)) return InvalidArgument("Tensor: unknown dtype: ", dtype_);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims_));
  if (dtype == DType::kString) return BuildStrings(allocator, shape);
  if (!IsPlainData(dtype)) {
    return InvalidArgument("Tensor: values of this dtype cannot be sent: ",
                           std::string(DTypeName(dtype)));
  }
  const int64_t have = static_cast<int64_t>(content_.remaining());
  const std::optional<int64_t> want =
      CheckedMul(shape.num_elements(), static_cast<int64_t>(DTypeSize(dtype)));
  if (want != have) return ContentMismatch(have, dtype, shape, want.value_or(-1));
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, dtype, shape));
  char* const out = static_cast<char*>(tensor.mutable_raw());
  ParallelFor(have, kGatherGrain, [&](int64_t begin, int64_t end) {
    WireReader piece = content_;
    piece.Skip(static_cast<size_t>(begin));
    piece.CopyTo(out + begin, static_cast<size_t>(end - begin));
  });
  if (dtype == DType::kBool) NormaliseBools(tensor);
  return tensor;
}

absl::StatusOr<Tensor> TensorParts::BuildStrings(Allocator& allocator, const Shape& shape) const {
  const int64_t have = static_cast<int64_t>(content_.remaining());
  // Each element takes at least its length: no more memory is asked for than was sent for.
  if (shape.num_elements() > have / static_cast<int64_t>(sizeof(uint32_t))) {
    return InvalidArgument("Tensor: content is too short for its strings: bytes=", have,
                           " dims=", shape.ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, DType::kString, shape));
  WireReader content = content_;
  int64_t index = 0;
  for (std::string& element : tensor.mutable_span<std::string>()) {
    uint32_t length;
    if (!content.ReadFixed32(&length) || length > content.remaining()) {
      return InvalidArgument("Tensor: string is longer than the content: element=", index);
    }
    element.resize(length);
    content.CopyTo(element.data(), length);
    ++index;
  }
  if (!content.done()) {
    return InvalidArgument("Tensor: bytes behind the last string: ", content.remaining());
  }
  return tensor;
}

TensorParts TensorParts::Of(const v1::Tensor& message, absl::string_view* chunk) {
  *chunk = message.content();
  TensorParts parts;
  parts.dtype_ = message.dtype();
  for (int64_t dim : message.dims()) parts.AddDim(static_cast<uint64_t>(dim));
  parts.content_ = WireReader(absl::MakeConstSpan(chunk, 1), chunk->size());
  return parts;
}

absl::StatusOr<Tensor> TensorFromMessage(const v1::Tensor& message, Allocator& allocator) {
  absl::string_view chunk;
  return TensorParts::Of(message, &chunk).Build(allocator);
}

size_t EncodedTensorSize(const Tensor& tensor) {
  const size_t content = ContentSize(tensor);
  size_t bytes = 1 + VarintSize(static_cast<uint64_t>(tensor.dtype()));
  if (tensor.rank() > 0) bytes += BytesFieldSize(DimsPayloadSize(tensor.shape()));
  if (content > 0) bytes += BytesFieldSize(content);
  return bytes;
}

void WriteTensor(const Tensor& tensor, WireWriter* writer) {
  writer->VarintField(kDtype, static_cast<uint64_t>(tensor.dtype()));
  if (tensor.rank() > 0) {
    writer->BytesHeader(kDims, DimsPayloadSize(tensor.shape()));
    for (int64_t dim : tensor.shape().dims()) writer->Varint(static_cast<uint64_t>(dim));
  }
  const size_t content = ContentSize(tensor);
  if (content == 0) return;
  writer->BytesHeader(kContent, content);
  if (tensor.dtype() == DType::kString) {
    for (const std::string& element : tensor.span<std::string>()) {
      const uint32_t length = static_cast<uint32_t>(element.size());
      writer->Raw(&length, sizeof(length));
      writer->Raw(element.data(), element.size());
    }
  } else if (tensor.buffer() && content >= kReferenceBytes) {
    writer->Reference(tensor.buffer(), tensor.raw(), content);
  } else {
    writer->Raw(tensor.raw(), content);
  }
}

}  // namespace formwork::server
