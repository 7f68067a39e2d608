#include "core/function/type_messages.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/utf8.h"

namespace formwork {
namespace {

using Components = std::vector<TypeNode::Component>;

formwork::tf::DataType WireDType(DType dtype) { return static_cast<formwork::tf::DataType>(dtype); }

int FlatFrom(bool given, int32_t flat) { return given && flat >= 0 ? flat : -1; }

// In messages, kInvalid stands for "none": 0.
absl::StatusOr<DType> OptionalDTypeFrom(int32_t dtype) {
  if (dtype == 0) return DType::kInvalid;
  return DTypeFrom(dtype);
}

std::vector<std::string> StringsFrom(
    const google::protobuf::RepeatedPtrField<std::string>& strings) {
  return {strings.begin(), strings.end()};
}

absl::StatusOr<TypeNode> NodeFrom(const v1::Type& message);

absl::StatusOr<std::vector<TypeNode>> NodesFrom(
    const google::protobuf::RepeatedPtrField<v1::Type>& messages) {
  std::vector<TypeNode> nodes;
  nodes.reserve(messages.size());
  for (const v1::Type& message : messages) {
    FORMWORK_ASSIGN_OR_RETURN(TypeNode node, NodeFrom(message));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

absl::StatusOr<TypeNode> CompositeFrom(const v1::Type::CompositeType& message) {
  if (message.flat_size() > message.components_size()) {
    return InvalidArgument("composite: more flat places than components: ", message.flat_size());
  }
  Components components;
  for (int i = 0; i < message.components_size(); ++i) {
    TypeNode::Component component;
    FORMWORK_ASSIGN_OR_RETURN(component.dtype, DTypeFrom(message.components(i).dtype()));
    FORMWORK_ASSIGN_OR_RETURN(component.shape, ShapeFrom(message.components(i).shape()));
    if (i < message.flat_size()) component.flat = FlatFrom(true, message.flat(i));
    components.push_back(std::move(component));
  }
  std::optional<TypeNode::ByShape> by_shape;
  if (message.has_by_shape()) {
    const v1::Type::RaggedOrSparse& from = message.by_shape();
    by_shape = TypeNode::ByShape();
    FORMWORK_ASSIGN_OR_RETURN(by_shape->dtype, DTypeFrom(from.dtype()));
    FORMWORK_ASSIGN_OR_RETURN(by_shape->shape, ShapeFrom(from.shape()));
    FORMWORK_ASSIGN_OR_RETURN(by_shape->row_splits_dtype,
                              OptionalDTypeFrom(from.row_splits_dtype()));
    by_shape->ragged_rank = from.ragged_rank();
  }
  return TypeNode::Composite(message.class_name(), message.spec(), std::move(components),
                             std::move(by_shape));
}

absl::StatusOr<TypeNode> NodeFrom(const v1::Type& message) {
  switch (message.kind_case()) {
    case v1::Type::kTensor: {
      const auto& from = message.tensor();
      FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(from.dtype()));
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ShapeFrom(from.shape()));
      return TypeNode::Tensor(dtype, std::move(shape), FlatFrom(from.has_flat(), from.flat()));
    }
    case v1::Type::kVariable: {
      const auto& from = message.variable();
      FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(from.dtype()));
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ShapeFrom(from.shape()));
      return TypeNode::Variable(dtype, std::move(shape), from.trainable(), from.alias_id(),
                                FlatFrom(from.has_flat(), from.flat()));
    }
    case v1::Type::kLiteral:
      return TypeNode::Literal(message.literal().py(), message.literal().json());
    case v1::Type::kTuple: {
      FORMWORK_ASSIGN_OR_RETURN(auto items, NodesFrom(message.tuple().items()));
      return TypeNode::Tuple(std::move(items));
    }
    case v1::Type::kList: {
      FORMWORK_ASSIGN_OR_RETURN(auto items, NodesFrom(message.list().items()));
      return TypeNode::List(std::move(items));
    }
    case v1::Type::kDict: {
      FORMWORK_ASSIGN_OR_RETURN(auto items, NodesFrom(message.dict().items()));
      return TypeNode::Dict(StringsFrom(message.dict().keys()), std::move(items));
    }
    case v1::Type::kNamedTuple: {
      const auto& from = message.named_tuple();
      FORMWORK_ASSIGN_OR_RETURN(auto items, NodesFrom(from.items()));
      return TypeNode::NamedTuple(from.name(), StringsFrom(from.fields()), std::move(items));
    }
    case v1::Type::kAttrs: {
      const auto& from = message.attrs();
      FORMWORK_ASSIGN_OR_RETURN(auto items, NodesFrom(from.items()));
      return TypeNode::Attrs(from.name(), StringsFrom(from.fields()), std::move(items));
    }
    case v1::Type::kComposite:
      return CompositeFrom(message.composite());
    case v1::Type::kObject:
      return TypeNode::Object(message.object().class_name(), message.object().client(),
                              message.object().counter());
    case v1::Type::kOther:
      return TypeNode::Other(message.other().text());
    case v1::Type::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("a type of no kind");
}

template <typename Message>
void AddItems(const TypeNode& node, Message* message) {
  for (const TypeNode& item : node.items()) ToMessage(item, message->add_items());
}

void AddNamed(const TypeNode& node, v1::Type::NamedType* message) {
  message->set_name(ToValidUtf8(node.name()));
  for (const std::string& field : node.keys()) message->add_fields(field);
  AddItems(node, message);
}

void AddComposite(const TypeNode& node, v1::Type::CompositeType* message) {
  message->set_class_name(node.name());
  message->set_spec(node.text());
  for (const TypeNode::Component& component : node.components()) {
    v1::Type::Component* to = message->add_components();
    to->set_dtype(WireDType(component.dtype));
    ToMessage(component.shape, to->mutable_shape());
    message->add_flat(component.flat);
  }
  if (const std::optional<TypeNode::ByShape> by_shape = node.by_shape()) {
    v1::Type::RaggedOrSparse* to = message->mutable_by_shape();
    to->set_dtype(WireDType(by_shape->dtype));
    ToMessage(by_shape->shape, to->mutable_shape());
    to->set_ragged_rank(by_shape->ragged_rank);
    to->set_row_splits_dtype(WireDType(by_shape->row_splits_dtype));
  }
}

// What a tensor's and a variable's type share.
template <typename Message>
void AddTensor(const TypeNode& node, Message* message) {
  message->set_dtype(WireDType(node.dtype()));
  ToMessage(node.shape(), message->mutable_shape());
  if (node.flat() >= 0) message->set_flat(node.flat());
}

}  // namespace

