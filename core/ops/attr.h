#pragma once

// Attr values of nodes, decoded once at import.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

class AttrMap;

/// A function attr: a name of the graph's library, with attrs bound to it.
struct FuncAttr {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;
};

using AttrValue =
    std::variant<std::monostate, int64_t, float, bool, std::string, DType, PartialShape, Tensor,
                 FuncAttr, std::vector<int64_t>, std::vector<float>, std::vector<bool>,
                 std::vector<std::string>, std::vector<DType>, std::vector<PartialShape>,
                 std::vector<Tensor>, std::vector<FuncAttr>>;

/// A node's attrs, defaults filled in. Small: looked up by scanning.
class AttrMap {
 public:
  void Set(std::string name, AttrValue value);
  /// Null where the node has no such attr.
  const AttrValue* Find(absl::string_view name) const;

  /// The value of an attr that the OpDef declares with that type (the importer has checked it).
  /// Errors: kInvalidArgument if it is absent or of another type.
  template <typename T>
  absl::StatusOr<T> Get(absl::string_view name) const {
    const AttrValue* value = Find(name);
    if (value == nullptr) return Missing(name);
    const T* typed = std::get_if<T>(value);
    if (typed == nullptr) return WrongType(name);
    return *typed;
  }
  /// The same with a default for an attr that is absent or of another type.
  template <typename T>
  T GetOr(absl::string_view name, T fallback) const {
    const AttrValue* value = Find(name);
    const T* typed = value == nullptr ? nullptr : std::get_if<T>(value);
    return typed == nullptr ? std::move(fallback) : *typed;
  }

  const std::vector<std::pair<std::string, AttrValue>>& entries() const { return entries_; }

 private:
  static absl::Status Missing(absl::string_view name);
  static absl::Status WrongType(absl::string_view name);

  std::vector<std::pair<std::string, AttrValue>> entries_;
};

}  // namespace formwork
