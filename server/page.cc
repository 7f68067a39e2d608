#include "server/page.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork::server {

bool FitsPattern(absl::string_view text, absl::string_view pattern) {
  if (pattern.empty()) return true;
  size_t t = 0, p = 0;
  size_t star = absl::string_view::npos;  // The last * met,
  size_t taken = 0;                       // and up to where it stands for text.
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::StatusOr<PageKey> FromPageToken(const std::string& token) {
  std::string text;
  PageKey key;
  if (absl::WebSafeBase64Unescape(token, &text)) {
    const size_t end = text.find('/');
    if (end != std::string::npos && absl::SimpleAtoi(text.substr(0, end), &key.second)) {
      key.first = text.substr(end + 1);
      return key;
    }
  }
  return InField(InvalidArgument("page_token is not one that a list answered with"), "page_token");
}

std::string ToPageToken(const PageKey& last) {
  return absl::WebSafeBase64Escape(absl::StrCat(last.second, "/", last.first));
}

}  // namespace formwork::server
