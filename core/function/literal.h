#pragma once

// Python values as literals of a signature: JSON in, equality and text as Python's.

#include <string>

#include "absl/strings/string_view.h"

namespace formwork {

/// A text that two values share exactly where Python's == holds between them: 1, True and 1.0 do,
/// and NaN equals itself, as TensorFlow has it. `python_class` may be empty (a mapping's key).
std::string CanonicalLiteral(absl::string_view python_class, absl::string_view json);

/// Python's repr of the value. Values of classes that JSON has not (an iterator, an enum) travel as
/// a string that holds their text.
std::string LiteralRepr(absl::string_view python_class, absl::string_view json);

}  // namespace formwork
