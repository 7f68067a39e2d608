#include <vector>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "formwork/serving/inference_service.pb.h"
#include "server/serving/infer_codec.h"
#include "server/tensor_codec.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using OutputTensor = ModelInferResponse::InferOutputTensor;

// Triton's clients of streams may wait for a response that says so.
constexpr absl::string_view kFinalResponse = "triton_final_response";

constexpr size_t kMostErrorBytes = 4096;

size_t StringSize(absl::string_view text) { return text.empty() ? 0 : BytesFieldSize(text.size()); }

void WriteString(uint32_t field, absl::string_view text, WireWriter* writer) {
  if (!text.empty()) writer->StringField(field, text);
}

// A ModelInferResponse, whose sizes are counted once.
class InferResponse {
 public:
  InferResponse(const Prediction& prediction, bool is_final)
      : prediction_(prediction),
        is_final_(is_final),
        version_(VersionTextOf(prediction.model.version)) {
    size_ = StringSize(prediction.model.name) + StringSize(version_) +
            StringSize(prediction.request_id);
    if (is_final) size_ += BytesFieldSize(FinalSize());
    for (size_t i = 0; i < prediction.values.size(); ++i) {
      const Tensor& value = prediction.values[i];
      Output& output = outputs_.emplace_back(Output{value.shape().dims(), ContentPieces(value)});
      for (const int64_t dim : output.dims) {
        output.dims_size += VarintSize(static_cast<uint64_t>(dim));
      }
      output.size = StringSize(prediction.names[i]) + StringSize(DatatypeOf(value.dtype())) +
                    (output.dims.empty() ? 0 : BytesFieldSize(output.dims_size));
      size_ += BytesFieldSize(output.size) + BytesFieldSize(output.content.total());
    }
  }

  size_t size() const { return size_; }

  absl::Status CheckSize(size_t size, size_t limit) const {
    if (size <= limit) return absl::OkStatus();
    return ResponseTooLarge(size, limit, "name in outputs what is needed");
  }

  void Write(WireWriter* writer) {
    WriteString(ModelInferResponse::kModelNameFieldNumber, prediction_.model.name, writer);
    WriteString(ModelInferResponse::kModelVersionFieldNumber, version_, writer);
    WriteString(ModelInferResponse::kIdFieldNumber, prediction_.request_id, writer);
    if (is_final_) {
      writer->BytesHeader(ModelInferResponse::kParametersFieldNumber, FinalSize());
      writer->StringField(kMapKey, kFinalResponse);
      writer->BytesHeader(kMapValue, kTrueSize);
      writer->VarintField(inference::InferParameter::kBoolParamFieldNumber, 1);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Output& output = outputs_[i];
      writer->BytesHeader(ModelInferResponse::kOutputsFieldNumber, output.size);
      WriteString(OutputTensor::kNameFieldNumber, prediction_.names[i], writer);
      WriteString(OutputTensor::kDatatypeFieldNumber, DatatypeOf(prediction_.values[i].dtype()),
                  writer);
      if (output.dims.empty()) continue;
      writer->BytesHeader(OutputTensor::kShapeFieldNumber, output.dims_size);
      for (const int64_t dim : output.dims) writer->Varint(static_cast<uint64_t>(dim));
    }
    for (Output& output : outputs_) {
      const size_t bytes = output.content.total();
      writer->BytesHeader(ModelInferResponse::kRawOutputContentsFieldNumber, bytes);
      output.content.Write(bytes, writer);
    }
  }

 private:
  struct Output {
    absl::Span<const int64_t> dims;
    ContentPieces content;
    size_t dims_size = 0;
    size_t size = 0;  // Of its InferOutputTensor.
  };

  static constexpr size_t kTrueSize = 2;
  static size_t FinalSize() { return StringSize(kFinalResponse) + BytesFieldSize(kTrueSize); }

  const Prediction& prediction_;
  const bool is_final_;
  const std::string version_;
  std::vector<Output> outputs_;
  size_t size_ = 0;
};

}  // namespace

absl::Status EncodeInferResponse(const Prediction& prediction, size_t limit,
                                 grpc::ByteBuffer* message) {
  FORMWORK_RETURN_IF_ERROR(CheckDatatypes(prediction));
  InferResponse response(prediction, /*is_final=*/false);
  FORMWORK_RETURN_IF_ERROR(response.CheckSize(response.size(), limit));
  WireWriter writer;
  response.Write(&writer);
  *message = writer.Finish();
  return absl::OkStatus();
}

absl::Status EncodeStreamInferResponse(const Prediction& prediction, size_t limit,
                                       grpc::ByteBuffer* message) {
  FORMWORK_RETURN_IF_ERROR(CheckDatatypes(prediction));
  InferResponse response(prediction, /*is_final=*/true);
  FORMWORK_RETURN_IF_ERROR(response.CheckSize(BytesFieldSize(response.size()), limit));
  WireWriter writer;
  writer.BytesHeader(ModelStreamInferResponse::kInferResponseFieldNumber, response.size());
  response.Write(&writer);
  *message = writer.Finish();
  return absl::OkStatus();
}

grpc::ByteBuffer EncodeStreamInferError(const std::string& id, const absl::Status& error) {
  // What clients sent may be quoted in it.
  const absl::string_view text = error.message().substr(0, kMostErrorBytes);
  WireWriter writer;
  writer.StringField(ModelStreamInferResponse::kErrorMessageFieldNumber,
                     text.empty() ? absl::StatusCodeToString(error.code()) : ToValidUtf8(text));
  writer.BytesHeader(ModelStreamInferResponse::kInferResponseFieldNumber, StringSize(id));
  WriteString(ModelInferResponse::kIdFieldNumber, id, &writer);
  return writer.Finish();
}

}  // namespace formwork::server
