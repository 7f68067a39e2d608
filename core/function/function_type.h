#pragma once

// FunctionType: a signature. TensorFlow's trace types and its rules (tensorflow/core/function:
// trace_type/default_types.py, polymorphism/function_type.py), as values.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor_spec.h"

namespace formwork {

enum class TypeKind : uint8_t {
  kTensor,
  kVariable,
  kLiteral,  ///< A Python value, equal to itself alone.
  kTuple,
  kList,
  kDict,
  kNamedTuple,
  kAttrs,
  kComposite,  ///< A composite tensor: ragged, sparse or a class of the client's.
  kObject,     ///< An opaque object of the client.
  kOther
};

/// One parameter's type, or a part of one: an immutable tree. Accessors that do not belong to the
/// kind give an empty value.
class TypeNode {
 public:
  /// A component of a composite tensor.
  struct Component {
    DType dtype = DType::kInvalid;
    PartialShape shape;
    int flat = -1;
  };
  /// Of a ragged or sparse tensor, which subtype by shape.
  struct ByShape {
    DType dtype = DType::kInvalid;
    PartialShape shape;
    int64_t ragged_rank = 0;
    DType row_splits_dtype = DType::kInvalid;  ///< kInvalid: sparse.
  };

  TypeNode() = default;  ///< Of kind kOther, without text.
  /// `flat`: the place among the flat inputs; -1 where it is not known.
  static TypeNode Tensor(DType dtype, PartialShape shape, int flat = -1);
  /// Variables with equal `alias_id` within one signature are the same variable, one flat input.
  static TypeNode Variable(DType dtype, PartialShape shape, bool trainable, int64_t alias_id,
                           int flat = -1);
  /// `python_class`: "int", "str", "NoneType", ...; `json`: the value. 1, True and 1.0 are equal.
  static TypeNode Literal(std::string python_class, std::string json);
  static TypeNode Tuple(std::vector<TypeNode> items);
  static TypeNode List(std::vector<TypeNode> items);
  /// `keys`: JSON texts, in the client's sorted order. Errors: kInvalidArgument if there is not one
  /// key for each item or one is there twice.
  static absl::StatusOr<TypeNode> Dict(std::vector<std::string> keys, std::vector<TypeNode> items);
  /// Errors: kInvalidArgument if there is not one field for each item.
  static absl::StatusOr<TypeNode> NamedTuple(std::string name, std::vector<std::string> fields,
                                             std::vector<TypeNode> items);
  static absl::StatusOr<TypeNode> Attrs(std::string name, std::vector<std::string> fields,
                                        std::vector<TypeNode> items);
  /// Without `by_shape`, composites are of one type where their class and spec's text are equal.
  static TypeNode Composite(std::string class_name, std::string spec,
                            std::vector<Component> components,
                            std::optional<ByShape> by_shape = std::nullopt);
  /// Equal where client and counter are.
  static TypeNode Object(std::string class_name, std::string client, int64_t counter);
  static TypeNode Other(std::string text);

  TypeKind kind() const { return kind_; }
  DType dtype() const { return dtype_; }                ///< Tensor, variable.
  const PartialShape& shape() const { return shape_; }  ///< Tensor, variable.
  int flat() const { return flat_; }                    ///< Tensor, variable.
  bool trainable() const { return trainable_; }         ///< Variable.
  int64_t alias_id() const { return number_; }          ///< Variable.
  int64_t counter() const { return number_; }           ///< Object.
  /// Class of a literal, composite or object; name of a named tuple or attrs class.
  const std::string& name() const { return name_; }
  /// A literal's JSON, a composite's spec, an object's client, an other's text.
  const std::string& text() const { return text_; }
  const std::vector<std::string>& keys() const { return keys_; }  ///< A dict's keys, or fields.
  const std::vector<TypeNode>& items() const { return items_; }
  const std::vector<Component>& components() const { return components_; }
  std::optional<ByShape> by_shape() const;

