#pragma once

// The folder in which requests may name files.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/storage/file.h"

namespace formwork {

/// The file `path`, of the folder `root` or below, where that is the process's own or relative to
/// `root`; links are followed and may not lead out of it. It need not be there. Errors call it
/// `path`: who names it need not know where the server has it.
/// Errors: kFailedPrecondition if `root` is empty or no folder; kPermissionDenied if the path leads
/// out of it, kInvalidArgument if it is no path.
absl::StatusOr<FilePath> PathInFolder(absl::string_view root, absl::string_view path);

/// As PathInFolder; makes the folders on the way to it. Errors: also NewFile's.
absl::StatusOr<FilePath> NewPathInFolder(absl::string_view root, absl::string_view path);

}  // namespace formwork
