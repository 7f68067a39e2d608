#pragma once

// ResourceType: what is behind a handle.

#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace formwork {

/// A kind of resource: one constant for each, beside its ops, known by its address.
struct ResourceKind {
  absl::string_view name;  ///< As errors and lists call one.
};
inline constexpr ResourceKind kVariableKind{"variable"};

struct ResourceType {
  /// As TensorFlow's handle data has them: what a variable holds; a table's keys and values.
  struct Part {
    DType dtype = DType::kInvalid;
    PartialShape shape;
    bool operator==(const Part& other) const {
      return dtype == other.dtype && shape == other.shape;
    }
  };

  static ResourceType Variable(DType dtype, PartialShape shape) {
    return {&kVariableKind, {{dtype, std::move(shape)}}};
  }

  const ResourceKind* kind = &kVariableKind;
  absl::InlinedVector<Part, 1> parts;  ///< At least one.

  bool is_variable() const { return kind == &kVariableKind; }
  bool operator==(const ResourceType& other) const {
    return kind == other.kind && parts == other.parts;
  }
  /// Whether one thing can be of both types: they differ at most in what shapes leave open.
  bool IsCompatibleWith(const ResourceType& other) const;
  std::string ToString() const;  ///< "float32[2,?]" of a variable, "table string[] -> int64[]"
};

}  // namespace formwork
