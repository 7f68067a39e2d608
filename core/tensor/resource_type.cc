#include "core/tensor/resource_type.h"

#include "absl/strings/str_cat.h"

namespace formwork {

bool ResourceType::IsCompatibleWith(const ResourceType& other) const {
  if (kind != other.kind || parts.size() != other.parts.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dtype != other.parts[i].dtype) return false;
    if (!parts[i].shape.IsCompatibleWith(other.parts[i].shape)) return false;
  }
  return true;
}

std::string ResourceType::ToString() const {
  std::string text = is_variable() ? "" : absl::StrCat(std::string(kind->name), " ");
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " -> ", std::string(DTypeName(parts[i].dtype)),
                    parts[i].shape.ToString());
  }
  return text;
}

}  // namespace formwork
