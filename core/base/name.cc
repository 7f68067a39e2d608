#include "core/base/name.h"

#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// The length of the character that `text` begins with, or 0 where it is none that a name may have:
// a control character, or no UTF-8 (overlong forms, surrogates and numbers beyond Unicode
// included).
size_t NameCharacter(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};  // Up to 0x9f are controls.
  if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return length;
}

}  // namespace

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  bool fits = !name.empty() && name.size() <= kMostNameBytes;
  for (absl::string_view rest = name; fits && !rest.empty();) {
    const size_t length = NameCharacter(rest);
    fits = length > 0;
    rest.remove_prefix(length);
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("the name of a ", what,
                         " must be UTF-8 without control characters, of 1 to ", kMostNameBytes,
                         " bytes: bytes=", name.size(), " name='",
                         absl::CHexEscape(name.substr(0, 64)), name.size() > 64 ? "...'" : "'");
}

}  // namespace formwork
