#pragma once

// What the ops that print are on every device.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
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

}  // namespace formwork
