#include "server/serving/predict_codec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/graph/decode.h"
#include "core/tensor/bools.h"
#include "formwork/serving/prediction_service.pb.h"
#include "formwork/tf/tensor.pb.h"
#include "formwork/tf/tensor_shape.pb.h"
#include "google/protobuf/wrappers.pb.h"
#include "server/call_codec.h"
#include "server/parsed_message.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

using google::protobuf::Int64Value;
using tensorflow::serving::PredictRequest;
using WireModelSpec = tensorflow::serving::ModelSpec;

constexpr char kPredictRequest[] = "PredictRequest";

bool ReadModelSpec(WireReader reader, ModelSpec* model, bool* has_label) {
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    std::string label;
    if (!reader.ReadTag(&tag)) return false;
    bool read = true;
    switch (tag) {
      case MakeTag(WireModelSpec::kNameFieldNumber, WireType::kBytes):
        read = reader.ReadString(&model->name);
        break;
      case MakeTag(WireModelSpec::kSignatureNameFieldNumber, WireType::kBytes):
        read = reader.ReadString(&model->signature);
        break;
      case MakeTag(WireModelSpec::kVersionFieldNumber, WireType::kBytes):
        *has_label = false;
        read = reader.ReadNested(&nested);
        while (read && !nested.done()) {
          read = nested.ReadTag(&tag) &&
                 (tag == MakeTag(Int64Value::kValueFieldNumber, WireType::kVarint)
                      ? nested.ReadVarint(&model->version)
                      : nested.SkipField(tag));
        }
        break;
      case MakeTag(WireModelSpec::kVersionLabelFieldNumber, WireType::kBytes):
        *has_label = true;
        read = reader.ReadString(&label);
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return false;
  }
  return true;
}

// A TensorShapeProto; false where it is malformed.
bool ReadShape(WireReader reader, Dims* dims) {
  while (!reader.done()) {
    uint32_t tag;
    WireReader dim;
    if (!reader.ReadTag(&tag)) return false;
    if (tag != MakeTag(tf::TensorShapeProto::kDimFieldNumber, WireType::kBytes)) {
      if (!reader.SkipField(tag)) return false;
      continue;
    }
    uint64_t size = 0;
    if (!reader.ReadNested(&dim)) return false;
    while (!dim.done()) {
      if (!dim.ReadTag(&tag)) return false;
      if (!(tag == MakeTag(tf::TensorShapeProto_Dim::kSizeFieldNumber, WireType::kVarint)
                ? dim.ReadVarint(&size)
                : dim.SkipField(tag))) {
        return false;
      }
    }
    // One more than any shape may have is enough to be refused.
    if (dims->size() <= static_cast<size_t>(kMaxRank)) {
      dims->push_back(static_cast<int64_t>(size));
    }
  }
  return true;
}

// What of a TensorProto has its elements in one piece.
struct FlatTensor {
  uint64_t dtype = 0;
  Dims dims;
  std::optional<WireReader> content;
  bool has_other = false;  // Fields that this does not read.
};

bool ReadFlatTensor(WireReader reader, FlatTensor* tensor) {
  using Field = tf::TensorProto;
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    uint64_t ignored;
    if (!reader.ReadTag(&tag)) return false;
    bool read = true;
    switch (tag) {
      case MakeTag(Field::kDtypeFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&tensor->dtype);
        break;
      case MakeTag(Field::kTensorShapeFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&nested) && ReadShape(nested, &tensor->dims);
        break;
      case MakeTag(Field::kTensorContentFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&tensor->content.emplace());
        break;
      case MakeTag(Field::kVersionNumberFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&ignored);
        break;
      default:
        tensor->has_other = true;
        read = reader.SkipField(tag);
    }
    if (!read) return false;
  }
  return true;
}

// One TensorProto, in pieces that are merged, as protobuf does where a field is there twice.
using Pieces = absl::InlinedVector<WireReader, 1>;

absl::StatusOr<Tensor> TensorFrom(const Pieces& pieces, Allocator& allocator) {
  FlatTensor flat;
  for (const WireReader& piece : pieces) {
    if (!ReadFlatTensor(piece, &flat)) return Malformed("TensorProto");
  }
  const DType dtype = DTypeFromNumber(static_cast<int>(std::min<uint64_t>(flat.dtype, 1 << 16)));
  if (flat.content && !flat.has_other && IsPlainData(dtype)) {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(flat.dims));
    const std::optional<int64_t> want =
        CheckedMul(shape.num_elements(), static_cast<int64_t>(DTypeSize(dtype)));
    if (want == static_cast<int64_t>(flat.content->remaining()) && *want > 0) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, dtype, shape));
      flat.content->CopyTo(tensor.mutable_raw(), static_cast<size_t>(*want));
      if (dtype == DType::kBool) NormaliseBools(tensor);
      return tensor;
    }
  }
  // Of all other forms, and of what is wrong, the importer knows.
  std::string bytes;
  for (WireReader piece : pieces) {
    const size_t size = piece.remaining();
    bytes.resize(bytes.size() + size);
    piece.CopyTo(bytes.data() + bytes.size() - size, size);
  }
  ArenaMessage<tf::TensorProto> proto;
  if (!proto->ParseFromString(bytes)) return Malformed("TensorProto");
  return DecodeTensor(*proto, allocator);
}

absl::Status AddPredictInput(WireReader entry, Allocator& allocator, DecodedPredict* predict) {
  if (predict->names.size() >= kMaxInputs) {
    return InvalidArgument("Predict: too many inputs: limit=", kMaxInputs);
  }
  std::string name;
  Pieces pieces;
  while (!entry.done()) {
    uint32_t tag;
    if (!entry.ReadTag(&tag)) return Malformed(kPredictRequest);
    const bool read = tag == MakeTag(kMapKey, WireType::kBytes) ? entry.ReadString(&name)
                      : tag == MakeTag(kMapValue, WireType::kBytes)
                          ? entry.ReadNested(&pieces.emplace_back())
                          : entry.SkipField(tag);
    if (!read) return Malformed(kPredictRequest);
  }
  absl::StatusOr<Tensor> tensor = TensorFrom(pieces, allocator);
  if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("input '", name, "'"));
  predict->names.push_back(std::move(name));
  predict->values.push_back(*std::move(tensor));
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodePredictRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                  DecodedPredict* predict) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  bool has_label = false;
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    if (!reader.ReadTag(&tag)) return Malformed(kPredictRequest);
    bool read = true;
    switch (tag) {
      case MakeTag(PredictRequest::kModelSpecFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&nested) && ReadModelSpec(nested, &predict->model, &has_label);
        break;
      case MakeTag(PredictRequest::kInputsFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&nested);
        if (read) FORMWORK_RETURN_IF_ERROR(AddPredictInput(nested, allocator, predict));
        break;
      case MakeTag(PredictRequest::kOutputFilterFieldNumber, WireType::kBytes):
        if (predict->output_filter.size() >= kMaxInputs) {
          return InvalidArgument("Predict: output_filter is too long: limit=", kMaxInputs);
        }
        read = reader.ReadString(&predict->output_filter.emplace_back());
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed(kPredictRequest);
  }
  if (has_label) return Unimplemented("versions by their labels (model_spec.version_label)");
  return absl::OkStatus();
}

}  // namespace formwork::server