void ToMessage(const PartialShape& shape, v1::Shape* message) {
  message->set_unknown_rank(!shape.known_rank());
  for (int64_t dim : shape.dims()) message->add_dims(dim);
}

void ToMessage(const TensorSpec& spec, v1::TensorSpec* message) {
  message->set_name(ToValidUtf8(spec.name));
  message->set_dtype(WireDType(spec.dtype));
  ToMessage(spec.shape, message->mutable_shape());
}

absl::StatusOr<PartialShape> ShapeFrom(const v1::Shape& message) {
  if (message.unknown_rank()) {
    if (message.dims_size() == 0) return PartialShape::Unknown();
    return InField(InvalidArgument("Shape: unknown rank, but it has dims: ", message.dims_size()),
                   "shape");
  }
  absl::StatusOr<PartialShape> shape = PartialShape::Make(message.dims());
  if (!shape.ok()) return InField(shape.status(), "shape");
  return shape;
}

absl::StatusOr<DType> DTypeFrom(int32_t dtype) {
  const DType known = dtype > 0 && dtype < 256 ? static_cast<DType>(dtype) : DType::kInvalid;
  if (!IsKnown(known)) return InField(InvalidArgument("unknown dtype: ", dtype), "dtype");
  return known;
}

absl::StatusOr<TensorSpec> TensorSpecFrom(const v1::TensorSpec& message) {
  TensorSpec spec;
  spec.name = message.name();
  FORMWORK_ASSIGN_OR_RETURN(spec.dtype, DTypeFrom(message.dtype()));
  FORMWORK_ASSIGN_OR_RETURN(spec.shape, ShapeFrom(message.shape()));
  return spec;
}

