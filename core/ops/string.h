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
#include "core/ops/segment.h"
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

/// StringToHashBucketStrong.
struct StrongHashAttrs {
  int64_t num_buckets = 1;
  std::vector<int64_t> key;  ///< Two numbers.

  /// Errors: kInvalidArgument in TensorFlow's words for another key.
  static absl::StatusOr<StrongHashAttrs> FromAttrs(const AttrMap& attrs);
};

/// Fingerprint: the output's dimensions; `method` is null where it is not known. Errors:
/// kInvalidArgument in TensorFlow's words for data without rows, or another method than farmhash64.
absl::StatusOr<Dims> PrepareFingerprint(absl::Span<const int64_t> data, const Tensor* method);

/// StringSplit, StringSplitV2, whose second input is called `what`. Errors: kInvalidArgument in
/// TensorFlow's words unless it is a scalar, and the first a vector.
absl::Status CheckStringSplit(absl::Span<const int64_t> input, absl::string_view what,
                              absl::Span<const int64_t> separator);

struct NGramsAttrs {
  std::string separator;
  std::vector<int64_t> ngram_widths;
  std::string left_pad;
  std::string right_pad;
  int64_t pad_width = 0;  ///< Negative: as many as the n-gram takes.
  bool preserve_short_sequences = false;

  /// Errors: kInvalidArgument in TensorFlow's words for widths that are not positive.
  static absl::StatusOr<NGramsAttrs> FromAttrs(const AttrMap& attrs);
};

struct ReduceJoinGeometry {
  Dims joined;  ///< Dimensions of the input, the last of which varies fastest.
  Dims kept;
  Dims output;
};
/// ReduceJoin; `axes` is null where they are not known, and then all that is known is nothing.
/// Errors: kOutOfRange and kInvalidArgument in TensorFlow's words for axes that are not the input's
/// or occur twice.
absl::StatusOr<ReduceJoinGeometry> PrepareReduceJoin(absl::Span<const int64_t> input,
                                                     const Tensor* axes, bool keep_dims);

/// UnsortedSegmentJoin: as PrepareUnsortedSegment, with errors of its own.
absl::StatusOr<SegmentGeometry> PrepareSegmentJoin(absl::Span<const int64_t> input,
                                                   absl::Span<const int64_t> ids,
                                                   const Tensor* num_segments);

}  // namespace formwork
