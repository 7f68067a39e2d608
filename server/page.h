#pragma once

// Pages of lists: which entries a client asked for, and where the next page begins.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/reason.h"

namespace formwork::server {

inline constexpr int kMaxPageSize = 1000;

/// True where `text` is as `pattern` says: * stands for any characters, ? for any one. An empty
/// pattern fits all.
bool FitsPattern(absl::string_view text, absl::string_view pattern);

/// An entry's place in its list: lists are sorted by it.
using PageKey = std::pair<std::string, uint64_t>;

/// Behind which entry the page begins. Errors: kInvalidArgument if no server made `token`.
absl::StatusOr<PageKey> FromPageToken(const std::string& token);
std::string ToPageToken(const PageKey& last);

/// The entries of one page of those that `wanted`, sorted by `key`. `next` is set where more
/// follow. Errors: kInvalidArgument: the size or the token.
template <typename Entry, typename Key, typename Wanted>
absl::StatusOr<std::vector<Entry>> PageOf(std::vector<Entry> entries, int page_size,
                                          const std::string& token, Key key, Wanted wanted,
                                          std::string* next) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return InField(absl::InvalidArgumentError("page_size is out of its range: 0 to 1000"),
                   "page_size");
  }
  const size_t size = static_cast<size_t>(page_size == 0 ? kMaxPageSize : page_size);
  std::erase_if(entries, [&](const Entry& entry) { return !wanted(entry); });
  if (!token.empty()) {
    absl::StatusOr<PageKey> last = FromPageToken(token);
    if (!last.ok()) return last.status();
    std::erase_if(entries, [&](const Entry& entry) { return key(entry) <= *last; });
  }
  std::sort(entries.begin(), entries.end(),
            [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
  if (entries.size() > size) {
    entries.erase(entries.begin() + static_cast<ptrdiff_t>(size), entries.end());
    *next = ToPageToken(key(entries.back()));
  }
  return entries;
}

}  // namespace formwork::server
