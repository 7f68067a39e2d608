#include "formwork/message_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "formwork/status_from_grpc.h"

namespace formwork::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Tags of fields whose numbers are below 16: formwork/v1/types.proto and graph_service.proto.
constexpr uint32_t Bytes(uint32_t field) { return field << 3 | 2; }
constexpr uint32_t Varint(uint32_t field) { return field << 3; }
constexpr uint32_t kValues = 15;  // Of requests and responses; also a Tensor's content.
constexpr uint32_t kTensor = 1;   // Of a Value.

// Below this a copy is cheaper than a slice of its own.
constexpr size_t kSliceBytes = 4096;
// Room for the fields of a call and for small inputs.
constexpr size_t kSmallCallBytes = 256;

void AppendVarint(std::string* to, uint64_t value) {
  uint8_t bytes[10];
  to->append(reinterpret_cast<const char*>(bytes),
             CodedOutputStream::WriteVarint64ToArray(value, bytes) - bytes);
}

void AppendHeader(std::string* to, uint32_t field, size_t bytes) {
  AppendVarint(to, Bytes(field));
  AppendVarint(to, bytes);
}

// As proto3 has it, what is 0 or empty is left out.
void AppendField(std::string* to, uint32_t field, uint64_t value) {
  if (value == 0) return;
  AppendVarint(to, Varint(field));
  AppendVarint(to, value);
}

void AppendField(std::string* to, uint32_t field, absl::string_view bytes) {
  if (bytes.empty()) return;
  AppendHeader(to, field, bytes.size());
  to->append(bytes.data(), bytes.size());
}

// The Tensor message up to its content.
std::string TensorHead(const Tensor& tensor) {
  std::string dims;
  for (const int64_t dim : tensor.dims()) AppendVarint(&dims, static_cast<uint64_t>(dim));
  std::string head;
  AppendField(&head, v1::Tensor::kDtypeFieldNumber, static_cast<uint64_t>(tensor.dtype()));
  AppendField(&head, v1::Tensor::kDimsFieldNumber, dims);
  if (tensor.bytes() > 0) AppendHeader(&head, kValues, tensor.bytes());
  return head;
}

// A message in the making: small pieces are joined, large ones stay where they are.
class Writer {
 public:
  std::string& text() { return text_; }

  void Content(const Tensor& tensor) {
    for (const grpc::Slice& piece : tensor.Pieces()) {
      if (piece.size() < kSliceBytes) {
        text_.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
      } else {
        Flush();
        slices_.push_back(piece);
      }
    }
  }

  grpc::ByteBuffer Finish() {
    Flush();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Flush() {
    if (!text_.empty()) slices_.emplace_back(text_);
    text_.clear();
  }

  std::string text_;
  absl::InlinedVector<grpc::Slice, 2> slices_;
};

void WriteInput(const Value& input, Writer* writer) {
  if (const Tensor* tensor = std::get_if<Tensor>(&input)) {
    const std::string head = TensorHead(*tensor);
    const size_t tensor_bytes = head.size() + tensor->bytes();
    std::string outer;
    AppendHeader(&outer, kTensor, tensor_bytes);
    AppendHeader(&writer->text(), kValues, outer.size() + tensor_bytes);
    writer->text() += outer;
    writer->text() += head;
    return writer->Content(*tensor);
  }
  v1::Value value;
  if (const auto* resource = std::get_if<ResourceId>(&input)) value.set_resource_id(resource->id);
  if (const auto* kept = std::get_if<KeptTensor>(&input)) value.set_kept_tensor_id(kept->id);
  if (const auto* opaque = std::get_if<Opaque>(&input)) {
    value.mutable_opaque()->set_dtype(opaque->dtype);
  }
  const std::string bytes = value.SerializeAsString();
  AppendHeader(&writer->text(), kValues, bytes.size());
  writer->text() += bytes;
}

// Walks over a received message; what is large is only noted by its place. Methods return false
// where the bytes are malformed.
class Reader {
 public:
  explicit Reader(const grpc::ByteBuffer& message) : message_(message) {
    auto slices = std::make_shared<std::vector<grpc::Slice>>();
    if (message.Valid()) ok_ = message.Dump(slices.get()).ok();
    slices_ = std::move(slices);
    if (slices_->size() == 1) {
      in_.emplace(slices_->front().begin(), static_cast<int>(slices_->front().size()));
    } else {
      stream_.emplace(&message_);
      in_.emplace(&*stream_);
    }
  }

