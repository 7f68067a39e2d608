#include "core/graph/input_name.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace formwork {

InputName ParseInput(absl::string_view text) {
  InputName name;
  if (!text.empty() && text[0] == '^') {
    name.control = true;
    name.node = text.substr(1);
    return name;
  }
  std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  name.node = parts[0];
  if (parts.size() == 2) {
    if (!absl::SimpleAtoi(parts[1], &name.index)) name.out = parts[1];
  } else if (parts.size() == 3) {
    name.out = parts[1];
    name.valid = absl::SimpleAtoi(parts[2], &name.index);
  }
  name.valid = name.valid && parts.size() <= 3 && name.index >= 0 && !name.node.empty();
  return name;
}

}  // namespace formwork
