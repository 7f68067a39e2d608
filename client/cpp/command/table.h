#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace formwork::command {

/// Rows in columns of equal width, the first row as the heading. Prints to stdout.
void PrintTable(const std::vector<std::vector<std::string>>& rows);

/// "1.5 MiB"
std::string BytesText(uint64_t bytes);

}  // namespace formwork::command