  /// Equality of types: neither flat places nor how a literal is spelt (1, True) count.
  bool operator==(const TypeNode& other) const;
  bool IsSubtypeOf(const TypeNode& other) const;
  /// The most specific type that both are subtypes of, with this one's flat places.
  std::optional<TypeNode> CommonSupertype(const TypeNode& other) const;
  size_t Hash() const;
  std::string ToString() const;  ///< As TensorFlow's repr of it.
  size_t bytes() const;          ///< About what it takes.

 private:
  explicit TypeNode(TypeKind kind) : kind_(kind) {}

  // The k-th item in the order in which types are compared.
  size_t Index(size_t k) const { return order_.empty() ? k : order_[k]; }
  bool SameShell(const TypeNode& other) const;

  TypeKind kind_ = TypeKind::kOther;
  bool trainable_ = false;
  bool has_by_shape_ = false;
  DType dtype_ = DType::kInvalid;
  DType row_splits_dtype_ = DType::kInvalid;
  int flat_ = -1;
  int64_t number_ = 0;  // alias_id, counter or ragged rank.
  PartialShape shape_;
  std::string name_;
  std::string text_;
  std::string canonical_;  // Of a literal: equal where Python's == holds.
  std::vector<std::string> keys_;
  std::vector<std::string> canonical_keys_;  // Of a dict.
  std::vector<uint32_t> order_;              // Of a dict: its items by canonical key.
  std::vector<TypeNode> items_;
  std::vector<Component> components_;
};

/// The numbers are those of formwork.v1.Parameter.Kind.
enum class ParameterKind : uint8_t {
  kPositionalOrKeyword = 1,
  kPositionalOnly = 2,
  kVarPositional = 3,
  kKeywordOnly = 4,
  kVarKeyword = 5
};

struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::kPositionalOrKeyword;
  bool optional = false;
  TypeNode type;
};

/// A tensor or handle that a caller passes, as the signature has it.
struct FlatInput {
  DType dtype = DType::kInvalid;
  PartialShape shape;                      ///< Of a variable: the value's.
  DType variable_dtype = DType::kInvalid;  ///< Set where it is a variable's handle.
  int flat = -1;                           ///< As given; -1 where it is not known.
};

/// An ordered list of parameters, and what is returned. Immutable; copies share. Thread-safe.
class FunctionType {
 public:
  FunctionType();  ///< No parameters.
  explicit FunctionType(std::vector<Parameter> parameters,
                        std::optional<TypeNode> result = std::nullopt);
  /// The signature of one who gives none: a parameter for each flat input.
  static FunctionType FromInputs(absl::Span<const TensorSpec> inputs);

  const std::vector<Parameter>& parameters() const { return rep_->parameters; }
  const std::optional<TypeNode>& result() const { return rep_->result; }
  size_t hash() const { return rep_->hash; }
  size_t bytes() const { return rep_->bytes; }  ///< About what it takes.

  /// Of the parameters; the result is described, not compared.
  bool operator==(const FunctionType& other) const;
  bool operator!=(const FunctionType& other) const { return !(*this == other); }
  /// True where every call of this type may go to a function of type `other` (TensorFlow's
  /// is_supertype_of, which counts functions, not arguments).
  bool IsSubtypeOf(const FunctionType& other) const;
  /// The type that TensorFlow generalises to when it has traced `other` and meets this one
  /// (most_specific_common_subtype); nullopt where there is none.
  std::optional<FunctionType> CommonSupertype(const FunctionType& other) const;

  /// The tensors and handles in TensorFlow's flat order: keyword-only parameters by name, a
  /// variable that is passed twice once.
  std::vector<FlatInput> FlatInputs() const;

  /// The text that pretty_printed_concrete_signatures has for a ConcreteFunction.
  std::string ToString(absl::Span<const TensorSpec> captures = {}) const;

 private:
  struct Rep {
    std::vector<Parameter> parameters;
    std::optional<TypeNode> result;
    size_t hash = 0;
    size_t bytes = 0;
  };
  std::shared_ptr<const Rep> rep_;
};

}  // namespace formwork
