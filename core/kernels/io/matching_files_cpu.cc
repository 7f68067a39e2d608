// Names of files by patterns, in the folder that the server has for files.

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/io/io_cpu.h"
#include "core/storage/files_dir.h"

namespace formwork {
namespace {

namespace fs = std::filesystem;

constexpr char kWildcards[] = "*?[\\";
constexpr size_t kMostBytes = 4096;  // Of a pattern, as of a path.

bool IsPattern(absl::string_view part) {
  return part.find_first_of(kWildcards) != absl::string_view::npos;
}

// The names in a folder, as it has them; none where it is none, or not within `root`.
absl::StatusOr<std::vector<std::string>> NamesIn(absl::string_view root,
                                                 const std::string& folder) {
  std::vector<std::string> names;
  const absl::StatusOr<FilePath> path = PathInFolder(root, folder + "/.");
  // The folder itself is not a path in it.
  std::error_code error;
  const fs::path canonical = fs::canonical(fs::path(std::string(root)) / folder, error);
  const bool is_root = !error && canonical == fs::canonical(fs::path(std::string(root)), error);
  if (error || (!path.ok() && !is_root)) return names;
  fs::directory_iterator entries(canonical, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (WorkIsCutAt(static_cast<int64_t>(names.size()), kDearItems)) return WorkStatus();
    names.push_back(entries->path().filename().string());
  }
  return names;
}

// Adds what matches `parts` from `at` on, behind `prefix`, which is there.
absl::Status Match(absl::string_view root, const std::string& prefix,
                   absl::Span<const std::string> parts, std::vector<std::string>& found) {
  if (parts.empty()) {
    if (!prefix.empty() && PathInFolder(root, prefix).ok()) found.push_back(prefix);
    return absl::OkStatus();
  }
  if (WorkIsCut()) return WorkStatus();
  const auto behind = [&prefix](const std::string& name) {
    return prefix.empty() || prefix.back() == '/' ? prefix + name : prefix + "/" + name;
  };
  if (!IsPattern(parts[0])) {
    const std::string path = behind(parts[0]);
    std::error_code error;
    const bool there = fs::exists(fs::path(std::string(root)) / path, error);
    return there ? Match(root, path, parts.subspan(1), found) : absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(root, prefix));
  for (const std::string& name : names) {
    if (::fnmatch(parts[0].c_str(), name.c_str(), 0) != 0) continue;
    std::error_code error;
    const std::string path = behind(name);
    if (parts.size() > 1 && !fs::is_directory(fs::path(std::string(root)) / path, error)) continue;
    FORMWORK_RETURN_IF_ERROR(Match(root, path, parts.subspan(1), found));
  }
  return absl::OkStatus();
}

absl::Status MatchingFiles(KernelContext& ctx) {
  const Tensor& patterns = ctx.input(0);
  if (patterns.rank() > 1) {
    return InvalidArgument("Input patterns tensor must be scalar or vector, but had shape: ",
                           patterns.shape().ToString());
  }
  const absl::string_view root = ctx.call().files_dir();
  std::vector<std::string> found;
  for (const std::string& pattern : patterns.span<std::string>()) {
    if (pattern.size() > kMostBytes) return InvalidArgument("pattern is too long");
    // What stands before all wildcards must not lead out of the folder.
    const size_t wildcard = std::min(pattern.find_first_of(kWildcards), pattern.size());
    FORMWORK_RETURN_IF_ERROR(PathInFolder(root, pattern.substr(0, wildcard) + "x").status());
    const std::vector<std::string> parts = absl::StrSplit(pattern, '/', absl::SkipEmpty());
    // Up and down again there would be more ways than anybody has time for.
    if (wildcard < pattern.size() && std::count(parts.begin(), parts.end(), "..") > 0) {
      return InvalidArgument("pattern has '..' and wildcards: ", pattern);
    }
    const bool absolute = !pattern.empty() && pattern[0] == '/';
    FORMWORK_RETURN_IF_ERROR(Match(root, absolute ? "/" : "", parts, found));
  }
  std::sort(found.begin(), found.end());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({static_cast<int64_t>(found.size())}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * names, ctx.AllocateOutput(0, DType::kString, shape));
  std::move(found.begin(), found.end(), names->mutable_span<std::string>().begin());
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeMatchingFiles(KernelInit&) { return KernelFn(&MatchingFiles); }

}  // namespace

void AddMatchingFilesCpuKernels(KernelRegistry& registry) {
  registry.Add("MatchingFiles", MakeMatchingFiles);
}

}  // namespace formwork
