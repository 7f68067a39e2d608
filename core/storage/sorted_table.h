#pragma once

// A sorted table of strings in a file, as LevelDB and TensorFlow's checkpoints have them. Read and
// written by LevelDB.

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/storage/file.h"

namespace formwork {

/// Errors: the file's.
absl::Status WriteTable(const std::map<std::string, std::string>& entries, NewFile& file);
/// Calls `entry` for each, in order, until that fails. Errors: that; the file's; kDataLoss if it is
/// not such a table, or damaged; kUnimplemented if its index is compressed, which TensorFlow's is
/// not.
absl::Status ReadTable(
    const OldFile& file,
    const std::function<absl::Status(absl::string_view key, absl::string_view value)>& entry);

}  // namespace formwork
