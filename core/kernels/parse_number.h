#pragma once

#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace formwork {

/// The number that a text says, blanks around it aside; as TensorFlow's, but for hexadecimal
/// floats, which are none here. False if it says none, or an integer is out of range.
template <typename T>
bool ParseNumber(absl::string_view text, T* number) {
  if constexpr (std::is_same_v<T, float>) {
    return absl::SimpleAtof(text, number);
  } else if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(text, number);
  } else {
    return absl::SimpleAtoi(text, number);
  }
}

}  // namespace formwork
