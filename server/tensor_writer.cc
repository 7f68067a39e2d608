#include "server/tensor_writer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/function/type_messages.h"
#include "core/tensor/bools.h"
#include "server/info_messages.h"
#include "server/parsed_message.h"
#include "server/read_call.h"
#include "server/status_to_grpc.h"
#include "server/tensor_codec.h"
#include "server/value_codec.h"

namespace formwork::server {
namespace {

// What is taken at first, whatever was announced.
constexpr size_t kFirstBytes = size_t{4} << 20;
constexpr size_t kMostHeadBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<GrowingTensor> GrowingTensor::Make(const v1::WriteTensorRequest& head,
                                                  Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(head.dtype()));
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(head.dims()));
  if (dtype == DType::kString) {
    if (head.total_bytes() / sizeof(uint32_t) < static_cast<uint64_t>(shape.num_elements())) {
      return InvalidArgument("WriteTensor: total_bytes is too small for its strings: bytes=",
                             head.total_bytes(), " dims=", shape.ToString());
    }
    return GrowingTensor(allocator, dtype, std::move(shape), DType::kUint8, head.total_bytes());
  }
  if (!IsPlainData(dtype)) {
    return InvalidArgument("WriteTensor: values of this dtype cannot be sent: ",
                           std::string(DTypeName(dtype)));
  }
  const std::optional<int64_t> total =
      CheckedMul(shape.num_elements(), static_cast<int64_t>(DTypeSize(dtype)));
  if (!total || (head.total_bytes() != 0 && head.total_bytes() != static_cast<uint64_t>(*total))) {
    return InvalidArgument("WriteTensor: total_bytes is not what dtype and dims say: bytes=",
                           head.total_bytes(), " expected=", total.value_or(-1));
  }
  return GrowingTensor(allocator, dtype, std::move(shape), dtype, static_cast<size_t>(*total));
}

absl::Status GrowingTensor::Grow(size_t bytes) {
  if (held_.has_value() && bytes <= held_.bytes()) return absl::OkStatus();
  const size_t doubled = held_.has_value() ? 2 * held_.bytes() : kFirstBytes;
  const size_t capacity = std::min(total_, std::max(bytes, doubled));
  const size_t element = DTypeSize(held_dtype_);
  const int64_t elements = static_cast<int64_t>((capacity + element - 1) / element);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({elements}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor larger, Tensor::Allocate(*allocator_, held_dtype_, shape));
  if (received_ > 0) std::memcpy(larger.mutable_raw(), held_.raw(), received_);
  held_ = std::move(larger);
  return absl::OkStatus();
}

absl::Status GrowingTensor::Append(WireReader content) {
  const size_t bytes = content.remaining();
  if (bytes > total_ - received_) {
    return InvalidArgument("WriteTensor: more bytes than the value has: expected=", total_);
  }
  FORMWORK_RETURN_IF_ERROR(Grow(received_ + bytes));
  content.CopyTo(static_cast<char*>(held_.mutable_raw()) + received_, bytes);
  received_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> GrowingTensor::Finish() && {
  if (received_ != total_) {
    return InvalidArgument("WriteTensor: bytes are missing: received=", received_,
                           " expected=", total_);
  }
  FORMWORK_RETURN_IF_ERROR(Grow(total_));
  if (dtype_ != DType::kString) {
    Tensor tensor = std::move(held_).Reshaped(shape_);
    if (dtype_ == DType::kBool) NormaliseBools(tensor);
    return tensor;
  }
  const absl::string_view chunk(static_cast<const char*>(held_.raw()), total_);
  return TensorParts::Of(dtype_, shape_, chunk).Build(*allocator_);
}

TensorWriter::TensorWriter(const RequestScope& scope, OpenStreams& open,
                           grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
    : scope_(scope), open_(open), context_(context), response_(response) {}

void TensorWriter::Start() {
  const absl::Status added = open_.Add(shared_from_this());
  if (!added.ok()) return End(added);
  StartRead(&incoming_);
}

void TensorWriter::OnReadDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    last_progress_ = absl::Now();
  }
  Guard([&] {
    const absl::Status begun = Begin(ok);
    if (!begun.ok()) End(begun);
  });
}

