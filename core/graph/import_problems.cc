#include "core/graph/import_problems.h"

#include <algorithm>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kNamedInText = 20;

std::string Join(absl::string_view head, const std::vector<std::string>& texts) {
  std::string joined(head);
  for (size_t i = 0; i < texts.size() && i < kNamedInText; ++i) {
    absl::StrAppend(&joined, i == 0 ? "" : "; ", texts[i].substr(0, 180));
  }
  if (texts.size() > kNamedInText) {
    absl::StrAppend(&joined, "; and ", texts.size() - kNamedInText, " more");
  }
  return joined;
}

}  // namespace

void ImportProblems::MissingOp(absl::string_view op, absl::string_view node) {
  missing_.push_back(absl::StrCat(op, " (node '", node, "')"));
}

absl::Status ImportProblems::ToStatus() const {
  if (!wrong_.empty()) return InvalidArgument(Join("", wrong_));
  if (!missing_.empty()) return Unimplemented(Join("ops that are not supported: ", missing_));
  return absl::OkStatus();
}

std::vector<std::string> ImportProblems::All() const {
  std::vector<std::string> all = wrong_;
  all.insert(all.end(), missing_.begin(), missing_.end());
  return all;
}

}  // namespace formwork
