#pragma once

// What ops on strings are on every device: attrs, and shapes. Shape functions use it, for which
// dimensions may be unknown (-1), and kernels.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/join.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace formwork {

/// StringJoin of `n` values: the output's dimensions. Scalars join with every element of the
/// others, which have one shape. Errors: kInvalidArgument in TensorFlow's words if they differ.
absl::StatusOr<Dims> PrepareStringJoin(int n, DimsOfValue dims);

struct StringFormatAttrs {
  std::vector<std::string> pieces;  ///< What stands before, between and behind the inputs.
  int64_t summarize = 3;

  /// Errors: kInvalidArgument in TensorFlow's words unless there is a placeholder for each input.
  static absl::StatusOr<StringFormatAttrs> FromAttrs(const AttrMap& attrs, size_t num_inputs);
};

struct AsStringAttrs {
  int64_t precision = -1;
  bool scientific = false;
  bool shortest = false;
  int64_t width = -1;
  std::string fill;  ///< One of " +-0#", or nothing.

  /// Errors: kInvalidArgument, mostly in TensorFlow's words, for what values of `dtype` cannot be
  /// written as.
  static absl::StatusOr<AsStringAttrs> FromAttrs(const AttrMap& attrs, DType dtype);
};

/// Attr unit of StringLength and Substr.
struct CharacterAttrs {
  bool utf8 = false;  ///< Counts characters of UTF-8, not bytes.

  static absl::StatusOr<CharacterAttrs> FromAttrs(const AttrMap& attrs);
};

/// Attr encoding of StringLower and StringUpper.
struct CaseAttrs {
  bool utf8 = false;  ///< Else only ASCII changes.

  /// Errors: kInvalidArgument in TensorFlow's words for another encoding.
  static absl::StatusOr<CaseAttrs> FromAttrs(const AttrMap& attrs);
};

/// Substr: the output's dimensions. Errors: kInvalidArgument in TensorFlow's words if pos and len
/// differ in shape, or pos does not broadcast with the input.
absl::StatusOr<Dims> PrepareSubstr(absl::Span<const int64_t> input, absl::Span<const int64_t> pos,
                                   absl::Span<const int64_t> len);

}  // namespace formwork