absl::Status TensorWriter::Begin(bool ok) {
  if (ok) {
    FORMWORK_ASSIGN_OR_RETURN(held_, HoldMessage(scope_, incoming_));
    if (incoming_.Length() < kLargeMessageBytes) {
      Take();
      return absl::OkStatus();
    }
  }
  // The end may take long, too: a value of strings is put together.
  auto work = [self = shared_from_this(), ok] {
    self->Guard([&] { ok ? self->Take() : self->Keep(); });
  };
  return scope_.transfers.Add(head_.name_space, std::move(work));
}

void TensorWriter::Take() {
  scope_.metrics.CountReceived(incoming_.Length());
  const absl::Status added = HoldToBudget(scope_.engine.memory(), [this] { return Add(); });
  incoming_.Clear();
  held_.Release();
  if (!added.ok()) return End(added);
  StartRead(&incoming_);
}

absl::Status TensorWriter::Add() {
  const ReceivedMessage received(incoming_);
  WireReader reader(received.chunks(), received.size());
  WireReader content;
  std::string head;  // The other fields: few, and in the first message alone.
  while (!reader.done()) {
    const WireReader before = reader;
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return Malformed("WriteTensorRequest");
    if (tag == MakeTag(v1::WriteTensorRequest::kContentFieldNumber, WireType::kBytes)) {
      if (!reader.ReadNested(&content)) return Malformed("WriteTensorRequest");
      continue;
    }
    if (!reader.SkipField(tag)) return Malformed("WriteTensorRequest");
    const size_t bytes = before.remaining() - reader.remaining();
    const size_t at = head.size();
    if (value_ != nullptr) continue;
    if (at + bytes > kMostHeadBytes) {
      return InvalidArgument(
          "WriteTensor: what the first message has besides content is too large: "
          "limit=",
          kMostHeadBytes);
    }
    head.resize(at + bytes);
    WireReader(before).CopyTo(head.data() + at, bytes);
  }
  if (value_ == nullptr) FORMWORK_RETURN_IF_ERROR(ReadHead(head));
  return value_->Append(content);
}

absl::Status TensorWriter::ReadHead(const std::string& bytes) {
  ArenaMessage<v1::WriteTensorRequest> head;
  if (!head->ParseFromString(bytes)) return Malformed("WriteTensorRequest");
  FORMWORK_ASSIGN_OR_RETURN(GrowingTensor made,
                            GrowingTensor::Make(*head, scope_.engine.allocator()));
  FORMWORK_ASSIGN_OR_RETURN(head_.owner, OwnerOf(head->client_id(), context_));
  head_.name_space = head->namespace_();
  head_.keep_for = DurationFrom(head->keep_for());
  value_ = std::make_unique<GrowingTensor>(std::move(made));
  return absl::OkStatus();
}

void TensorWriter::Keep() {
  End(HoldToBudget(scope_.engine.memory(), [this] { return TryKeep(); }));
}

absl::Status TensorWriter::TryKeep() {
  if (context_.IsCancelled()) return absl::CancelledError("the request was cancelled");
  if (value_ == nullptr) return InvalidArgument("WriteTensor: there is no value");
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, std::move(*value_).Finish());
  v1::WriteTensorResponse out;
  out.set_epoch(scope_.engine.epoch(head_.name_space));
  v1::KeptTensorInfo* info = out.mutable_tensor();
  info->set_dtype(static_cast<formwork::tf::DataType>(tensor.dtype()));
  for (int64_t dim : tensor.shape().dims()) info->add_dims(dim);
  info->set_bytes(tensor.bytes());
  info->set_owner(head_.owner);
  FORMWORK_ASSIGN_OR_RETURN(
      const uint64_t id,
      scope_.engine.KeepTensor(head_.name_space, head_.owner, head_.keep_for, std::move(tensor)));
  info->set_id(id);
  return Serialize(out, scope_.max_message_bytes, &response_);
}

void TensorWriter::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
  }
  value_ = nullptr;
  scope_.metrics.CountRequest("WriteTensor", status);
  Finish(ToGrpc(status, NothingDone(), scope_.engine.epoch(head_.name_space), &context_));
}

void TensorWriter::CloseWhenIdle() {
  absl::MutexLock lock(&mutex_);
  if (!finished_) context_.TryCancel();
}

void TensorWriter::EndIfIdle(absl::Time since) {
  absl::MutexLock lock(&mutex_);
  if (!finished_ && last_progress_ <= since) context_.TryCancel();
}

void TensorWriter::OnDone() { open_.Remove(this); }

}  // namespace formwork::server
