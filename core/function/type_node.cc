#include <algorithm>
#include <numeric>

#include "absl/hash/hash.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/function/function_type.h"
#include "core/function/literal.h"

namespace formwork {
namespace {

size_t HashShape(size_t seed, const PartialShape& shape) {
  return absl::HashOf(seed, shape.known_rank(), shape.dims());
}

// As Python's repr of a TensorShape's tuple: "(2, None)", "(3,)", "()", "<unknown>".
std::string ShapeTuple(const PartialShape& shape) {
  if (!shape.known_rank()) return "<unknown>";
  std::string dims = absl::StrJoin(shape.dims(), ", ", [](std::string* out, int64_t dim) {
    absl::StrAppend(out, dim < 0 ? "None" : absl::StrCat(dim));
  });
  return absl::StrCat("(", dims, shape.rank() == 1 ? ",)" : ")");
}

std::string ShapeRepr(const PartialShape& shape) {
  if (!shape.known_rank()) return "TensorShape(None)";
  return absl::StrCat("TensorShape([",
                      absl::StrJoin(shape.dims(), ", ",
                                    [](std::string* out, int64_t dim) {
                                      absl::StrAppend(out, dim < 0 ? "None" : absl::StrCat(dim));
                                    }),
                      "])");
}

std::string DTypeRepr(DType dtype) { return absl::StrCat("tf.", std::string(DTypeName(dtype))); }

std::string ByShapeRepr(const std::string& class_name, const TypeNode::ByShape& spec) {
  std::string text =
      absl::StrCat(class_name, "(", ShapeRepr(spec.shape), ", ", DTypeRepr(spec.dtype));
  if (spec.row_splits_dtype != DType::kInvalid) {
    absl::StrAppend(&text, ", ", spec.ragged_rank, ", ", DTypeRepr(spec.row_splits_dtype));
  }
  return text + ")";
}

}  // namespace

TypeNode TypeNode::Tensor(DType dtype, PartialShape shape, int flat) {
  TypeNode node(TypeKind::kTensor);
  node.dtype_ = dtype;
  node.shape_ = std::move(shape);
  node.flat_ = flat;
  return node;
}

TypeNode TypeNode::Variable(DType dtype, PartialShape shape, bool trainable, int64_t alias_id,
                            int flat) {
  TypeNode node(TypeKind::kVariable);
  node.dtype_ = dtype;
  node.shape_ = std::move(shape);
  node.trainable_ = trainable;
  node.number_ = alias_id;
  node.flat_ = flat;
  return node;
}

TypeNode TypeNode::Literal(std::string python_class, std::string json) {
  TypeNode node(TypeKind::kLiteral);
  node.canonical_ = CanonicalLiteral(python_class, json);
  node.name_ = std::move(python_class);
  node.text_ = std::move(json);
  return node;
}

TypeNode TypeNode::Tuple(std::vector<TypeNode> items) {
  TypeNode node(TypeKind::kTuple);
  node.items_ = std::move(items);
  return node;
}

TypeNode TypeNode::List(std::vector<TypeNode> items) {
  TypeNode node(TypeKind::kList);
  node.items_ = std::move(items);
  return node;
}

absl::StatusOr<TypeNode> TypeNode::Dict(std::vector<std::string> keys,
                                        std::vector<TypeNode> items) {
  if (keys.size() != items.size()) {
    return InvalidArgument("signature: a mapping's keys and items differ in number: keys=",
                           keys.size(), " items=", items.size());
  }
  TypeNode node(TypeKind::kDict);
  node.canonical_keys_.reserve(keys.size());
  for (const std::string& key : keys) node.canonical_keys_.push_back(CanonicalLiteral("", key));
  // In which order a client lists the keys does not matter.
  node.order_.resize(keys.size());
  std::iota(node.order_.begin(), node.order_.end(), 0);
  const std::vector<std::string>& canonical = node.canonical_keys_;
  std::sort(node.order_.begin(), node.order_.end(),
            [&](uint32_t a, uint32_t b) { return canonical[a] < canonical[b]; });
  for (size_t k = 1; k < keys.size(); ++k) {
    if (canonical[node.order_[k]] == canonical[node.order_[k - 1]]) {
      return InvalidArgument("signature: a mapping has a key twice: ", keys[node.order_[k]]);
    }
  }
  node.keys_ = std::move(keys);
  node.items_ = std::move(items);
  return node;
}

absl::StatusOr<TypeNode> TypeNode::NamedTuple(std::string name, std::vector<std::string> fields,
                                              std::vector<TypeNode> items) {
  if (fields.size() != items.size()) {
    return InvalidArgument("signature: fields and items differ in number: class=", name,
                           " fields=", fields.size(), " items=", items.size());
  }
  TypeNode node(TypeKind::kNamedTuple);
  node.name_ = std::move(name);
  node.keys_ = std::move(fields);
  node.items_ = std::move(items);
  return node;
}

absl::StatusOr<TypeNode> TypeNode::Attrs(std::string name, std::vector<std::string> fields,
                                         std::vector<TypeNode> items) {
  FORMWORK_ASSIGN_OR_RETURN(TypeNode node,
                            NamedTuple(std::move(name), std::move(fields), std::move(items)));
  node.kind_ = TypeKind::kAttrs;
  return node;
}

TypeNode TypeNode::Composite(std::string class_name, std::string spec,
                             std::vector<Component> components, std::optional<ByShape> by_shape) {
  TypeNode node(TypeKind::kComposite);
  node.name_ = std::move(class_name);
  node.text_ = std::move(spec);
  node.components_ = std::move(components);
  if (by_shape) {
    node.has_by_shape_ = true;
    node.dtype_ = by_shape->dtype;
    node.shape_ = std::move(by_shape->shape);
    node.number_ = by_shape->ragged_rank;
    node.row_splits_dtype_ = by_shape->row_splits_dtype;
  }
  return node;
}

TypeNode TypeNode::Object(std::string class_name, std::string client, int64_t counter) {
  TypeNode node(TypeKind::kObject);
  node.name_ = std::move(class_name);
  node.text_ = std::move(client);
  node.number_ = counter;
  return node;
}

TypeNode TypeNode::Other(std::string text) {
  TypeNode node(TypeKind::kOther);
  node.text_ = std::move(text);
  return node;
}

std::optional<TypeNode::ByShape> TypeNode::by_shape() const {
  if (!has_by_shape_) return std::nullopt;
  return ByShape{dtype_, shape_, number_, row_splits_dtype_};
}

// Everything but shapes and items: what must be equal for types to be related at all.
bool TypeNode::SameShell(const TypeNode& other) const {
  if (kind_ != other.kind_ || items_.size() != other.items_.size()) return false;
  switch (kind_) {
    case TypeKind::kTensor:
      return dtype_ == other.dtype_;
    case TypeKind::kVariable:
      return dtype_ == other.dtype_ && trainable_ == other.trainable_ && number_ == other.number_;
    case TypeKind::kLiteral:
      return canonical_ == other.canonical_;
    case TypeKind::kTuple:
    case TypeKind::kList:
      return true;
    case TypeKind::kDict:
      for (size_t k = 0; k < items_.size(); ++k) {
        if (canonical_keys_[Index(k)] != other.canonical_keys_[other.Index(k)]) return false;
      }
      return true;
    case TypeKind::kNamedTuple:
    case TypeKind::kAttrs:
      return name_ == other.name_ && keys_ == other.keys_;
    case TypeKind::kComposite:
      if (has_by_shape_ != other.has_by_shape_ || name_ != other.name_) return false;
      if (!has_by_shape_) return text_ == other.text_;
      return dtype_ == other.dtype_ && number_ == other.number_ &&
             row_splits_dtype_ == other.row_splits_dtype_;
    case TypeKind::kObject:
      return text_ == other.text_ && number_ == other.number_;
    case TypeKind::kOther:
      return text_ == other.text_;
  }
  return false;
}

bool TypeNode::operator==(const TypeNode& other) const {
  if (!SameShell(other) || shape_ != other.shape_) return false;
  for (size_t k = 0; k < items_.size(); ++k) {
    if (!(items_[Index(k)] == other.items_[other.Index(k)])) return false;
  }
  return true;
}

bool TypeNode::IsSubtypeOf(const TypeNode& other) const {
  if (!SameShell(other) || !shape_.IsSubtypeOf(other.shape_)) return false;
  for (size_t k = 0; k < items_.size(); ++k) {
    if (!items_[Index(k)].IsSubtypeOf(other.items_[other.Index(k)])) return false;
  }
  return true;
}

std::optional<TypeNode> TypeNode::CommonSupertype(const TypeNode& other) const {
  if (!SameShell(other)) return std::nullopt;
  TypeNode common = *this;
  common.shape_ = shape_.CommonSupertype(other.shape_);
  for (size_t k = 0; k < items_.size(); ++k) {
    const size_t i = Index(k);
    std::optional<TypeNode> item = items_[i].CommonSupertype(other.items_[other.Index(k)]);
    if (!item) return std::nullopt;
    common.items_[i] = *std::move(item);
  }
  if (has_by_shape_) {
    common.text_ = ByShapeRepr(name_, *common.by_shape());
    const size_t n = std::min(components_.size(), other.components_.size());
    for (size_t i = 0; i < n; ++i) {
      common.components_[i].shape =
          components_[i].shape.CommonSupertype(other.components_[i].shape);
    }
  }
  return common;
}

size_t TypeNode::Hash() const {
  size_t hash = absl::HashOf(kind_, items_.size());
  switch (kind_) {
    case TypeKind::kTensor:
      return HashShape(absl::HashOf(hash, dtype_), shape_);
    case TypeKind::kVariable:
      return HashShape(absl::HashOf(hash, dtype_, trainable_, number_), shape_);
    case TypeKind::kLiteral:
      return absl::HashOf(hash, canonical_);
    case TypeKind::kDict:
      for (const uint32_t i : order_) {
        hash = absl::HashOf(hash, canonical_keys_[i], items_[i].Hash());
      }
      return hash;
    case TypeKind::kComposite:
      if (has_by_shape_) return HashShape(absl::HashOf(hash, name_, dtype_, number_), shape_);
      return absl::HashOf(hash, name_, text_);
    case TypeKind::kObject:
      return absl::HashOf(hash, text_, number_);
    case TypeKind::kOther:
      return absl::HashOf(hash, text_);
    case TypeKind::kTuple:
    case TypeKind::kList:
    case TypeKind::kNamedTuple:
    case TypeKind::kAttrs:
      break;
  }
  for (const TypeNode& item : items_) hash = absl::HashOf(hash, item.Hash());
  return absl::HashOf(hash, name_);
}

std::string TypeNode::ToString() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < items_.size(); ++i) {
    std::string item = items_[i].ToString();
    if (keys_.empty()) {
      parts.push_back(std::move(item));
      continue;
    }
    std::string key =
        kind_ == TypeKind::kDict ? LiteralRepr("", keys_[i]) : absl::StrCat("'", keys_[i], "'");
    parts.push_back(absl::StrCat("[", key, ", ", item, "]"));
  }
  const std::string items = absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
  switch (kind_) {
    case TypeKind::kTensor:
      return absl::StrCat("TensorSpec(shape=", ShapeTuple(shape_), ", dtype=", DTypeRepr(dtype_),
                          ", name=None)");
    case TypeKind::kVariable:
      return absl::StrCat("VariableSpec(shape=", ShapeTuple(shape_), ", dtype=", DTypeRepr(dtype_),
                          ", trainable=", trainable_ ? "True" : "False", ", alias_id=", number_,
                          ")");
    case TypeKind::kLiteral:
      return absl::StrCat("Literal[", LiteralRepr(name_, text_), "]");
    case TypeKind::kTuple:
      return "Tuple" + items;
    case TypeKind::kList:
      return "List" + items;
    case TypeKind::kDict:
      return "Dict" + items;
    case TypeKind::kNamedTuple:
    case TypeKind::kAttrs:
      return name_ + items;
    case TypeKind::kObject:
      return absl::StrCat("Weakref[<weakref to '", name_, "'>])");
    case TypeKind::kComposite:
    case TypeKind::kOther:
      return text_;
  }
  return text_;
}

size_t TypeNode::bytes() const {
  size_t bytes = sizeof(TypeNode) + order_.capacity() * sizeof(uint32_t) + name_.capacity() +
                 text_.capacity() + canonical_.capacity() +
                 components_.capacity() * sizeof(Component);
  for (const std::string& key : keys_) bytes += sizeof(key) + key.capacity();
  for (const std::string& key : canonical_keys_) bytes += sizeof(key) + key.capacity();
  for (const TypeNode& item : items_) bytes += item.bytes();
  return bytes;
}

}  // namespace formwork
