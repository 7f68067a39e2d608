#pragma once

// Files that fail: this program has the system calls for files of its own, which ask here first.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace formwork::testing {

/// Of the files below a folder, while one lives. One at a time. Thread-safe.
class FaultyFiles {
 public:
  enum class Kind { kCreate, kWrite, kSync, kRename, kRemove, kRead };
  struct Call {
    Kind kind = Kind::kWrite;
    std::string path;
    size_t bytes = 0;    ///< To be written or read.
    int64_t number = 0;  ///< Of all such calls, from 1 on.
    bool changes() const { return kind != Kind::kRead; }
  };
  /// What becomes of a call: so many of its bytes are written or read, and then it fails with
  /// `error`, or, where that is 0, says how many they were.
  struct Outcome {
    size_t bytes = SIZE_MAX;
    int error = 0;
  };
  using Decide = std::function<Outcome(const Call&)>;

  /// `decide` is called for one call after the other. Not for RocksDB's own log of messages.
  FaultyFiles(std::string folder, Decide decide);
  ~FaultyFiles();
  FaultyFiles(const FaultyFiles&) = delete;
  FaultyFiles& operator=(const FaultyFiles&) = delete;

  /// Cuts what was written behind the last sync of its file from it, as a machine that has lost its
  /// power may. Only where nobody writes any more.
  void LoseWhatWasNotSynced();

  // For the system calls.
  Outcome Ask(Kind kind, const std::string& path, size_t bytes);
  void Synced(const std::string& path);
  void Renamed(const std::string& from, const std::string& to);
  bool IsOf(absl::string_view path) const;

 private:
  const std::string folder_;  // With a slash behind it.
  absl::Mutex mutex_;
  const Decide decide_;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of files that have been written since: the bytes that are on the disk.
  std::map<std::string, uint64_t> synced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::testing
