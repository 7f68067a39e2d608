#pragma once

// The words of op cases: shared by the parts of op_case.h.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/support/op_case.h"

namespace formwork::testing {

/// Splits at blanks outside of quotes, brackets and parentheses. Quotes stay in the tokens.
std::vector<std::string> Tokens(absl::string_view line);
/// Undoes the quotes and escapes (\n, \t, \", \\, \xNN) of a string token.
absl::StatusOr<std::string> Unquote(absl::string_view token);
absl::StatusOr<int64_t> ParseInt(absl::string_view token);
absl::StatusOr<double> ParseDouble(absl::string_view token);
absl::StatusOr<bool> ParseBool(absl::string_view token);
absl::StatusOr<DType> ParseDType(absl::string_view name);
absl::StatusOr<PartialShape> ParsePartialShape(absl::string_view token);  ///< "[2,?]" or "?".
/// "float[2,3] 1 2 ..." after the keyword.
absl::StatusOr<ValueText> ParseValue(std::vector<std::string> tokens);
/// Element i as a case writes it.
std::string ElementText(const Tensor& tensor, int64_t i);

}  // namespace formwork::testing
