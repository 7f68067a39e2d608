#include "server/serving/predict_codec.h"

#include "core/base/status.h"
#include "formwork/serving/prediction_service.pb.h"
#include "formwork/tf/tensor.pb.h"
#include "formwork/tf/tensor_shape.pb.h"
#include "google/protobuf/wrappers.pb.h"
#include "server/tensor_codec.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

using google::protobuf::Int64Value;
using tensorflow::serving::PredictResponse;
using WireModelSpec = tensorflow::serving::ModelSpec;

// The field of a TensorProto that has a dtype's elements, and how.
struct ElementField {
  enum class Form : uint8_t { kAsTheyLie, kVarints, kStrings };
  uint32_t number;
  Form form;
};

ElementField ElementFieldOf(DType dtype) {
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
  const ElementField field = ElementFieldOf(tensor.dtype());
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
    writer->BytesHeader(tf::TensorShapeProto::kDimFieldNumber, DimBytes(dim));
    writer->VarintField(tf::TensorShapeProto_Dim::kSizeFieldNumber, static_cast<uint64_t>(dim));
  }
  if (size.elements == 0) return;
  const ElementField field = ElementFieldOf(tensor.dtype());
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
    writer->VarintField(Int64Value::kValueFieldNumber, model.version);
  }
  if (!model.signature.empty()) {
    writer->StringField(WireModelSpec::kSignatureNameFieldNumber, model.signature);
  }
}

}  // namespace

absl::Status EncodePredictResponse(const Prediction& prediction, size_t limit,
                                   grpc::ByteBuffer* message) {
  const ModelSpec& model = prediction.model;
  const std::vector<std::string>& names = prediction.names;
  const std::vector<Tensor>& values = prediction.values;
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
