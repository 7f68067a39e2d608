#pragma once

// What texts of kernels have been compiled to, on disk. Needs no CUDA itself.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace formwork {

/// A folder of code, for as long as nobody deletes it: a server that starts again need not compile.
/// A file says what it was made of, so that a hash that two texts share, or half a file, is no
/// match. Thread-safe, and other processes may use the folder, too.
class CodeCache {
 public:
  /// Of so many bytes at most: where there would be more, what was used longest ago goes.
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  explicit CodeCache(std::string folder, uint64_t most_bytes = kMostBytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  /// `compiler`: all that the code depends on beside the text. Empty where it is not there.
  std::string Find(absl::string_view compiler, absl::string_view text) const;
  /// What cannot be written is not kept.
  void Keep(absl::string_view compiler, absl::string_view text, absl::string_view code) const;

 private:
  std::string PathOf(absl::string_view compiler, absl::string_view text) const;
  void MakeRoom(uint64_t bytes) const;

  const std::string folder_;
  const uint64_t most_bytes_;
};

}  // namespace formwork
