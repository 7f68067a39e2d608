#pragma once

// RocksDB under SnapshotStore, set up for large values, and so that calls notice little of it.

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/write_pace.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace formwork {

/// What is written and not flushed waits in memory, in so many buffers at the most.
inline constexpr size_t kBufferBytes = size_t{16} << 20;
inline constexpr int kMostBuffers = 4;

struct Database {
  std::unique_ptr<rocksdb::DB> db;
  std::unique_ptr<WritePace> pace;  ///< By which its files are written.
};

/// Errors: as SnapshotStore::Open.
absl::StatusOr<Database> OpenDatabase(const std::string& directory);

/// What is put is durable once the database is flushed.
rocksdb::WriteOptions Unlogged();
/// What is put is durable once that is over, with all that was put before and is logged.
rocksdb::WriteOptions Synced();

/// Errors: as SnapshotStore's. Calls its files by their names in its directory: clients need not
/// know where that is.
absl::Status ToStatus(const rocksdb::Status& status, const rocksdb::DB& db);

}  // namespace formwork
