#pragma once

// Tensors as text, character for character as TensorFlow writes them; shared by Assert, Print,
// PrintV2, StringFormat and AsString.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace formwork {

enum class TensorTextStyle : uint8_t {
  kFirst,  ///< Assert's and Print's: the first entries, strings bare, dimensions side by side.
  kEnds,   ///< tf.print's: entries at both ends of every dimension, strings in quotes.
};

/// The values of `tensor`; at most `max_entries` of them (at each end of each dimension with
/// kEnds), all where it is negative.
/// Errors: kResourceExhausted if the text would be longer than kMaxTextBytes.
absl::StatusOr<std::string> FormatTensor(const Tensor& tensor, int64_t max_entries,
                                         TensorTextStyle style);

/// Rank and tiny elements let a small tensor have a long text; longer ones are refused.
inline constexpr int64_t kMaxTextBytes = int64_t{256} << 20;

/// The shortest of %.6g and %.9g (%.15g and %.17g) that reads back as the same value.
std::string FormatFloat(float value);
std::string FormatDouble(double value);

}  // namespace formwork
