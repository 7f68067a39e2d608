#include "tests/support/op_case.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "tests/support/op_case_text.h"

namespace formwork::testing {

std::vector<std::string> Tokens(absl::string_view line) {
  std::vector<std::string> tokens;
  std::string token;
  bool quoted = false;
  int depth = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      token += c;
      if (c == '\\' && i + 1 < line.size()) token += line[++i];
      if (c == '"') quoted = false;
      continue;
    }
    if (depth == 0 && (c == ' ' || c == '\t')) {
      if (!token.empty()) tokens.push_back(std::move(token));
      token.clear();
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    token += c;
  }
  if (!token.empty()) tokens.push_back(std::move(token));
  return tokens;
}

absl::StatusOr<std::string> Unquote(absl::string_view token) {
  if (token.size() < 2 || token.front() != '"' || token.back() != '"') {
    return InvalidArgument("not a quoted string: ", token);
  }
  token = token.substr(1, token.size() - 2);
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '\\') {
      text += token[i];
      continue;
    }
    if (++i == token.size()) return InvalidArgument("a string ends in a backslash: ", token);
    switch (token[i]) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'x': {
        if (i + 2 >= token.size()) return InvalidArgument("\\x needs two digits: ", token);
        text += static_cast<char>(
            std::strtol(std::string(token.substr(i + 1, 2)).c_str(), nullptr, 16));
        i += 2;
        break;
      }
      default:
        text += token[i];
    }
  }
  return text;
}

absl::StatusOr<int64_t> ParseInt(absl::string_view token) {
  int64_t value;
  if (!absl::SimpleAtoi(token, &value)) return InvalidArgument("not an integer: ", token);
  return value;
}

absl::StatusOr<double> ParseDouble(absl::string_view token) {
  double value;
  if (!absl::SimpleAtod(token, &value)) return InvalidArgument("not a number: ", token);
  return value;
}

absl::StatusOr<bool> ParseBool(absl::string_view token) {
  if (token == "true") return true;
  if (token == "false") return false;
  return InvalidArgument("not true or false: ", token);
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  const DType dtype = DTypeFromName(name);
  if (dtype == DType::kInvalid) return InvalidArgument("unknown dtype: ", name);
  return dtype;
}

absl::StatusOr<PartialShape> ParsePartialShape(absl::string_view token) {
  if (token == "?") return PartialShape::Unknown();
  if (!absl::ConsumePrefix(&token, "[") || !absl::ConsumeSuffix(&token, "]")) {
    return InvalidArgument("not a shape: ", token);
  }
  Dims dims;
  for (absl::string_view dim : absl::StrSplit(token, ',', absl::SkipWhitespace())) {
    dim = absl::StripAsciiWhitespace(dim);
    if (dim == "?") {
      dims.push_back(-1);
    } else {
      FORMWORK_ASSIGN_OR_RETURN(int64_t value, ParseInt(dim));
      dims.push_back(value);
    }
  }
  return PartialShape::Make(dims);
}

absl::StatusOr<ValueText> ParseValue(std::vector<std::string> tokens) {
  if (tokens.empty()) return InvalidArgument("dtype[shape] is missing");
  ValueText value;
  absl::string_view type = tokens[0];
  const size_t bracket = type.find('[');
  FORMWORK_ASSIGN_OR_RETURN(value.dtype, ParseDType(type.substr(0, bracket)));
  if (bracket != absl::string_view::npos) {
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ParsePartialShape(type.substr(bracket)));
    FORMWORK_ASSIGN_OR_RETURN(value.shape, Shape::Make(shape.dims()));
  }
  tokens.erase(tokens.begin());
  value.tokens = std::move(tokens);
  return value;
}

namespace {

absl::StatusOr<absl::StatusCode> ParseCode(absl::string_view name) {
  for (int code = 1; code <= 16; ++code) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(code)) == name) {
      return static_cast<absl::StatusCode>(code);
    }
  }
  return InvalidArgument("unknown status code: ", name);
}

absl::Status ParseLine(absl::string_view line, std::vector<OpCase>& cases) {
  std::vector<std::string> tokens = Tokens(line);
  const std::string keyword = tokens[0];
  tokens.erase(tokens.begin());
  if (keyword == "op") {
    if (tokens.empty()) return InvalidArgument("op needs a name");
    OpCase& added = cases.emplace_back();
    added.op = tokens[0];
    for (size_t i = 1; i < tokens.size(); ++i) {
      const size_t equals = tokens[i].find('=');
      if (equals == std::string::npos) return InvalidArgument("not attr=value: ", tokens[i]);
      added.attrs.emplace_back(tokens[i].substr(0, equals), tokens[i].substr(equals + 1));
    }
    return absl::OkStatus();
  }
  if (cases.empty()) return InvalidArgument("'", keyword, "' before the first 'op'");
  OpCase& current = cases.back();
  if (keyword == "in" || keyword == "out" || keyword == "after") {
    FORMWORK_ASSIGN_OR_RETURN(ValueText value, ParseValue(std::move(tokens)));
    (keyword == "in"    ? current.inputs
     : keyword == "out" ? current.outputs
                        : current.after)
        .push_back(std::move(value));
    return absl::OkStatus();
  }
  if (keyword == "tolerance") {
    Tolerance tolerance;
    if (tokens.size() % 2 != 0) return InvalidArgument("tolerance takes pairs: rel 1e-5");
    for (size_t i = 0; i < tokens.size(); i += 2) {
      FORMWORK_ASSIGN_OR_RETURN(double number, ParseDouble(tokens[i + 1]));
      if (tokens[i] == "rel") {
        tolerance.rel = number;
      } else if (tokens[i] == "abs") {
        tolerance.abs = number;
      } else if (tokens[i] == "nmse") {
        tolerance.nmse = number;
      } else {
        return InvalidArgument("unknown tolerance: ", tokens[i]);
      }
    }
    current.tolerance = tolerance;
    return absl::OkStatus();
  }
  if (keyword == "error") {
    if (tokens.size() != 2) return InvalidArgument("error takes a code and a text");
    FORMWORK_ASSIGN_OR_RETURN(current.error, ParseCode(tokens[0]));
    FORMWORK_ASSIGN_OR_RETURN(current.error_text, Unquote(tokens[1]));
    return absl::OkStatus();
  }
  return InvalidArgument("unknown keyword: ", keyword);
}

}  // namespace

absl::StatusOr<std::vector<OpCase>> ParseOpCases(absl::string_view file, absl::string_view text) {
  std::vector<OpCase> cases;
  std::string line;
  int line_number = 0;
  int first_line = 0;
  auto finish = [&]() -> absl::Status {
    if (line.empty()) return absl::OkStatus();
    const size_t before = cases.size();
    absl::Status status = ParseLine(line, cases);
    if (!status.ok()) return InvalidArgument(file, ":", first_line, ": ", status.message());
    if (cases.size() > before) {
      cases.back().file = std::string(file);
      cases.back().line = first_line;
    }
    line.clear();
    return absl::OkStatus();
  };
  for (absl::string_view next : absl::StrSplit(text, '\n')) {
    ++line_number;
    const bool continues = absl::StartsWith(next, " ") || absl::StartsWith(next, "\t");
    if (continues && !line.empty()) {
      absl::StrAppend(&line, next);
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(finish());
    next = absl::StripAsciiWhitespace(next);
    if (next.empty() || next[0] == '#') continue;
    line = std::string(next);
    first_line = line_number;
  }
  FORMWORK_RETURN_IF_ERROR(finish());
  return cases;
}

}  // namespace formwork::testing
