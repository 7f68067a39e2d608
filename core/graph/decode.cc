#include "core/graph/decode.h"

#include <algorithm>
#include <cstring>

#include <google/protobuf/io/coded_stream.h>

#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/graph/decode_variant.h"
#include "core/tensor/bools.h"

namespace formwork {
namespace {

constexpr int64_t kLargestSplat = int64_t{256} << 20;

// Fills `out` from a repeated field: its values, then the last one again.
template <typename T, typename Field, typename Convert>
absl::Status FillFrom(const Field& field, Tensor& out, Convert convert) {
  const int64_t n = out.num_elements();
  if (n == 0) return absl::OkStatus();  // TensorFlow gives tf.zeros([0], tf.string) a value.
  if (field.size() > n) {
    return InvalidArgument("tensor has more values than elements: values=", field.size(),
                           " elements=", n);
  }
  T* data = out.mutable_data<T>();
  for (int i = 0; i < field.size(); ++i) data[i] = convert(field.Get(i));
  const T last = field.empty() ? T() : data[field.size() - 1];
  std::fill(data + field.size(), data + n, last);
  return absl::OkStatus();
}

template <typename T>
absl::Status FillComplex(const auto& field, Tensor& out) {
  using C = std::complex<T>;
  const int64_t n = out.num_elements();
  const int64_t given = field.size() / 2;
  if (field.size() % 2 != 0 || given > n) {
    return InvalidArgument("tensor has a wrong number of complex values: ", field.size());
  }
  C* data = out.mutable_data<C>();
  for (int64_t i = 0; i < given; ++i) data[i] = C(field.Get(2 * i), field.Get(2 * i + 1));
  std::fill(data + given, data + n, given == 0 ? C() : data[given - 1]);
  return absl::OkStatus();
}

absl::Status FillValues(const tf::TensorProto& proto, Tensor& out) {
  auto as = [](auto convert) { return convert; };
  switch (out.dtype()) {
    case DType::kFloat:
      return FillFrom<float>(proto.float_val(), out, as([](float v) { return v; }));
    case DType::kDouble:
      return FillFrom<double>(proto.double_val(), out, as([](double v) { return v; }));
    case DType::kInt64:
      return FillFrom<int64_t>(proto.int64_val(), out, as([](int64_t v) { return v; }));
    case DType::kUint64:
      return FillFrom<uint64_t>(proto.uint64_val(), out, as([](uint64_t v) { return v; }));
    case DType::kUint32:
      return FillFrom<uint32_t>(proto.uint32_val(), out, as([](uint32_t v) { return v; }));
    case DType::kBool:
      return FillFrom<bool>(proto.bool_val(), out, as([](bool v) { return v; }));
    case DType::kString:
      return FillFrom<std::string>(proto.string_val(), out,
                                   as([](const std::string& v) { return v; }));
    case DType::kHalf:
    case DType::kBfloat16:
      return FillFrom<uint16_t>(proto.half_val(), out,
                                as([](int32_t v) { return static_cast<uint16_t>(v); }));
    case DType::kComplex64:
      return FillComplex<float>(proto.scomplex_val(), out);
    case DType::kComplex128:
      return FillComplex<double>(proto.dcomplex_val(), out);
    case DType::kInt32:
    case DType::kQint32:
      return FillFrom<int32_t>(proto.int_val(), out, as([](int32_t v) { return v; }));
    case DType::kInt16:
    case DType::kUint16:
    case DType::kQint16:
    case DType::kQuint16:
      return FillFrom<uint16_t>(proto.int_val(), out,
                                as([](int32_t v) { return static_cast<uint16_t>(v); }));
    case DType::kInt8:
    case DType::kUint8:
    case DType::kQint8:
    case DType::kQuint8:
    case DType::kInt4:
    case DType::kUint4:
    case DType::kInt2:
    case DType::kUint2:
      return FillFrom<uint8_t>(proto.int_val(), out,
                               as([](int32_t v) { return static_cast<uint8_t>(v); }));
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E4m3b11fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kFloat4E2m1fn: {
      const std::string& values = proto.float8_val();
      const int64_t n = out.num_elements();
      if (static_cast<int64_t>(values.size()) > n) {
        return InvalidArgument("tensor has more values than elements: values=", values.size(),
                               " elements=", n);
      }
      char* data = out.mutable_data<char>();
      std::copy(values.begin(), values.end(), data);
      std::fill(data + values.size(), data + n, values.empty() ? '\0' : values.back());
      return absl::OkStatus();
    }
    default:
      return Unimplemented("a constant of dtype ", DTypeName(out.dtype()), " is not supported");
  }
}

// Strings in tensor_content: a varint for the length of each, then all of their bytes.
absl::StatusOr<Tensor> DecodeStrings(const std::string& content, const Shape& shape,
                                     Allocator& allocator) {
  auto wrong_size = [&] {
    return InvalidArgument("tensor content has a wrong size: dtype=string shape=", shape.ToString(),
                           " bytes=", content.size());
  };
  // Each length takes a byte at least: no more memory is asked for than was sent for.
  if (shape.num_elements() > static_cast<int64_t>(content.size())) return wrong_size();
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(content.data()),
                                               static_cast<int>(content.size()));
  std::vector<uint32_t> lengths(shape.num_elements());
  for (uint32_t& length : lengths) {
    if (!input.ReadVarint32(&length)) return wrong_size();
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, DType::kString, shape));
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    std::string& element = tensor.mutable_data<std::string>()[i];
    if (lengths[i] > content.size() || !input.ReadString(&element, static_cast<int>(lengths[i]))) {
      return wrong_size();
    }
  }
  if (static_cast<size_t>(input.CurrentPosition()) != content.size()) return wrong_size();
  return tensor;
}

