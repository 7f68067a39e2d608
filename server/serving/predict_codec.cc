#include "server/serving/predict_codec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/graph/decode.h"
#include "core/graph/parse_message.h"
#include "core/tensor/bools.h"
#include "formwork/serving/prediction_service.pb.h"
#include "formwork/tf/tensor.pb.h"
#include "server/call_codec.h"
#include "server/parsed_message.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

using tensorflow::serving::PredictRequest;
using tensorflow::serving::PredictResponse;
using WireModelSpec = tensorflow::serving::ModelSpec;

constexpr char kPredictRequest[] = "PredictRequest";
constexpr uint32_t kMapKey = 1;
constexpr uint32_t kMapValue = 2;
// Of google.protobuf.Int64Value, TensorShapeProto and its Dim.
constexpr uint32_t kWrappedValue = 1;
constexpr uint32_t kShapeDim = 2;
constexpr uint32_t kDimSize = 1;

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
          read = nested.ReadTag(&tag) && (tag == MakeTag(kWrappedValue, WireType::kVarint)
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
    if (tag != MakeTag(kShapeDim, WireType::kBytes)) {
      if (!reader.SkipField(tag)) return false;
      continue;
    }
    uint64_t size = 0;
    if (!reader.ReadNested(&dim)) return false;
    while (!dim.done()) {
      if (!dim.ReadTag(&tag)) return false;
      if (!(tag == MakeTag(kDimSize, WireType::kVarint) ? dim.ReadVarint(&size)
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
  FORMWORK_RETURN_IF_ERROR(ParseMessage(bytes, "TensorProto", *proto));
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

// --- Answers ---

// The field of a TensorProto that has a dtype's elements, and how.
struct ElementField {
  enum class Form : uint8_t { kAsTheyLie, kVarints, kStrings };
  uint32_t number;
  Form form;
};

ElementField FieldOf(DType dtype) {
  using Field = tf::TensorProto;
  using Form = ElementField::Form;
  switch (dtype) {
    case DType::kFloat:
      return {Field::kFloatValFieldNumber, Form::kAsTheyLie};
    case DType::kDouble:
      return {Field::kDoubleValFieldNumber, Form::kAsTheyLie};
    case DType::kComplex64:
      return {Field::kScomplexValFieldNumber, Form::kAsTheyLie};
    case DType::kComplex128:
      return {Field::kDcomplexValFieldNumber, Form::kAsTheyLie};
    case DType::kBool:  // Varints of one byte each.
      return {Field::kBoolValFieldNumber, Form::kAsTheyLie};
    case DType::kInt32:
    case DType::kInt16:
    case DType::kInt8:
    case DType::kUint16:
    case DType::kUint8:
      return {Field::kIntValFieldNumber, Form::kVarints};
    case DType::kInt64:
      return {Field::kInt64ValFieldNumber, Form::kVarints};
    case DType::kUint32:
      return {Field::kUint32ValFieldNumber, Form::kVarints};
    case DType::kUint64:
      return {Field::kUint64ValFieldNumber, Form::kVarints};
    case DType::kHalf:
    case DType::kBfloat16:
      return {Field::kHalfValFieldNumber, Form::kVarints};
    case DType::kString:
      return {Field::kStringValFieldNumber, Form::kStrings};
    default:
      return {Field::kTensorContentFieldNumber, Form::kAsTheyLie};
  }
}

template <typename T, typename Visit>
void EachOf(const Tensor& tensor, Visit visit) {
  const T* const elements = static_cast<const T*>(tensor.raw());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    // Negative ones are sign-extended, as protobuf has them.
    visit(static_cast<uint64_t>(static_cast<int64_t>(elements[i])));
  }
}

template <typename Visit>
void EachVarint(const Tensor& tensor, Visit visit) {
  switch (tensor.dtype()) {
    case DType::kInt32:
      return EachOf<int32_t>(tensor, visit);
    case DType::kInt16:
      return EachOf<int16_t>(tensor, visit);
    case DType::kInt8:
      return EachOf<int8_t>(tensor, visit);
    case DType::kUint8:
      return EachOf<uint8_t>(tensor, visit);
    case DType::kInt64:
    case DType::kUint64:
      return EachOf<int64_t>(tensor, visit);
    case DType::kUint32:
      return EachOf<uint32_t>(tensor, visit);
    default:  // uint16, and the bits of half and bfloat16.
      return EachOf<uint16_t>(tensor, visit);
  }
}

// What a tensor takes on the wire, counted once.
struct EncodedSize {
  size_t shape = 0;     // Of the TensorShapeProto.
  size_t elements = 0;  // Of the packed field; of strings: of all their fields.
  size_t all = 0;       // Of the TensorProto.
};

size_t DimBytes(int64_t dim) { return dim == 0 ? 0 : 1 + VarintSize(static_cast<uint64_t>(dim)); }

EncodedSize SizeOf(const Tensor& tensor) {
  EncodedSize size;
  for (const int64_t dim : tensor.shape().dims()) size.shape += BytesFieldSize(DimBytes(dim));
  const ElementField field = FieldOf(tensor.dtype());
  const size_t tag = VarintSize(MakeTag(field.number, WireType::kBytes));
  size.all = 1 + VarintSize(static_cast<uint64_t>(tensor.dtype())) + BytesFieldSize(size.shape);
  if (field.form == ElementField::Form::kStrings) {
    for (const std::string& text : tensor.span<std::string>()) {
      size.elements += tag + VarintSize(text.size()) + text.size();
    }
    size.all += size.elements;
    return size;
  }
  if (field.form == ElementField::Form::kVarints) {
    EachVarint(tensor, [&size](uint64_t value) { size.elements += VarintSize(value); });
  } else {
    size.elements = tensor.bytes();
  }
  if (size.elements > 0) size.all += tag + VarintSize(size.elements) + size.elements;
  return size;
}

void WriteTensorProto(const Tensor& tensor, const EncodedSize& size, WireWriter* writer) {
  writer->VarintField(tf::TensorProto::kDtypeFieldNumber, static_cast<uint64_t>(tensor.dtype()));
  writer->BytesHeader(tf::TensorProto::kTensorShapeFieldNumber, size.shape);
  for (const int64_t dim : tensor.shape().dims()) {
    writer->BytesHeader(kShapeDim, DimBytes(dim));
    writer->VarintField(kDimSize, static_cast<uint64_t>(dim));
  }
  if (size.elements == 0) return;
  const ElementField field = FieldOf(tensor.dtype());
  if (field.form == ElementField::Form::kStrings) {
    writer->Reserve(size.elements);
    for (const std::string& text : tensor.span<std::string>()) {
      writer->BytesHeader(field.number, text.size());
      writer->Raw(text.data(), text.size());
    }
    return;
  }
  writer->BytesHeader(field.number, size.elements);
  if (field.form == ElementField::Form::kAsTheyLie) {
    return WriteBytes(tensor, 0, size.elements, writer);
  }
  writer->Reserve(size.elements);
  EachVarint(tensor, [writer](uint64_t value) { writer->Varint(value); });
}

size_t ModelSpecSize(const ModelSpec& model) {
  size_t size = 0;
  if (!model.name.empty()) size += BytesFieldSize(model.name.size());
  if (model.version != 0) size += BytesFieldSize(1 + VarintSize(model.version));
  if (!model.signature.empty()) size += BytesFieldSize(model.signature.size());
  return size;
}

void WriteModelSpec(const ModelSpec& model, WireWriter* writer) {
  if (!model.name.empty()) writer->StringField(WireModelSpec::kNameFieldNumber, model.name);
  if (model.version != 0) {
    writer->BytesHeader(WireModelSpec::kVersionFieldNumber, 1 + VarintSize(model.version));
    writer->VarintField(kWrappedValue, model.version);
  }
  if (!model.signature.empty()) {
    writer->StringField(WireModelSpec::kSignatureNameFieldNumber, model.signature);
  }
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

absl::Status EncodePredictResponse(const ModelSpec& model, absl::Span<const std::string> names,
                                   absl::Span<const Tensor> values, size_t limit,
                                   grpc::ByteBuffer* message) {
  const size_t spec_size = ModelSpecSize(model);
  std::vector<EncodedSize> sizes;
  std::vector<size_t> entries;
  size_t total = BytesFieldSize(spec_size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!CanLeave(values[i])) {
      return InvalidArgument("output '", names[i],
                             "' cannot be sent: dtype=", std::string(DTypeName(values[i].dtype())));
    }
    sizes.push_back(SizeOf(values[i]));
    entries.push_back(BytesFieldSize(names[i].size()) + BytesFieldSize(sizes.back().all));
    total += BytesFieldSize(entries.back());
  }
  if (total > limit) {
    return ResponseTooLarge(total, limit, "name in output_filter what is needed");
  }
  WireWriter writer;
  for (size_t i = 0; i < values.size(); ++i) {
    writer.BytesHeader(PredictResponse::kOutputsFieldNumber, entries[i]);
    writer.StringField(kMapKey, names[i]);
    writer.BytesHeader(kMapValue, sizes[i].all);
    WriteTensorProto(values[i], sizes[i], &writer);
  }
  writer.BytesHeader(PredictResponse::kModelSpecFieldNumber, spec_size);
  WriteModelSpec(model, &writer);
  *message = writer.Finish();
  return absl::OkStatus();
}

}  // namespace formwork::server
