#pragma once

// UTF-8: protobuf's string fields must hold it, and a receiver refuses a message that does not.

#include <string>

#include "absl/strings/string_view.h"

namespace formwork {

/// True where `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool IsValidUtf8(absl::string_view text);

/// `text` with every byte that is not part of a well-formed character replaced by U+FFFD.
std::string ToValidUtf8(absl::string_view text);

/// The longest beginning of `text` (well-formed) of at most `bytes` bytes that cuts no character.
absl::string_view Utf8Prefix(absl::string_view text, size_t bytes);

}  // namespace formwork