// Variants in tensor_content stand there as strings do.
absl::StatusOr<Tensor> DecodeVariants(const tf::TensorProto& proto, const Shape& shape,
                                      Allocator& allocator) {
  const int64_t n = shape.num_elements();
  Tensor texts;
  const bool in_content = !proto.tensor_content().empty();
  if (in_content) {
    FORMWORK_ASSIGN_OR_RETURN(texts, DecodeStrings(proto.tensor_content(), shape, allocator));
  } else if (proto.variant_val_size() != n) {
    return InvalidArgument("tensor has not as many variants as elements: variants=",
                           proto.variant_val_size(), " elements=", n);
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, DType::kVariant, shape));
  for (int64_t i = 0; i < n; ++i) {
    tf::VariantTensorDataProto parsed;
    if (in_content && !parsed.ParseFromString(texts.data<std::string>()[i])) {
      return InvalidArgument("element ", i, " of a tensor is no variant");
    }
    FORMWORK_ASSIGN_OR_RETURN(
        tensor.mutable_data<Variant>()[i],
        DecodeVariant(in_content ? parsed : proto.variant_val(static_cast<int>(i)), allocator));
  }
  return tensor;
}

// A reference's number is that of what it refers to, and this.
constexpr int kReference = 100;

absl::StatusOr<DType> DecodeType(absl::string_view attr, int number) {
  // A reference is known by its op and counts as what it refers to.
  const DType dtype = DTypeFromNumber(number > kReference ? number - kReference : number);
  if (dtype == DType::kInvalid) {
    return InvalidArgument("attr '", attr, "' has an unknown dtype: ", number);
  }
  return dtype;
}

std::shared_ptr<const AttrMap> DecodeAttrMap(const auto& map, Allocator& allocator) {
  auto attrs = std::make_shared<AttrMap>();
  for (const auto& [name, value] : map) {
    if (value.value_case() == tf::AttrValue::kFunc)
      continue;  // Nesting is bounded by not going on.
    attrs->Set(name, DecodeUndeclaredAttr(value, allocator));
  }
  return attrs;
}

FuncAttr DecodeFunc(const tf::NameAttrList& proto, Allocator& allocator) {
  return {proto.name(), DecodeAttrMap(proto.attr(), allocator)};
}

absl::Status KindMismatch(const AttrDef& def) {
  return InvalidArgument("attr '", def.name, "' has a value of another kind than declared");
}

absl::Status CheckAllowed(const AttrDef& def, DType dtype) {
  if (def.allowed_types.empty() || std::find(def.allowed_types.begin(), def.allowed_types.end(),
                                             dtype) != def.allowed_types.end()) {
    return absl::OkStatus();
  }
  return InvalidArgument("attr '", def.name, "' does not allow dtype ", DTypeName(dtype));
}

