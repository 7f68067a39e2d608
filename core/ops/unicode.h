#pragma once

// Code points of texts: what the ops' attrs say. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

/// What becomes of what is not a character, and of control characters.
struct UnicodeErrorAttrs {
  enum class Errors : uint8_t { kStrict, kReplace, kIgnore };

  Errors errors = Errors::kReplace;
  int32_t replacement = 0xfffd;   ///< At most 0x10ffff; it may be a surrogate.
  bool replace_controls = false;  ///< Code points below 0x20 are replaced, or ignored.

  static absl::StatusOr<UnicodeErrorAttrs> FromAttrs(const AttrMap& attrs);
};

enum class UnicodeEncoding : uint8_t { kUtf8, kUtf16, kUtf32 };  ///< The last two: big end first.

/// Attr output_encoding.
absl::StatusOr<UnicodeEncoding> OutputEncodingOf(const AttrMap& attrs);

/// UnicodeEncode: both inputs are vectors.
absl::Status CheckUnicodeEncode(absl::Span<const int64_t> values, absl::Span<const int64_t> splits);

}  // namespace formwork
