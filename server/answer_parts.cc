#include "server/answer_parts.h"

#include <utility>

#include "core/base/utf8.h"
#include "formwork/v1/calls.pb.h"
#include "server/status_to_grpc.h"
#include "server/timeline_codec.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

size_t VarintFieldSize(uint64_t value) { return value == 0 ? 0 : 1 + VarintSize(value); }

size_t DimsSize(const Shape& shape) {
  size_t bytes = 0;
  for (int64_t dim : shape.dims()) bytes += VarintSize(static_cast<uint64_t>(dim));
  return bytes;
}

}  // namespace

size_t ClientFunctionQuestion::EncodedSize() const {
  size_t bytes = VarintFieldSize(id) + BytesFieldSize(token.size());
  for (const CallOutput& input : inputs) bytes += BytesFieldSize(EncodedValueSize(input));
  return bytes;
}

void AnswerParts::AddPrinted(absl::string_view text) {
  if (printed_bytes_ + text.size() > 4 * chunk_bytes_) {
    if (!std::exchange(left_out_, true)) {
      printed_.push_back("[what was printed while nobody read was left out]\n");
    }
    return;
  }
  printed_bytes_ += text.size();
  printed_.push_back(ToValidUtf8(text));
}

void AnswerParts::SetResult(CallResult result) {
  for (const std::string& text : result.printed) AddPrinted(text);
  result.printed.clear();
  size_t whole_bytes = 0;  // Of the outputs that go with the last part.
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    CallOutput& output = result.outputs[i];
    if (output.kept_id != 0 || output.opaque != DType::kInvalid || !CanLeave(output.tensor)) {
      continue;
    }
    ContentPieces pieces(output.tensor);
    bytes_ += pieces.total();
    if (pieces.total() == 0 || whole_bytes + pieces.total() <= chunk_bytes_) {
      whole_bytes += pieces.total();
    } else {
      chunked_.push_back({i, std::move(pieces)});
    }
  }
  if (result.timeline != nullptr) {
    timeline_ = EncodeTimeline(*result.timeline);
    result.timeline = nullptr;
    // Beside outputs of a chunk's size; where messages are small there is no room for it.
    if (timeline_.size() > 4 * chunk_bytes_) timeline_.clear();
  }
  result_ = std::move(result);
}

void AnswerParts::WriteChunk(WireWriter* writer) {
  Chunked& chunked = chunked_[next_chunked_];
  const Tensor& tensor = result_->outputs[chunked.output].tensor;
  const uint64_t dtype = static_cast<uint64_t>(tensor.dtype());
  const size_t dims = DimsSize(tensor.shape());
  ContentPieces& pieces = chunked.pieces;
  const size_t content = pieces.NextSize(chunk_bytes_);
  writer->BytesHeader(v1::CallResponse::kChunkFieldNumber,
                      VarintFieldSize(chunked.output) + VarintFieldSize(pieces.written()) +
                          VarintFieldSize(pieces.total()) + VarintFieldSize(dtype) +
                          (tensor.rank() == 0 ? 0 : BytesFieldSize(dims)) +
                          BytesFieldSize(content));
  writer->VarintField(v1::OutputChunk::kOutputFieldNumber, chunked.output);
  writer->VarintField(v1::OutputChunk::kOffsetFieldNumber, pieces.written());
  writer->VarintField(v1::OutputChunk::kTotalBytesFieldNumber, pieces.total());
  writer->VarintField(v1::OutputChunk::kDtypeFieldNumber, dtype);
  if (tensor.rank() != 0) {
    writer->BytesHeader(v1::OutputChunk::kDimsFieldNumber, dims);
    for (int64_t dim : tensor.shape().dims()) writer->Varint(static_cast<uint64_t>(dim));
  }
  writer->BytesHeader(kValues, content);
  pieces.Write(chunk_bytes_, writer);
  bytes_ -= content;
  if (pieces.written() < pieces.total()) return;
  // What stays for the last part: dtype and dims.
  result_->outputs[chunked.output].tensor = Tensor::ShapeOnly(tensor.dtype(), tensor.shape());
  chunked.pieces = ContentPieces(Tensor());
  ++next_chunked_;
}

void AnswerParts::WriteQuestion(WireWriter* writer) {
  writer->BytesHeader(v1::CallResponse::kClientFunctionFieldNumber, question_->EncodedSize());
  writer->VarintField(v1::ClientFunctionRequest::kIdFieldNumber, question_->id);
  writer->StringField(v1::ClientFunctionRequest::kTokenFieldNumber, question_->token);
  for (const CallOutput& input : question_->inputs) WriteValue(input, writer);
  question_.reset();
}

grpc::ByteBuffer AnswerParts::Next() {
  WireWriter writer;
  writer.VarintField(v1::CallResponse::kEpochFieldNumber, epoch_);
  writer.VarintField(v1::CallResponse::kCallIdFieldNumber, call_id_);
  if (result_) writer.VarintField(v1::CallResponse::kFunctionIdFieldNumber, result_->function_id);
  for (const std::string& text : printed_)
    writer.StringField(v1::CallResponse::kPrintedFieldNumber, text);
  printed_.clear();
  printed_bytes_ = 0;
  left_out_ = false;
  const bool last = result_ && next_chunked_ == chunked_.size();
  if (!last) {
    writer.VarintField(v1::CallResponse::kMoreFieldNumber, 1);
    if (question_) WriteQuestion(&writer);
    if (result_) WriteChunk(&writer);
    return writer.Finish();
  }
  if (!result_->status.ok()) {
    writer.StringField(
        v1::CallResponse::kErrorFieldNumber,
        ToErrorMessage(result_->status, result_->details, epoch_).SerializeAsString());
  }
  if (!timeline_.empty()) writer.StringField(v1::CallResponse::kTimelineFieldNumber, timeline_);
  size_t next = 0;
  for (size_t i = 0; i < result_->outputs.size(); ++i) {
    const CallOutput& output = result_->outputs[i];
    if (next < chunked_.size() && chunked_[next].output == i) {
      ++next;
      WriteValueWithoutContent(output.tensor, &writer);
    } else {
      WriteValue(output, &writer);
    }
  }
  result_->outputs.clear();
  bytes_ = 0;
  done_ = true;
  return writer.Finish();
}

}  // namespace formwork::server
