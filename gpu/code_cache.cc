#include "gpu/code_cache.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/stable_hash.h"
#include "core/base/status.h"
#include "core/storage/file.h"

namespace formwork {
namespace {

namespace fs = std::filesystem;

constexpr char kEnding[] = ".cubin";
// No code is as large: what is, is none of ours.
constexpr uint64_t kMostInFile = uint64_t{64} << 20;

// Before the code: a checksum of it, and what it was made of.
std::string Head(absl::string_view compiler, absl::string_view text, uint32_t checksum) {
  return absl::StrCat("formwork code 1\n", absl::Hex(checksum, absl::kZeroPad8), "\n",
                      compiler.size(), " ", text.size(), "\n", compiler, text);
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<OldFile> file, OldFile::Open(path));
  if (file->size() > kMostInFile) return InvalidArgument("too large");
  std::string bytes(file->size(), '\0');
  FORMWORK_RETURN_IF_ERROR(file->Read(0, bytes.size(), bytes.data()));
  return bytes;
}

absl::Status Write(const std::string& path, absl::string_view head, absl::string_view code) {
  FORMWORK_RETURN_IF_ERROR(MakeFolderOf(path));
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, NewFile::Create(path));
  FORMWORK_RETURN_IF_ERROR(file->Append(head));
  FORMWORK_RETURN_IF_ERROR(file->Append(code));
  FORMWORK_RETURN_IF_ERROR(file->Sync());
  return file->Keep();
}

}  // namespace

std::string CodeCache::Find(absl::string_view compiler, absl::string_view text) const {
  const std::string path = PathOf(compiler, text);
  const absl::StatusOr<std::string> bytes = ReadAll(path);
  const size_t head = Head(compiler, text, 0).size();
  if (!bytes.ok() || bytes->size() <= head) return "";
  std::string code = bytes->substr(head);
  if (!absl::StartsWith(*bytes, Head(compiler, text, ExtendCrc32c(0, code)))) return "";
  std::error_code ignored;  // Then it seems older than it is.
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return code;
}

void CodeCache::Keep(absl::string_view compiler, absl::string_view text,
                     absl::string_view code) const {
  const std::string head = Head(compiler, text, ExtendCrc32c(0, code));
  const uint64_t bytes = head.size() + code.size();
  if (bytes > std::min(most_bytes_, kMostInFile)) return;
  MakeRoom(bytes);
  Write(PathOf(compiler, text), head, code).IgnoreError();
}

std::string CodeCache::PathOf(absl::string_view compiler, absl::string_view text) const {
  const uint64_t hash = StableHash().Add(compiler).Add(text).value();
  return absl::StrCat(folder_, "/", absl::Hex(hash, absl::kZeroPad16), kEnding);
}

void CodeCache::MakeRoom(uint64_t bytes) const {
  struct File {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    std::error_code gone;  // By another process.
    if (at->path().extension() != kEnding) continue;
    files.push_back({at->last_write_time(gone), at->file_size(gone), at->path()});
    if (gone) files.pop_back();
  }
  uint64_t all = bytes;
  for (const File& file : files) all += file.bytes;
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (size_t i = 0; i < files.size() && all > most_bytes_; ++i) {
    fs::remove(files[i].path, error);
    all -= files[i].bytes;
  }
}

}  // namespace formwork
