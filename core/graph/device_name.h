#pragma once

// The device fields of nodes, as TensorFlow writes them: "/job:a/replica:0/task:0/device:GPU:1",
// "/device:CPU:0", "/gpu:1", "/CPU:*".

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace formwork {

struct DeviceName {
  std::string type;    ///< In capitals: "CPU", "GPU".
  int64_t index = -1;  ///< -1: any.

  /// Nullopt where the text names no device, a job alone, say.
  static std::optional<DeviceName> Parse(absl::string_view text);
};

}  // namespace formwork
