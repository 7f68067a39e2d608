#include "core/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace formwork {
namespace {

bool IsContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// The length of the well-formed character at the start of `text`; 0 where there is none.
size_t CharacterLength(absl::string_view text) {
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(at(i))) return 0;
  }
  const uint8_t second = at(1);
  if (lead == 0xe0 && second < 0xa0) return 0;   // Overlong.
  if (lead == 0xed && second >= 0xa0) return 0;  // A surrogate.
  if (lead == 0xf0 && second < 0x90) return 0;   // Overlong.
  if (lead == 0xf4 && second >= 0x90) return 0;  // Beyond U+10FFFF.
  return length;
}

// How many bytes at the start of `text` are ASCII, found eight at a time.
size_t AsciiPrefix(absl::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

bool IsValidUtf8(absl::string_view text) {
  text.remove_prefix(AsciiPrefix(text));
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ToValidUtf8(absl::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      valid += "\xef\xbf\xbd";
      text.remove_prefix(1);
    } else {
      valid.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return valid;
}

absl::string_view Utf8Prefix(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && IsContinuation(static_cast<uint8_t>(text[bytes]))) --bytes;
  return text.substr(0, bytes);
}

}  // namespace formwork
