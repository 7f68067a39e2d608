#include "tests/faults/faulty_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace formwork::testing {
namespace {

std::atomic<FaultyFiles*> faults{nullptr};
// Held by whoever asks them, so that they do not end meanwhile.
ABSL_CONST_INIT absl::Mutex asking(absl::kConstInit);

// Has the faults, if there are any of that path, look at it.
template <typename Look>
void Have(absl::string_view path, const Look& look) {
  absl::ReaderMutexLock lock(&asking);
  FaultyFiles* const now = faults.load();
  if (now != nullptr && now->IsOf(path)) look(*now);
}

// The one that this program's stands before.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string PathOf(int descriptor) {
  std::array<char, 4096> path;
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  return length <= 0 ? "" : std::string(path.data(), static_cast<size_t>(length));
}

// 0 where it is not there.
uint64_t SizeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

bool IsMessages(absl::string_view path) {
  return absl::StartsWith(path.substr(path.rfind('/') + 1), "LOG");
}

using Kind = FaultyFiles::Kind;

// What the faults say of a call, if it is of theirs; where it fails with nothing of it done, errno.
struct Asked {
  Asked(Kind kind, const std::string& path, size_t bytes) : bytes(bytes) {
    if (faults.load() == nullptr) return;
    Have(path, [&](FaultyFiles& now) {
      const FaultyFiles::Outcome outcome = now.Ask(kind, path, bytes);
      this->bytes = std::min(bytes, outcome.bytes);
      error = outcome.error;
    });
  }
  size_t bytes;
  int error = 0;
};

int Fail(int error) {
  errno = error;
  return -1;
}

template <typename Do>  // Of so many bytes.
ssize_t Move(Kind kind, int descriptor, size_t bytes, const Do& with) {
  if (faults.load() == nullptr) return with(bytes);
  const Asked asked(kind, PathOf(descriptor), bytes);
  if (asked.error == 0) return with(asked.bytes);
  if (asked.bytes > 0 && asked.bytes < bytes) with(asked.bytes);
  return Fail(asked.error);
}

template <typename Sync>
int SyncFile(int descriptor, const Sync& sync) {
  if (faults.load() == nullptr) return sync(descriptor);
  const std::string path = PathOf(descriptor);
  const Asked asked(Kind::kSync, path, 0);
  if (asked.error != 0) return Fail(asked.error);
  const int done = sync(descriptor);
  if (done == 0) Have(path, [&](FaultyFiles& now) { now.Synced(path); });
  return done;
}

template <typename Open>
int OpenFile(const char* path, int flags, const Open& open) {
  if ((flags & O_CREAT) != 0) {
    const Asked asked(Kind::kCreate, path, 0);
    if (asked.error != 0) return Fail(asked.error);
  }
  return open();
}

}  // namespace

FaultyFiles::FaultyFiles(std::string folder, Decide decide)
    : folder_(std::filesystem::canonical(folder).string() + "/"), decide_(std::move(decide)) {
  faults.store(this);
}

FaultyFiles::~FaultyFiles() {
  absl::MutexLock lock(&asking);
  faults.store(nullptr);
}

bool FaultyFiles::IsOf(absl::string_view path) const {
  return absl::StartsWith(absl::StrCat(path, "/"), folder_) && !IsMessages(path);
}

FaultyFiles::Outcome FaultyFiles::Ask(Kind kind, const std::string& path, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (kind == Kind::kWrite && !synced_.contains(path)) synced_.emplace(path, SizeOf(path));
  return decide_({kind, path, bytes, ++calls_});
}

void FaultyFiles::Synced(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  const auto file = synced_.find(path);
  if (file != synced_.end()) file->second = SizeOf(path);
}

void FaultyFiles::Renamed(const std::string& from, const std::string& to) {
  absl::MutexLock lock(&mutex_);
  const auto file = synced_.extract(from);
  if (!file.empty()) synced_[to] = file.mapped();
}

void FaultyFiles::LoseWhatWasNotSynced() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [path, bytes] : synced_) {
    if (SizeOf(path) > bytes) std::filesystem::resize_file(path, bytes);
  }
}

}  // namespace formwork::testing

// --- The system calls
// -----------------------------------------------------------------------------

using namespace formwork::testing;  // NOLINT: the functions below are nobody's.

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static auto* const next = Next<ssize_t(int, const void*, size_t)>("write");
  return Move(Kind::kWrite, descriptor, bytes,
              [&](size_t count) { return next(descriptor, data, count); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  // Past the page cache whole blocks are written, of less too.
  constexpr size_t kBlock = 512;
  const bool direct = bytes % kBlock == 0 && (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
  return Move(Kind::kWrite, descriptor, bytes, [&](size_t count) {
    if (direct) count = (count + kBlock - 1) / kBlock * kBlock;
    return next(descriptor, data, count, offset);
  });
}

ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) {
  static auto* const next = Next<ssize_t(int, void*, size_t, off_t)>("pread");
  return Move(Kind::kRead, descriptor, bytes,
              [&](size_t count) { return next(descriptor, data, count, offset); });
}

int fsync(int descriptor) {
  static auto* const next = Next<int(int)>("fsync");
  return SyncFile(descriptor, next);
}

int fdatasync(int descriptor) {
  static auto* const next = Next<int(int)>("fdatasync");
  return SyncFile(descriptor, next);
}

int open(const char* path, int flags, ...) {
  static auto* const next = Next<int(const char*, int, mode_t)>("open");
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return OpenFile(path, flags, [&] { return next(path, flags, mode); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const next = Next<int(const char*, const char*)>("rename");
  const Asked asked(Kind::kRename, to, 0);
  if (asked.error != 0) return Fail(asked.error);
  const int done = next(from, to);
  if (done == 0 && faults.load() != nullptr) {
    Have(to, [&](FaultyFiles& now) { now.Renamed(from, to); });
  }
  return done;
}

int unlink(const char* path) noexcept {
  static auto* const next = Next<int(const char*)>("unlink");
  const Asked asked(Kind::kRemove, path, 0);
  return asked.error != 0 ? Fail(asked.error) : next(path);
}

int ftruncate(int descriptor, off_t length) noexcept {
  static auto* const next = Next<int(int, off_t)>("ftruncate");
  const Asked asked(Kind::kWrite, PathOf(descriptor), 0);
  return asked.error != 0 ? Fail(asked.error) : next(descriptor, length);
}

}  // extern "C"