  CodedInputStream& in() { return *in_; }
  bool ok() const { return ok_; }
  bool AtEnd() { return in_->ConsumedEntireMessage(); }

  // Runs `field(tag)` for each field of the length-delimited message that comes next.
  template <typename Field>
  bool Nested(Field field) {
    uint32_t length;
    if (!in_->ReadVarint32(&length)) return false;
    const auto limit = in_->PushLimit(static_cast<int>(length));
    while (const uint32_t tag = in_->ReadTag()) {
      if (!field(tag)) return false;
    }
    if (!in_->ConsumedEntireMessage()) return false;
    in_->PopLimit(limit);
    return true;
  }

  bool Skip(uint32_t tag) { return WireFormatLite::SkipField(&*in_, tag); }

  bool ReadString(std::string* text) {
    uint32_t length;
    return in_->ReadVarint32(&length) && in_->ReadString(text, static_cast<int>(length));
  }

  bool ReadTensor(Tensor* tensor);
  bool ReadValue(Value* value);

 private:
  grpc::ByteBuffer message_;
  MessageSlices slices_;
  std::optional<grpc::ProtoBufferReader> stream_;  // Of a message of several slices.
  std::optional<CodedInputStream> in_;
  bool ok_ = true;
};

bool Reader::ReadTensor(Tensor* tensor) {
  uint64_t dtype = 0;
  std::vector<int64_t> dims;
  size_t offset = 0;
  uint32_t bytes = 0;
  const bool read = Nested([&](uint32_t tag) {
    uint64_t dim;
    switch (tag) {
      case Varint(1):
        return in_->ReadVarint64(&dtype);
      case Varint(2):
        if (!in_->ReadVarint64(&dim)) return false;
        dims.push_back(static_cast<int64_t>(dim));
        return true;
      case Bytes(2): {
        uint32_t length;
        if (!in_->ReadVarint32(&length)) return false;
        const auto limit = in_->PushLimit(static_cast<int>(length));
        while (in_->BytesUntilLimit() > 0) {
          if (!in_->ReadVarint64(&dim)) return false;
          dims.push_back(static_cast<int64_t>(dim));
        }
        in_->PopLimit(limit);
        return true;
      }
      case Bytes(kValues):
        if (!in_->ReadVarint32(&bytes)) return false;
        offset = static_cast<size_t>(in_->CurrentPosition());
        return in_->Skip(static_cast<int>(bytes));
      default:
        return Skip(tag);
    }
  });
  if (!read) return false;
  *tensor = Tensor::Received(static_cast<DataType>(dtype), std::move(dims), slices_, offset, bytes);
  return true;
}

bool Reader::ReadValue(Value* value) {
  return Nested([&](uint32_t tag) {
    uint64_t id;
    switch (tag) {
      case Bytes(kTensor):
        return ReadTensor(&value->emplace<Tensor>());
      case Varint(2):
        if (!in_->ReadVarint64(&id)) return false;
        value->emplace<ResourceId>().id = id;
        return true;
      case Varint(3):
        if (!in_->ReadVarint64(&id)) return false;
        value->emplace<KeptTensor>().id = id;
        return true;
      case Bytes(4): {
        Opaque& opaque = value->emplace<Opaque>();
        return Nested([&](uint32_t inner) {
          if (inner != Varint(1)) return Skip(inner);
          if (!in_->ReadVarint64(&id)) return false;
          opaque.dtype = static_cast<DataType>(id);
          return true;
        });
      }
      default:
        return Skip(tag);
    }
  });
}

// A google.protobuf.Duration; empty where it is not positive.
std::string Serialized(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return "";
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  google::protobuf::Duration message;
  message.set_seconds(nanos / 1000000000);
  message.set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return message.SerializeAsString();
}

absl::Status Malformed() { return absl::InternalError("the server's response is malformed"); }

// `read(&reader)` reads field 15; the others' bytes go to `others`.
template <typename Read>
bool Split(const grpc::ByteBuffer& message, std::string* others, Read read) {
  Reader reader(message);
  CodedInputStream& in = reader.in();
  bool ok = reader.ok();
  google::protobuf::io::StringOutputStream stream(others);
  CodedOutputStream out(&stream);
  while (ok) {
    const uint32_t tag = in.ReadTag();
    if (tag == 0) break;
    ok = tag == Bytes(kValues) ? read(&reader) : WireFormatLite::SkipField(&in, tag, &out);
  }
  return ok && reader.AtEnd();
}

}  // namespace

