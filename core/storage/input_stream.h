#pragma once

// Files that are read from their beginning on, piece by piece, and inflated where they are
// compressed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/storage/file.h"

namespace formwork {

enum class Compression : uint8_t { kNone, kZlib, kGzip };

/// Of TensorFlow's names: "", "ZLIB", "GZIP". Errors: kInvalidArgument.
absl::StatusOr<Compression> CompressionFromName(absl::string_view name);

/// What a file has, or what that inflates to. Holds a block of it in memory and no descriptor: the
/// file is opened for each block, so that any number of streams may be there. What is appended
/// after Open is not read. For one thread. Looks at the thread's StopFlag (core/base/stop_flag.h).
///
/// Errors of all that read: OldFile's; kDataLoss where what is compressed is damaged or cut off, or
/// the file has become shorter.
class InputStream {
 public:
  /// Errors: OldFile::Open's.
  static absl::StatusOr<std::unique_ptr<InputStream>> Open(const FilePath& path,
                                                           Compression compression);
  virtual ~InputStream() = default;
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// What comes next: some of it; empty at the end. Holds until the next call.
  absl::StatusOr<absl::string_view> Peek();
  /// Goes on behind `bytes` of what Peek gave.
  void Advance(size_t bytes) { at_ += bytes; }
  /// Passes `bytes` by; false where there are not as many.
  absl::StatusOr<bool> Skip(uint64_t bytes);
  /// Appends the next `bytes`, or all that are left, to `to`, which grows as they come; how many.
  absl::StatusOr<size_t> Read(size_t bytes, std::string& to);

  uint64_t file_bytes() const { return file_bytes_; }  ///< Compressed, where it is.

 protected:
  explicit InputStream(uint64_t file_bytes) : file_bytes_(file_bytes) {}
  /// Replaces `block` by what comes next; empty at the end.
  virtual absl::Status Fill(std::string& block) = 0;
  /// Passes up to `bytes` by without reading them; how many.
  virtual uint64_t Jump(uint64_t /*bytes*/) { return 0; }

 private:
  const uint64_t file_bytes_;
  std::string block_;
  size_t at_ = 0;  // In the block.
};

}  // namespace formwork
