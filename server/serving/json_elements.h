#pragma once

// Elements of tensors as JSON has them, written by RapidJSON. For few .cc files, as that is.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "core/base/utf8.h"
#include "core/tensor/tensor.h"
#include "server/serving/json_library.h"

namespace formwork::server {

/// The longest text of a number, and more: "-2.2250738585072014e-308".
inline constexpr size_t kMostJsonNumberBytes = 32;

/// RapidJSON's texts are at most so long, with what base64 adds.
inline constexpr size_t kMostJsonStringBytes = std::numeric_limits<int32_t>::max();

/// What JsonWriter writes to, as RapidJSON has it.
struct JsonText {
  using Ch = char;
  void Put(char c) { text.push_back(c); }
  void Flush() {}

  std::string text;
};
/// All memory is operator new's.
using JsonWriter = rapidjson::Writer<JsonText, rapidjson::UTF8<>, rapidjson::UTF8<>, JsonMemory>;

inline void WriteJsonText(absl::string_view text, JsonWriter& json) {
  json.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

/// A string is text where it is UTF-8 and `bytes` is not set, else {"b64": "..."}.
inline void WriteJsonElement(const std::string& value, bool bytes, JsonWriter& json) {
  if (!bytes && IsValidUtf8(value)) return WriteJsonText(value, json);
  json.StartObject();
  WriteJsonText("b64", json);
  WriteJsonText(absl::Base64Escape(value), json);
  json.EndObject();
}

/// The shortest text of a value of half or bfloat16, which to_chars does not know, is that of this
/// float: of fewest digits that rounds to it. Where some are enough, more are.
template <typename T>
float JsonFloatOf(T value) {
  constexpr int kMostDigits = std::is_same_v<T, half> ? 5 : 4;
  const float exact = static_cast<float>(value);
  float fewest = exact;
  const auto enough = [&](int digits) {
    char text[kMostJsonNumberBytes];
    const auto end =
        std::to_chars(text, std::end(text), exact, std::chars_format::scientific, digits - 1).ptr;
    float nearest = 0;
    std::from_chars(text, end, nearest);
    if (T(nearest).bits != value.bits) return false;
    fewest = nearest;
    return true;
  };
  // Most take nearly all.
  int digits = kMostDigits - 1;
  if (!enough(digits)) {
    enough(kMostDigits);
  } else {
    while (digits > 1 && enough(digits - 1)) --digits;
  }
  return fewest;
}

/// A number or bool. A floating one has the shortest text that reads back as the same.
template <typename T>
void WriteJsonElement(T value, bool, JsonWriter& json) {
  if constexpr (std::is_same_v<T, bool>) {
    json.Bool(value);
  } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    const float exact = static_cast<float>(value);
    WriteJsonElement(std::isfinite(exact) ? JsonFloatOf(value) : exact, false, json);
  } else {
    const auto number = [&](absl::string_view text) {
      json.RawValue(text.data(), text.size(), rapidjson::kNumberType);
    };
    char text[kMostJsonNumberBytes];
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) {
        return number(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
      }
    }
    char* end = std::to_chars(text, std::end(text), value).ptr;
    if constexpr (std::is_floating_point_v<T>) {
      // A reader is to see that it is no integer.
      if (std::none_of(text, end, [](char c) { return c == '.' || c == 'e'; })) {
        *end++ = '.';
        *end++ = '0';
      }
    }
    number({text, static_cast<size_t>(end - text)});
  }
}

}  // namespace formwork::server