// By hand: a message object costs more than a small call's bytes.
grpc::ByteBuffer EncodeCall(const CallRequest& request, absl::string_view name_space,
                            const NumberedRequest& number) {
  using Head = v1::CallRequest;
  Writer writer;
  std::string* head = &writer.text();
  head->reserve(kSmallCallBytes);
  AppendField(head, Head::kNamespaceFieldNumber, name_space);
  AppendField(head, Head::kClientIdFieldNumber, number.client_id());
  AppendField(head, Head::kSequenceFieldNumber, number.sequence());
  AppendField(head, Head::kAcknowledgedFieldNumber, number.acknowledged());
  if (request.function_id != 0) {
    AppendField(head, Head::kFunctionIdFieldNumber, request.function_id);
  } else {
    AppendField(head, Head::kFunctionNameFieldNumber, request.name);
  }
  AppendField(head, Head::kKeepOutputsFieldNumber, request.keep_outputs);
  AppendField(head, Head::kKeepFromFieldNumber, request.keep_from);
  AppendField(head, Head::kKeepForFieldNumber, Serialized(request.keep_for));
  AppendField(head, Head::kCallIdFieldNumber, request.call_id);
  AppendField(head, Head::kTimelineFieldNumber, request.timeline);
  AppendField(head, Head::kAtomicFieldNumber, request.atomic);
  AppendField(head, Head::kRelaxedFieldNumber, request.relaxed);
  AppendField(head, Head::kTimeoutFieldNumber, Serialized(request.timeout));
  for (const Value& input : request.inputs) WriteInput(input, &writer);
  return writer.Finish();
}

absl::StatusOr<CallResponse> DecodeCall(const grpc::ByteBuffer& message) {
  Reader reader(message);
  CodedInputStream& in = reader.in();
  CallResponse response;
  bool ok = reader.ok();
  while (ok) {
    const uint32_t tag = in.ReadTag();
    if (tag == 0) break;
    std::string text;
    switch (tag) {
      case Varint(1):
        ok = in.ReadVarint64(&response.epoch);
        break;
      case Varint(2):
        ok = in.ReadVarint64(&response.call_id);
        break;
      case Varint(3):
        ok = in.ReadVarint64(&response.function_id);
        break;
      case Bytes(4):
        ok = reader.ReadString(&response.printed.emplace_back());
        break;
      case Bytes(5): {
        rpc::Status error;
        ok = reader.ReadString(&text) && error.ParseFromString(text);
        if (ok) response.status = StatusFrom(error);
        break;
      }
      case Bytes(9):
        ok = reader.ReadString(&text) && response.timeline.emplace().ParseFromString(text);
        break;
      case Bytes(kValues):
        ok = reader.ReadValue(&response.outputs.emplace_back());
        break;
      default:
        ok = reader.Skip(tag);
    }
  }
  if (!ok || !reader.AtEnd()) return Malformed();
  return response;
}

grpc::ByteBuffer AppendAssignment(std::string message, const std::string& assignment,
                                  const Tensor& value) {
  Writer writer;
  const std::string head = TensorHead(value);
  const size_t tensor_bytes = head.size() + value.bytes();
  std::string outer;  // The assignment up to the tensor: Value's field and its own.
  AppendHeader(&outer, kTensor, tensor_bytes);
  std::string before = assignment;
  AppendHeader(&before, kValues, outer.size() + tensor_bytes);
  before += outer;
  writer.text() = std::move(message);
  AppendHeader(&writer.text(), kValues, before.size() + tensor_bytes);
  writer.text() += before;
  writer.text() += head;
  writer.Content(value);
  return writer.Finish();
}

absl::StatusOr<WithTensor> SplitTensor(const grpc::ByteBuffer& message) {
  WithTensor parts;
  if (!Split(message, &parts.others,
             [&](Reader* reader) { return reader->ReadTensor(&parts.value); })) {
    return Malformed();
  }
  return parts;
}

absl::StatusOr<WithValue> SplitValue(const grpc::ByteBuffer& message) {
  WithValue parts;
  if (!Split(message, &parts.others,
             [&](Reader* reader) { return reader->ReadValue(&parts.value); })) {
    return Malformed();
  }
  return parts;
}

}  // namespace formwork::client