absl::Status CheckAllowed(const AttrDef& def, const std::string& text) {
  if (def.allowed_strings.empty() ||
      std::find(def.allowed_strings.begin(), def.allowed_strings.end(), text) !=
          def.allowed_strings.end()) {
    return absl::OkStatus();
  }
  return InvalidArgument("attr '", def.name, "' does not allow the value: \"", text.substr(0, 100),
                         "\"");
}

absl::StatusOr<AttrValue> DecodeList(const AttrDef& def, const tf::AttrValue::ListValue& list,
                                     Allocator& allocator) {
  int64_t length = 0;
  AttrValue value;
  switch (def.kind) {
    case AttrKind::kInt:
      value = std::vector<int64_t>(list.i().begin(), list.i().end());
      length = list.i_size();
      break;
    case AttrKind::kFloat:
      value = std::vector<float>(list.f().begin(), list.f().end());
      length = list.f_size();
      break;
    case AttrKind::kBool:
      value = std::vector<bool>(list.b().begin(), list.b().end());
      length = list.b_size();
      break;
    case AttrKind::kString: {
      std::vector<std::string> texts(list.s().begin(), list.s().end());
      for (const std::string& text : texts) FORMWORK_RETURN_IF_ERROR(CheckAllowed(def, text));
      length = list.s_size();
      value = std::move(texts);
      break;
    }
    case AttrKind::kType: {
      std::vector<DType> types;
      for (int number : list.type()) {
        FORMWORK_ASSIGN_OR_RETURN(DType dtype, DecodeType(def.name, number));
        FORMWORK_RETURN_IF_ERROR(CheckAllowed(def, dtype));
        types.push_back(dtype);
      }
      length = list.type_size();
      value = std::move(types);
      break;
    }
    case AttrKind::kShape: {
      std::vector<PartialShape> shapes;
      for (const auto& proto : list.shape()) {
        FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, DecodeShape(proto));
        shapes.push_back(std::move(shape));
      }
      length = list.shape_size();
      value = std::move(shapes);
      break;
    }
    case AttrKind::kTensor: {
      std::vector<Tensor> tensors;
      for (const auto& proto : list.tensor()) {
        FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(proto, allocator));
        tensors.push_back(std::move(tensor));
      }
      length = list.tensor_size();
      value = std::move(tensors);
      break;
    }
    case AttrKind::kFunc: {
      std::vector<FuncAttr> functions;
      for (const auto& proto : list.func()) functions.push_back(DecodeFunc(proto, allocator));
      length = list.func_size();
      value = std::move(functions);
      break;
    }
  }
  if (def.minimum && length < *def.minimum) {
    return InvalidArgument("attr '", def.name, "' is too short: length=", length,
                           " minimum=", *def.minimum);
  }
  return value;
}

}  // namespace

DType DTypeFromNumber(int number) {
  if (number <= 0 || number >= 100) return DType::kInvalid;
  const DType dtype = static_cast<DType>(number);
  return IsKnown(dtype) ? dtype : DType::kInvalid;
}

absl::StatusOr<PartialShape> DecodeShape(const tf::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return PartialShape();
  Dims dims;
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  return PartialShape::Make(dims);
}

