#pragma once

// SnapshotStore: a data directory, in which values wait for the snapshot that names them, and a log
// of what has changed since.
//
// A snapshot's values are written once, each under its key, and are worth nothing until a Commit
// makes them, and the record that names them, durable at once. So a snapshot is there as a whole or
// not at all, and the next one writes only what has changed. What is logged is durable at once, all
// that one Log was given or nothing of it. The database is RocksDB: it has checksums on all that
// it reads, and keeps large values apart from its tree, so that they are written once.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/storage/stored_key.h"
#include "core/storage/write_pace.h"
#include "core/tensor/tensor.h"
#include "formwork/state/snapshot.pb.h"

namespace rocksdb {
class DB;
class Status;
struct WriteOptions;
}  // namespace rocksdb

namespace formwork {

/// One entry of the log; `parts`: as Put takes them.
struct LoggedValue {
  StoredKey key;
  state::Logged logged;
  std::vector<Tensor> parts;
};

/// Thread-safe; Commit, Remove, Compact and RemoveAllBut are for one thread at a time, and so is
/// Log.
///
/// Errors of all methods: kResourceExhausted if the disk is full, kDataLoss naming what is damaged,
/// kUnavailable if the disk fails. After one of them others may succeed.
class SnapshotStore {
 public:
  /// Opens the directory, or makes it. Errors: also kFailedPrecondition if another process has it,
  /// or if it was written by another format of this program.
  static absl::StatusOr<std::unique_ptr<SnapshotStore>> Open(const std::string& directory);
  ~SnapshotStore();
  SnapshotStore(const SnapshotStore&) = delete;
  SnapshotStore& operator=(const SnapshotStore&) = delete;

  /// Tensors of plain data or strings, in host memory; their bytes. `logged`: whether they are
  /// durable with the next Log, and not with the next Commit alone.
  absl::StatusOr<uint64_t> Put(const StoredKey& key, absl::Span<const Tensor> values,
                               bool logged = false);
  /// Errors: also kNotFound; kResourceExhausted if there is no memory for them.
  absl::StatusOr<std::vector<Tensor>> Get(const StoredKey& key, Allocator& allocator) const;
  /// Thread-safe beside all else: from now on what is not logged is put at so many bytes a second,
  /// which Put waits for, and files are written as that needs it (write_pace.h); 0: as fast as can
  /// be.
  void SetPace(uint64_t bytes_per_second);
  /// Does nothing where there is none.
  absl::Status Remove(const StoredKey& key);
  /// Gives back to the disk what has been removed, where that is worth it.
  absl::Status Compact();
  /// Removes what a process has left behind that ended before it committed. To be called once,
  /// first.
  absl::Status RemoveAllBut(const std::function<bool(const StoredKey&)>& wanted);

  /// Makes durable, at once, that `values` are there and `removed`, logged before, are not. What
  /// it has written. After an error nothing of it has happened, or it is done again as a whole.
  absl::StatusOr<uint64_t> Log(absl::Span<const LoggedValue> values,
                               absl::Span<const StoredKey> removed);
  /// All that is logged, in no order.
  absl::Status VisitLog(
      const std::function<void(const StoredKey&, const state::Logged&)>& visit) const;
  /// Whether there is room on the disk for `bytes` more, and for what is still to be written.
  /// Errors: kResourceExhausted saying how much there is.
  absl::Status CheckRoom(uint64_t bytes) const;

  uint64_t stored_bytes() const { return stored_bytes_.load(std::memory_order_relaxed); }

  /// Makes durable what was put, and then these; a null one stays as it is.
  absl::Status Commit(const state::Life* life, const state::Snapshot* snapshot);
  /// As committed last; none before the first time.
  absl::StatusOr<std::optional<state::Life>> ReadLife() const;
  absl::StatusOr<std::optional<state::Snapshot>> ReadSnapshot() const;
  /// Makes it durable at once, in place of the one before.
  absl::Status Write(const state::Namespaces& namespaces);
  absl::StatusOr<std::optional<state::Namespaces>> ReadNamespaces() const;

 private:
  SnapshotStore(std::unique_ptr<rocksdb::DB> db, std::unique_ptr<WritePace> pace);
  absl::Status CheckFormat();
  absl::Status CheckRoom(uint64_t bytes, uint64_t reserve) const;
  absl::Status VisitHeaders(
      absl::FunctionRef<absl::Status(const StoredKey&, const state::StoredValue&)> visit) const;
  // `message` is the one that was written under `key`, if any was.
  template <typename Message>
  absl::StatusOr<std::optional<Message>> Read(const char* key) const;
  // What is stored under the key, without the values themselves; none where there is nothing.
  absl::StatusOr<std::optional<state::StoredValue>> Header(const StoredKey& key) const;
  absl::Status Remove(const StoredKey& key, const state::StoredValue& header);
  // `before` is called with the bytes that are put next.
  absl::StatusOr<uint64_t> Put(const StoredKey& key, absl::Span<const Tensor> values,
                               const rocksdb::WriteOptions& options,
                               absl::FunctionRef<void(uint64_t)> before);
  // After an error the database refuses to write until it is told that things may be better.
  absl::Status Retried(const std::function<rocksdb::Status()>& write);

  std::unique_ptr<rocksdb::DB> db_;
  const std::unique_ptr<WritePace> pace_;
  std::atomic<uint64_t> stored_bytes_{0};   // Of values.
  std::atomic<uint64_t> removed_bytes_{0};  // That are still on the disk.
};

}  // namespace formwork
