#include "core/storage/files_dir.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace formwork {

namespace fs = std::filesystem;

absl::StatusOr<FilePath> PathInFolder(absl::string_view root, absl::string_view path) {
  constexpr size_t kMostBytes = 4096;
  if (root.empty()) {
    return FailedPrecondition("the server has no folder for files that requests name: --files-dir");
  }
  if (path.empty() || path.size() > kMostBytes || absl::StrContains(path, '\0')) {
    return InvalidArgument("not the path of a file: ", path.substr(0, 100));
  }
  std::error_code error;
  const fs::path folder = fs::canonical(fs::path(std::string(root)), error);
  if (error) return FailedPrecondition("the server's folder for files: ", error.message());
  // Resolves what is there of it, and then what is not, of which ".." is taken as written.
  const fs::path resolved = fs::weakly_canonical(folder / fs::path(std::string(path)), error);
  if (error) return InvalidArgument("not the path of a file: ", path, ": ", error.message());
  const fs::path relative = resolved.lexically_relative(folder);
  if (relative.empty() || *relative.begin() == ".." || *relative.begin() == ".") {
    return absl::PermissionDeniedError(
        absl::StrCat("'", path, "' is not in the server's folder for files"));
  }
  return FilePath(resolved.string(), std::string(path));
}

absl::StatusOr<FilePath> NewPathInFolder(absl::string_view root, absl::string_view path) {
  FORMWORK_ASSIGN_OR_RETURN(FilePath resolved, PathInFolder(root, path));
  FORMWORK_RETURN_IF_ERROR(MakeFolderOf(resolved));
  return resolved;
}

}  // namespace formwork
