#include "core/function/literal.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace formwork {
namespace {

void AppendUtf8(std::string* out, uint32_t code) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (code >> 6)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (code >> 12)));
    out->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (code >> 18)));
    out->push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

std::optional<uint32_t> HexCode(absl::string_view digits) {
  if (digits.size() != 4) return std::nullopt;
  uint32_t code = 0;
  for (char c : digits) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    code = code * 16 + (absl::ascii_isdigit(static_cast<unsigned char>(c))
                            ? c - '0'
                            : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10);
  }
  return code;
}

// The text of a JSON string; nullopt where it is none.
std::optional<std::string> DecodeString(absl::string_view json) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') return std::nullopt;
  json = json.substr(1, json.size() - 2);
  std::string text;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '\\') {
      text.push_back(json[i]);
      continue;
    }
    if (++i == json.size()) return std::nullopt;
    switch (json[i]) {
      case 'n':
        text.push_back('\n');
        break;
      case 't':
        text.push_back('\t');
        break;
      case 'r':
        text.push_back('\r');
        break;
      case 'b':
        text.push_back('\b');
        break;
      case 'f':
        text.push_back('\f');
        break;
      case 'u': {
        std::optional<uint32_t> code = HexCode(json.substr(i + 1, 4));
        if (!code) return std::nullopt;
        i += 4;
        const bool high = *code >= 0xD800 && *code < 0xDC00;
        if (high && absl::StartsWith(json.substr(i + 1), "\\u")) {
          std::optional<uint32_t> low = HexCode(json.substr(i + 3, 4));
          if (low && *low >= 0xDC00 && *low < 0xE000) {
            code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
            i += 6;
          }
        }
        AppendUtf8(&text, *code);
        break;
      }
      default:
        text.push_back(json[i]);
    }
  }
  return text;
}

bool IsIntegerText(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  if (text.empty()) return false;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// The same text for numbers that are equal, whatever their Python class; nullopt where `json` is no
// number. Integers keep all their digits, and a float without a fraction is written as the integer
// that it is.
std::optional<std::string> CanonicalNumber(absl::string_view json) {
  if (json == "true") return "1";
  if (json == "false") return "0";
  if (IsIntegerText(json)) return json == "-0" ? "0" : std::string(json);
  double value;
  if (!absl::SimpleAtod(json, &value)) return std::nullopt;
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  if (std::trunc(value) == value) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.17g", value);
}

bool IsNumeric(absl::string_view python_class) {
  return python_class == "int" || python_class == "bool" || python_class == "float";
}

std::string StringRepr(absl::string_view text) {
  const char quote = absl::StrContains(text, '\'') && !absl::StrContains(text, '"') ? '"' : '\'';
  std::string repr(1, quote);
  for (char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      repr.push_back('\\');
      repr.push_back(c);
    } else if (c == '\n') {
      repr += "\\n";
    } else if (c == '\t') {
      repr += "\\t";
    } else if (c == '\r') {
      repr += "\\r";
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(&repr, "\\x", absl::Hex(byte, absl::kZeroPad2));
    } else {
      repr.push_back(c);
    }
  }
  repr.push_back(quote);
  return repr;
}

}  // namespace

std::string CanonicalLiteral(absl::string_view python_class, absl::string_view json) {
  if (IsNumeric(python_class) || python_class.empty()) {
    if (std::optional<std::string> number = CanonicalNumber(json)) return "n:" + *number;
  }
  if (python_class == "str" || python_class.empty()) {
    if (std::optional<std::string> text = DecodeString(json)) return "s:" + *text;
  }
  return absl::StrCat("o:", python_class, ":", json);
}

std::string LiteralRepr(absl::string_view python_class, absl::string_view json) {
  if (json == "null") return "None";
  if (json == "true") return "True";
  if (json == "false") return "False";
  if (json == "NaN") return "nan";
  if (json == "Infinity") return "inf";
  if (json == "-Infinity") return "-inf";
  if (std::optional<std::string> text = DecodeString(json)) {
    return python_class == "str" || python_class.empty() ? StringRepr(*text) : *text;
  }
  return std::string(json);
}

}  // namespace formwork
