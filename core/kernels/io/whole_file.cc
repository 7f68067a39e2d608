#include "core/kernels/io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/format_tensor.h"
#include "core/storage/files_dir.h"

namespace formwork {
namespace {

absl::Status CheckSize(int64_t bytes) {
  if (bytes <= kMaxTextBytes) return absl::OkStatus();
  return ResourceExhausted("the file is too large: bytes=", bytes, " limit=", kMaxTextBytes);
}

absl::StatusOr<std::string> ReadWhole(const std::string& path, absl::string_view name) {
  // Not waiting for a pipe's other end.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::ErrnoToStatus(errno, name);
  const absl::Cleanup close = [file] { ::close(file); };
  struct stat what;
  if (::fstat(file, &what) != 0) return absl::ErrnoToStatus(errno, name);
  if (!S_ISREG(what.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, S_ISDIR(what.st_mode) ? "; Is a directory" : "; Is not a file"));
  }
  FORMWORK_RETURN_IF_ERROR(CheckSize(what.st_size));
  constexpr size_t kBlock = size_t{1} << 20;
  std::string text;
  while (true) {
    if (WorkIsCut()) return WorkStatus();
    const size_t done = text.size();
    const size_t left = static_cast<size_t>(what.st_size) - std::min<size_t>(done, what.st_size);
    // One byte more than is left tells whether it has grown.
    text.resize(done + std::min<size_t>(left + 1, kBlock));
    const ssize_t got = ::read(file, text.data() + done, text.size() - done);
    if (got < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, name);
    text.resize(done + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    FORMWORK_RETURN_IF_ERROR(CheckSize(static_cast<int64_t>(text.size())));
    if (got == 0) return text;
  }
}

}  // namespace

absl::StatusOr<std::string> WholeFile(CallScope& call, const std::string& name) {
  FORMWORK_ASSIGN_OR_RETURN(const FilePath file, PathInFolder(call.files_dir(), name));
  return ReadWhole(file.path, name);
}

}  // namespace formwork
