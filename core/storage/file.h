#pragma once

// Files as values are stored in: written whole or not at all, read by their parts. Long reads and
// writes look at the thread's StopFlag (core/base/stop_flag.h) and return its status.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace formwork {

/// CRC-32C (Castagnoli) of `bytes` behind those of `crc`; 0 at first.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes);

/// A file that is written under a temporary name beside its own, which it gets at last. For one
/// thread. Errors: kNotFound if there is no such folder, kResourceExhausted if the disk is full,
/// kPermissionDenied, kUnavailable if the disk fails; they name the file.
class NewFile {
 public:
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path);
  ~NewFile();  ///< Removes it where it has not got its name.
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Append(absl::string_view bytes);
  uint64_t size() const { return size_; }
  /// All that was appended is on the disk.
  absl::Status Sync();
  /// To be called after Sync: the file has its name, in place of one that was there, and the disk
  /// knows it.
  absl::Status Keep();

 private:
  NewFile(std::string path, std::string temporary, int descriptor);
  absl::Status Flush();
  absl::Status Write(absl::string_view bytes);

  const std::string path_;
  const std::string temporary_;
  const int descriptor_;
  uint64_t size_ = 0;
  std::string buffer_;  // Small pieces, on their way.
  bool kept_ = false;
};

/// Makes the folders that lead to the file. Errors: as NewFile's.
absl::Status MakeFolderOf(const std::string& path);
/// Errors: as NewFile's.
absl::Status RenameFile(const std::string& from, const std::string& to);

/// A file to be read. Thread-safe.
class OldFile {
 public:
  /// Errors: kNotFound, kPermissionDenied, kInvalidArgument if it is not a plain file.
  static absl::StatusOr<std::unique_ptr<OldFile>> Open(const std::string& path);
  ~OldFile();
  OldFile(const OldFile&) = delete;
  OldFile& operator=(const OldFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  ///< As it was opened.
  /// Errors: kDataLoss if the file ends before; kUnavailable if the disk fails.
  absl::Status Read(uint64_t offset, size_t bytes, void* to) const;

 private:
  OldFile(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  const std::string path_;
  const int descriptor_;
  const uint64_t size_;
};

}  // namespace formwork
