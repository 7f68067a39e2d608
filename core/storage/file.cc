#include "core/storage/file.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

constexpr size_t kWriteBytes = size_t{64} << 10;
// What one system call is asked for, between two looks at the stop flag, and one call of the
// checksum, which takes an int.
constexpr size_t kMostAtOnce = size_t{16} << 20;

absl::Status FileError(absl::string_view name, int error) {
  const std::string text =
      absl::StrCat("file '", name, "': ", std::generic_category().message(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return absl::InvalidArgumentError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kMostAtOnce);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    crc = ~crc32_iscsi(data, static_cast<int>(part), ~crc);
    bytes.remove_prefix(part);
  }
  return crc;
}

FilePath FilePath::With(absl::string_view suffix) const {
  return FilePath(absl::StrCat(path, suffix), absl::StrCat(name, suffix));
}

NewFile::NewFile(FilePath path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Create(const FilePath& path) {
  static std::atomic<uint64_t> number{0};
  while (true) {
    std::string temporary = absl::StrCat(path.path, ".tmp-", getpid(), "-", number.fetch_add(1));
    const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;  // Left behind by a process that was killed.
    if (descriptor < 0) return FileError(path.name, errno);
    return std::unique_ptr<NewFile>(new NewFile(path, std::move(temporary), descriptor));
  }
}

NewFile::~NewFile() {
  close(descriptor_);
  if (!kept_) unlink(temporary_.c_str());
}

absl::Status NewFile::Append(absl::string_view bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kWriteBytes) FORMWORK_RETURN_IF_ERROR(Flush());
  if (bytes.size() > kWriteBytes) return Write(bytes);
  buffer_.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status NewFile::Flush() {
  FORMWORK_RETURN_IF_ERROR(Write(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status NewFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (WorkIsCut()) return WorkStatus();
    const ssize_t written = write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileError(path_.name, written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status NewFile::Sync() {
  FORMWORK_RETURN_IF_ERROR(Flush());
  return fsync(descriptor_) == 0 ? absl::OkStatus() : FileError(path_.name, errno);
}

absl::Status NewFile::Keep() {
  FORMWORK_RETURN_IF_ERROR(RenameFile(FilePath(temporary_, path_.name), path_));
  kept_ = true;
  return absl::OkStatus();
}

absl::Status MakeFolderOf(const FilePath& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path.path).parent_path(), error);
  return error ? FileError(path.name, error.value()) : absl::OkStatus();
}

absl::Status RenameFile(const FilePath& from, const FilePath& to) {
  if (rename(from.path.c_str(), to.path.c_str()) != 0) return FileError(from.name, errno);
  const std::string folder = std::filesystem::path(to.path).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError(to.name, errno);
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return error == 0 ? absl::OkStatus() : FileError(to.name, error);
}

absl::StatusOr<std::unique_ptr<OldFile>> OldFile::Open(const FilePath& path) {
  // Of a pipe the opening would wait.
  const int descriptor = open(path.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FileError(path.name, errno);
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    return InvalidArgument("file '", path.name, "' is not a plain file");
  }
  return std::unique_ptr<OldFile>(
      new OldFile(path.name, descriptor, static_cast<uint64_t>(info.st_size)));
}

OldFile::~OldFile() { close(descriptor_); }

absl::Status OldFile::Read(uint64_t offset, size_t bytes, void* to) const {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    if (WorkIsCut()) return WorkStatus();
    const ssize_t got =
        pread(descriptor_, next, std::min(bytes, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(name_, errno);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("file '", name_, "' ends at byte ", offset));
    }
    next += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace formwork
