#include "core/graph/import_problems.h"

#include <algorithm>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kNamedInText = 20;
constexpr size_t kTextBytes = 3600;  // Of all of those together: a status text has to stay small.
constexpr size_t kMostKept = 4096;
constexpr size_t kShownName = 120;

}  // namespace

std::string Shown(absl::string_view name) {
  if (name.size() <= kShownName) return std::string(name);
  return absl::StrCat(name.substr(0, kShownName * 2 / 3), "...(", name.size(), " bytes)");
}

void ImportProblems::Texts::Add(std::string text) {
  ++count;
  if (kept.size() < kMostKept) kept.push_back(std::move(text));
}

void ImportProblems::Wrong(std::string text, absl::StatusCode code) {
  code_ = wrong_.count == 0 || code_ == code ? code : absl::StatusCode::kInvalidArgument;
  wrong_.Add(std::move(text));
}

void ImportProblems::MissingOp(absl::string_view op, absl::string_view where) {
  missing_.Add(absl::StrCat(Shown(op), " (", where, ")"));
}

absl::Status ImportProblems::ToStatus() const {
  const size_t count = wrong_.count + missing_.count;
  if (count == 0) return absl::OkStatus();
  const size_t room = kTextBytes / std::min(count, kNamedInText);
  std::string text;
  size_t named = 0;
  auto name = [&](absl::string_view head, const Texts& texts) {
    for (size_t i = 0; i < texts.kept.size() && named < kNamedInText; ++i, ++named) {
      absl::StrAppend(&text, named == 0 ? "" : "; ", i == 0 ? head : "",
                      absl::string_view(texts.kept[i]).substr(0, room));
    }
  };
  name("", wrong_);
  name("ops that are not supported: ", missing_);
  if (count > named) absl::StrAppend(&text, "; and ", count - named, " more");
  return absl::Status(code_, text);
}

std::vector<std::string> ImportProblems::All() const {
  std::vector<std::string> all = wrong_.kept;
  all.insert(all.end(), missing_.kept.begin(), missing_.kept.end());
  const size_t left = wrong_.count + missing_.count - all.size();
  if (left > 0) all.push_back(absl::StrCat("and ", left, " more"));
  return all;
}

}  // namespace formwork
