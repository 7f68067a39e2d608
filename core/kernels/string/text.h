#pragma once

// What kernels over strings share: bounds, and looks at the StopFlag.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/format_tensor.h"

namespace formwork {

/// Bounds the text that a step makes, so that attrs cannot ask for all memory.
inline absl::Status CheckTextSize(int64_t bytes) {
  if (bytes <= kMaxTextBytes) return absl::OkStatus();
  return ResourceExhausted("text is too long: bytes=", bytes, " limit=", kMaxTextBytes);
}

/// Looks at the StopFlag after so many strings, or so many bytes of them.
class TextLooks {
 public:
  bool CutBefore(size_t bytes) {
    bytes_ += bytes;
    if (++texts_ < kDearItems && bytes_ < kBytesBetween) return false;
    texts_ = 0;
    bytes_ = 0;
    return WorkIsCut();
  }

 private:
  static constexpr size_t kBytesBetween = size_t{1} << 20;
  int64_t texts_ = 0;
  size_t bytes_ = 0;
};

/// Bytes of one string that are walked over between two looks.
inline constexpr int64_t kTextBlock = int64_t{1} << 20;

}  // namespace formwork
