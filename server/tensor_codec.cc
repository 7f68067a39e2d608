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

// Below this a copy is cheaper than a slice of its own.
constexpr size_t kReferenceBytes = 4096;
// Received bytes that are worth a task of their own to gather.
constexpr int64_t kGatherGrain = int64_t{1} << 20;

absl::Status ContentMismatch(int64_t have, DType dtype, const Shape& shape, int64_t want) {
  return InvalidArgument("Tensor: content has another size than dtype and dims say: bytes=", have,
                         " expected=", want, " dtype=", std::string(DTypeName(dtype)),
                         " dims=", shape.ToString());
}

size_t DimsPayloadSize(absl::Span<const int64_t> dims) {
  size_t bytes = 0;
  for (int64_t dim : dims) bytes += VarintSize(static_cast<uint64_t>(dim));
  return bytes;
}

absl::Span<const std::string> StringsOf(const TensorRange& range) {
  return range.tensor.span<std::string>().subspan(static_cast<size_t>(range.begin),
                                                  static_cast<size_t>(range.count));
}

size_t ContentSize(const TensorRange& range) {
  const DType dtype = range.tensor.dtype();
  if (dtype != DType::kString) return static_cast<size_t>(range.count) * DTypeSize(dtype);
  size_t bytes = 0;
  for (const std::string& element : StringsOf(range)) bytes += sizeof(uint32_t) + element.size();
  return bytes;
}

TensorRange All(const Tensor& tensor) { return {tensor, 0, tensor.num_elements()}; }

size_t MessageSize(const TensorRange& range, absl::Span<const int64_t> dims) {
  const size_t content = ContentSize(range);
  size_t bytes = 1 + VarintSize(static_cast<uint64_t>(range.tensor.dtype()));
  if (!dims.empty()) bytes += BytesFieldSize(DimsPayloadSize(dims));
  if (content > 0) bytes += BytesFieldSize(content);
  return bytes;
}

void WriteMessage(const TensorRange& range, absl::Span<const int64_t> dims, WireWriter* writer) {
  const DType dtype = range.tensor.dtype();
  writer->VarintField(v1::Tensor::kDtypeFieldNumber, static_cast<uint64_t>(dtype));
  if (!dims.empty()) {
    writer->BytesHeader(v1::Tensor::kDimsFieldNumber, DimsPayloadSize(dims));
    for (int64_t dim : dims) writer->Varint(static_cast<uint64_t>(dim));
  }
  const size_t content = ContentSize(range);
  if (content == 0) return;
  writer->BytesHeader(v1::Tensor::kContentFieldNumber, content);
  if (dtype != DType::kString) {
    return WriteBytes(range.tensor, static_cast<size_t>(range.begin) * DTypeSize(dtype), content,
                      writer);
  }
  writer->Reserve(content);
  for (const std::string& element : StringsOf(range)) {
    const uint32_t length = static_cast<uint32_t>(element.size());
    writer->Raw(&length, sizeof(length));
    writer->Raw(element.data(), element.size());
  }
}

}  // namespace

void WriteBytes(const Tensor& tensor, size_t offset, size_t bytes, WireWriter* writer) {
  const char* from = static_cast<const char*>(tensor.raw()) + offset;
  if (tensor.buffer() && bytes >= kReferenceBytes) {
    writer->Reference(tensor.buffer(), from, bytes);
  } else {
    writer->Raw(from, bytes);
  }
}

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
      case MakeTag(v1::Tensor::kDtypeFieldNumber, WireType::kVarint):
        if (!message.ReadVarint(&value)) return false;
        dtype_ = static_cast<int32_t>(value);
        break;
      case MakeTag(v1::Tensor::kDimsFieldNumber, WireType::kVarint):
        if (!message.ReadVarint(&value)) return false;
        AddDim(value);
        break;
      case MakeTag(v1::Tensor::kDimsFieldNumber, WireType::kBytes):
        if (!message.ReadNested(&packed)) return false;
        while (!packed.done()) {
          if (!packed.ReadVarint(&value)) return false;
          AddDim(value);
        }
        break;
      case MakeTag(v1::Tensor::kContentFieldNumber, WireType::kBytes):
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

TensorParts TensorParts::Of(DType dtype, const Shape& shape, const absl::string_view& chunk) {
  return Of(dtype, shape.dims(), WireReader(absl::MakeConstSpan(&chunk, 1), chunk.size()));
}

TensorParts TensorParts::Of(DType dtype, absl::Span<const int64_t> dims, WireReader content) {
  TensorParts parts;
  parts.dtype_ = static_cast<int32_t>(dtype);
  for (int64_t dim : dims) parts.AddDim(static_cast<uint64_t>(dim));
  parts.content_ = content;
  return parts;
}

absl::StatusOr<Tensor> TensorFromMessage(const v1::Tensor& message, Allocator& allocator) {
  absl::string_view chunk;
  return TensorParts::Of(message, &chunk).Build(allocator);
}

size_t EncodedTensorSize(const Tensor& tensor) {
  return MessageSize(All(tensor), tensor.shape().dims());
}

void WriteTensor(const Tensor& tensor, WireWriter* writer) {
  WriteMessage(All(tensor), tensor.shape().dims(), writer);
}

size_t EncodedTensorSize(const TensorRange& range) { return MessageSize(range, {range.count}); }

void WriteTensor(const TensorRange& range, WireWriter* writer) {
  WriteMessage(range, {range.count}, writer);
}

ContentPieces::ContentPieces(const Tensor& tensor)
    : tensor_(tensor), total_(ContentSize(All(tensor))) {}

void ContentPieces::Write(size_t most, WireWriter* writer) {
  const size_t bytes = NextSize(most);
  if (tensor_.dtype() == DType::kString) {
    WriteStrings(bytes, writer);
  } else {
    WriteBytes(tensor_, written_, bytes, writer);
  }
  written_ += bytes;
}

void ContentPieces::WriteStrings(size_t bytes, WireWriter* writer) {
  writer->Reserve(bytes);
  const absl::Span<const std::string> strings = tensor_.span<std::string>();
  while (bytes > 0) {
    const std::string& element = strings[static_cast<size_t>(element_)];
    const uint32_t length = static_cast<uint32_t>(element.size());
    size_t piece;
    if (element_bytes_ < sizeof(length)) {
      piece = std::min(bytes, sizeof(length) - element_bytes_);
      writer->Raw(reinterpret_cast<const char*>(&length) + element_bytes_, piece);
    } else {
      piece = std::min(bytes, sizeof(length) + element.size() - element_bytes_);
      writer->Raw(element.data() + (element_bytes_ - sizeof(length)), piece);
    }
    bytes -= piece;
    element_bytes_ += piece;
    if (element_bytes_ == sizeof(length) + element.size()) {
      ++element_;
      element_bytes_ = 0;
    }
  }
}

}  // namespace formwork::server
