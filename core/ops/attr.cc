#include "core/ops/attr.h"

#include "core/base/status.h"

namespace formwork {

void AttrMap::Set(std::string name, AttrValue value) {
  for (auto& [key, held] : entries_) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(name), std::move(value));
}

const AttrValue* AttrMap::Find(absl::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::Status AttrMap::Missing(absl::string_view name) {
  return InvalidArgument("attr is missing: ", name);
}

absl::Status AttrMap::WrongType(absl::string_view name) {
  return InvalidArgument("attr has another type than its op declares: ", name);
}

}  // namespace formwork