absl::StatusOr<Tensor> DecodeTensor(const tf::TensorProto& proto, Allocator& allocator) {
  const DType dtype = DTypeFromNumber(proto.dtype());
  if (dtype == DType::kInvalid)
    return InvalidArgument("tensor of an unknown dtype: ", proto.dtype());
  FORMWORK_ASSIGN_OR_RETURN(PartialShape partial, DecodeShape(proto.tensor_shape()));
  if (!partial.fully_known()) {
    return InvalidArgument("tensor of an unknown shape: ", partial.ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(partial.dims()));
  if (dtype == DType::kResource) {
    return Unimplemented("a constant of dtype ", DTypeName(dtype), " is not supported");
  }
  if (dtype == DType::kVariant) return DecodeVariants(proto, shape, allocator);
  const std::optional<int64_t> bytes =
      CheckedMul(shape.num_elements(), static_cast<int64_t>(DTypeSize(dtype)));
  const std::string& content = proto.tensor_content();
  if (dtype != DType::kString && !content.empty()) {
    if (!bytes || *bytes != static_cast<int64_t>(content.size())) {
      return InvalidArgument("tensor content has a wrong size: dtype=", DTypeName(dtype),
                             " shape=", shape.ToString(), " bytes=", content.size());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, dtype, shape));
    std::memcpy(tensor.mutable_raw(), content.data(), content.size());
    if (dtype == DType::kBool) NormaliseBools(tensor);
    return tensor;
  }
  if (!bytes || *bytes > kLargestSplat) {
    return ResourceExhausted("constant too large for its encoding: dtype=", DTypeName(dtype),
                             " shape=", shape.ToString());
  }
  if (dtype == DType::kString && !content.empty()) return DecodeStrings(content, shape, allocator);
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(allocator, dtype, shape));
  FORMWORK_RETURN_IF_ERROR(FillValues(proto, tensor));
  return tensor;
}

absl::StatusOr<AttrValue> DecodeAttr(const AttrDef& def, const tf::AttrValue& proto,
                                     Allocator& allocator) {
  using tf::AttrValue;
  if (def.is_list) {
    if (proto.value_case() != AttrValue::kList) return KindMismatch(def);
    return DecodeList(def, proto.list(), allocator);
  }
  switch (def.kind) {
    case AttrKind::kInt:
      if (proto.value_case() != AttrValue::kI) return KindMismatch(def);
      if (def.minimum && proto.i() < *def.minimum) {
        return InvalidArgument("attr '", def.name, "' is too small: value=", proto.i(),
                               " minimum=", *def.minimum);
      }
      return formwork::AttrValue(static_cast<int64_t>(proto.i()));
    case AttrKind::kFloat:
      if (proto.value_case() != AttrValue::kF) return KindMismatch(def);
      return formwork::AttrValue(proto.f());
    case AttrKind::kBool:
      if (proto.value_case() != AttrValue::kB) return KindMismatch(def);
      return formwork::AttrValue(proto.b());
    case AttrKind::kString:
      if (proto.value_case() != AttrValue::kS) return KindMismatch(def);
      FORMWORK_RETURN_IF_ERROR(CheckAllowed(def, proto.s()));
      return formwork::AttrValue(proto.s());
    case AttrKind::kType: {
      if (proto.value_case() != AttrValue::kType) return KindMismatch(def);
      FORMWORK_ASSIGN_OR_RETURN(DType dtype, DecodeType(def.name, proto.type()));
      FORMWORK_RETURN_IF_ERROR(CheckAllowed(def, dtype));
      return formwork::AttrValue(dtype);
    }
    case AttrKind::kShape: {
      if (proto.value_case() != AttrValue::kShape) return KindMismatch(def);
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, DecodeShape(proto.shape()));
      return formwork::AttrValue(std::move(shape));
    }
    case AttrKind::kTensor: {
      if (proto.value_case() != AttrValue::kTensor) return KindMismatch(def);
      FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(proto.tensor(), allocator));
      return formwork::AttrValue(std::move(tensor));
    }
    case AttrKind::kFunc:
      if (proto.value_case() != AttrValue::kFunc) return KindMismatch(def);
      return formwork::AttrValue(DecodeFunc(proto.func(), allocator));
  }
  return KindMismatch(def);
}

formwork::AttrValue DecodeUndeclaredAttr(const tf::AttrValue& proto, Allocator& allocator) {
  using tf::AttrValue;
  switch (proto.value_case()) {
    case AttrValue::kI:
      return static_cast<int64_t>(proto.i());
    case AttrValue::kF:
      return proto.f();
    case AttrValue::kB:
      return proto.b();
    case AttrValue::kS:
      return proto.s();
    case AttrValue::kType:
      if (DTypeFromNumber(proto.type()) == DType::kInvalid) return std::monostate();
      return DTypeFromNumber(proto.type());
    case AttrValue::kFunc:
      return FuncAttr{proto.func().name(), DecodeAttrMap(proto.func().attr(), allocator)};
    default:
      return std::monostate();
  }
}

}  // namespace formwork
