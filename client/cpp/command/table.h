#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace formwork::command {

/// What a client named or wrote, safe to show on a terminal: control characters, and bytes that are
/// not UTF-8, as \xNN. `lines`: newlines and tabs stay.
std::string Printable(absl::string_view text, bool lines = false);

/// Rows in columns of equal width, the first row as the heading; every cell Printable. Prints to
/// stdout.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

/// "1.5 MiB"
std::string BytesText(uint64_t bytes);

}  // namespace formwork::command
