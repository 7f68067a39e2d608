#pragma once

// What namespaces, functions and variables may be called.

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace formwork {

inline constexpr size_t kMostNameBytes = 512;

/// Names are UTF-8 without control characters, of 1 to kMostNameBytes bytes: they go into logs,
/// lists and metrics as they are. `what`: whose name it is, such as "function".
/// Errors: kInvalidArgument says the rule, and the name as far as it can be shown.
absl::Status CheckName(absl::string_view what, absl::string_view name);

}  // namespace formwork
