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

/// Where a file is, and what errors call it: its path or, where that is not to be told, a name.
struct FilePath {
  FilePath(std::string path) : path(path), name(std::move(path)) {}  // NOLINT: most have no other.
  FilePath(std::string path, std::string name) : path(std::move(path)), name(std::move(name)) {}
  /// Of a file whose path, and name, has this behind it.
  FilePath With(absl::string_view suffix) const;

  std::string path;
  std::string name;
};

/// A file that is written under a temporary name beside its own, which it gets at last. For one
/// thread. Errors: kNotFound if there is no such folder, kResourceExhausted if the disk is full,
/// kPermissionDenied, kUnavailable if the disk fails; they name the file.
class NewFile {
 public:
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(const FilePath& path);
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
  NewFile(FilePath path, std::string temporary, int descriptor);
  absl::Status Flush();
  absl::Status Write(absl::string_view bytes);

  const FilePath path_;
  const std::string temporary_;
  const int descriptor_;
  uint64_t size_ = 0;
  std::string buffer_;  // Small pieces, on their way.
  bool kept_ = false;
};

/// Makes the folders that lead to the file. Errors: as NewFile's.
absl::Status MakeFolderOf(const FilePath& path);
/// Errors: as NewFile's.
absl::Status RenameFile(const FilePath& from, const FilePath& to);

/// A file to be read. Thread-safe.
class OldFile {
 public:
  /// Errors: kNotFound, kPermissionDenied, kInvalidArgument if it is not a plain file.
  static absl::StatusOr<std::unique_ptr<OldFile>> Open(const FilePath& path);
  ~OldFile();
  OldFile(const OldFile&) = delete;
  OldFile& operator=(const OldFile&) = delete;

  const std::string& name() const { return name_; }  ///< As errors have it.
  uint64_t size() const { return size_; }            ///< As it was opened.
  /// Errors: kDataLoss if the file ends before; kUnavailable if the disk fails.
  absl::Status Read(uint64_t offset, size_t bytes, void* to) const;

 private:
  OldFile(std::string name, int descriptor, uint64_t size)
      : name_(std::move(name)), descriptor_(descriptor), size_(size) {}

  const std::string name_;
  const int descriptor_;
  const uint64_t size_;
};

}  // namespace formwork