void ToMessage(const TypeNode& node, v1::Type* message) {
  switch (node.kind()) {
    case TypeKind::kTensor:
      return AddTensor(node, message->mutable_tensor());
    case TypeKind::kVariable:
      AddTensor(node, message->mutable_variable());
      message->mutable_variable()->set_trainable(node.trainable());
      return message->mutable_variable()->set_alias_id(node.alias_id());
    case TypeKind::kLiteral:
      message->mutable_literal()->set_py(node.name());
      return message->mutable_literal()->set_json(node.text());
    case TypeKind::kTuple:
      return AddItems(node, message->mutable_tuple());
    case TypeKind::kList:
      return AddItems(node, message->mutable_list());
    case TypeKind::kDict:
      for (const std::string& key : node.keys()) message->mutable_dict()->add_keys(key);
      return AddItems(node, message->mutable_dict());
    case TypeKind::kNamedTuple:
      return AddNamed(node, message->mutable_named_tuple());
    case TypeKind::kAttrs:
      return AddNamed(node, message->mutable_attrs());
    case TypeKind::kComposite:
      return AddComposite(node, message->mutable_composite());
    case TypeKind::kObject:
      message->mutable_object()->set_class_name(node.name());
      message->mutable_object()->set_client(node.text());
      return message->mutable_object()->set_counter(node.counter());
    case TypeKind::kOther:
      return message->mutable_other()->set_text(node.text());
  }
}

static_assert(static_cast<int>(ParameterKind::kPositionalOrKeyword) ==
                  v1::Parameter::KIND_POSITIONAL_OR_KEYWORD &&
              static_cast<int>(ParameterKind::kVarKeyword) == v1::Parameter::KIND_VAR_KEYWORD);

void ToMessage(const FunctionType& type, v1::FunctionType* message) {
  for (const Parameter& parameter : type.parameters()) {
    v1::Parameter* to = message->add_parameters();
    to->set_name(ToValidUtf8(parameter.name));
    to->set_kind(static_cast<v1::Parameter::Kind>(parameter.kind));
    to->set_optional(parameter.optional);
    ToMessage(parameter.type, to->mutable_type());
  }
  if (type.result()) ToMessage(*type.result(), message->mutable_result());
}

absl::StatusOr<FunctionType> FunctionTypeFrom(const v1::FunctionType& message) {
  std::vector<Parameter> parameters;
  for (const v1::Parameter& from : message.parameters()) {
    if (!v1::Parameter::Kind_IsValid(from.kind())) {
      return InvalidArgument("parameter '", from.name(), "': unknown kind: ", from.kind());
    }
    absl::StatusOr<TypeNode> type = NodeFrom(from.type());
    if (!type.ok()) {
      return Annotate(type.status(), absl::StrCat("parameter '", from.name(), "'"));
    }
    const ParameterKind kind = from.kind() == v1::Parameter::KIND_UNSPECIFIED
                                   ? ParameterKind::kPositionalOrKeyword
                                   : static_cast<ParameterKind>(from.kind());
    parameters.push_back({from.name(), kind, from.optional(), *std::move(type)});
  }
  std::optional<TypeNode> result;
  if (message.has_result()) {
    FORMWORK_ASSIGN_OR_RETURN(result, NodeFrom(message.result()));
  }
  return FunctionType(std::move(parameters), std::move(result));
}

}  // namespace formwork
