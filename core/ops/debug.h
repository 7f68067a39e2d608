#pragma once

// What the ops that print are on every device.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"

namespace formwork {

struct PrintAttrs {
  std::string message;
  int64_t first_n = -1;  ///< How often it prints; negative: always.
  int64_t summarize = 3;

  static absl::StatusOr<PrintAttrs> FromAttrs(const AttrMap& attrs);
};

struct PrintV2Attrs {
  std::string stream;  ///< All text goes to the caller, whatever it is.
  std::string end;

  /// Errors: kInvalidArgument in TensorFlow's words for a stream that it does not know.
  static absl::StatusOr<PrintV2Attrs> FromAttrs(const AttrMap& attrs);
};

struct ImageSummaryAttrs {
  int64_t max_images = 3;
  std::vector<uint8_t> bad_color;  ///< Of pixels that are not finite, channel by channel.

  /// Errors: kInvalidArgument in TensorFlow's words.
  static absl::StatusOr<ImageSummaryAttrs> FromAttrs(const AttrMap& attrs);
};

/// `images`: [images, rows, columns, channels]. Errors: kInvalidArgument in TensorFlow's words
/// unless the tag is a scalar and the images have 1, 3 or 4 channels and are not too large.
absl::Status CheckImageSummary(absl::Span<const int64_t> tag, absl::Span<const int64_t> images);

}  // namespace formwork
