#include "core/storage/database.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/background_thread.h"
#include "core/base/status.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"

namespace formwork {
namespace {

// Larger pieces stand apart from the tree, which is written again and again.
constexpr uint64_t kApartBytes = 4096;

// Of the database's threads.
constexpr int kNice = 19;
// Files are written in such pieces: what calls notice is short.
constexpr size_t kWrittenAtOnce = size_t{256} << 10;

// Whether files there can be written past the page cache, which not all file systems know.
bool TakesDirectWrites(const std::string& directory) {
  constexpr size_t kBlockBytes = 4096;
  alignas(kBlockBytes) static constexpr char kBlock[kBlockBytes] = {};
  const std::string path = directory + "/direct.probe";
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
  const bool takes = file >= 0 && pwrite(file, kBlock, kBlockBytes, 0) == kBlockBytes;
  if (file >= 0) close(file);
  unlink(path.c_str());
  return takes;
}

// Looking whether there is space again, every few seconds, begins with a new file of the log. Where
// that cannot be made the database would be read-only until it is opened again; but nothing is lost
// by it, so that it may look once more.
class FullDiskListener : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/,
                         rocksdb::Status* error) override {
    constexpr auto kHard = rocksdb::Status::Severity::kHardError;
    if (error->IsNoSpace() && error->severity() > kHard) *error = rocksdb::Status(*error, kHard);
  }
};

rocksdb::Options DatabaseOptions(const std::string& directory) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = kBufferBytes;
  options.max_write_buffer_number = kMostBuffers;
  options.compression = rocksdb::kNoCompression;  // Weights do not become smaller.
  options.enable_blob_files = true;
  options.min_blob_size = kApartBytes;
  options.disable_auto_compactions = true;  // Compact.
  options.max_open_files = 256;
  options.allow_fallocate = false;  // It takes what it writes.
  // What goes through the page cache is copied once more, by threads that are not in the
  // background.
  options.writable_file_max_buffer_size = kWrittenAtOnce;
  options.use_direct_io_for_flush_and_compaction = TakesDirectWrites(directory);
  // What was being written when it ended may be cut off; damage before that is no end of the log.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.listeners.push_back(std::make_shared<FullDiskListener>());
  return options;
}

absl::Status ToStatus(const rocksdb::Status& status, const std::string& directory) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat(
      "data directory: ", absl::StrReplaceAll(status.ToString(), {{directory + "/", ""}}));
  if (status.IsNoSpace() || status.IsMemoryLimit()) return absl::ResourceExhaustedError(text);
  if (status.IsCorruption()) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<Database> OpenDatabase(const std::string& directory) {
  std::error_code made;
  std::filesystem::create_directories(directory, made);
  if (made) {
    return FailedPrecondition("data directory '", directory, "' cannot be made: ", made.message());
  }
  rocksdb::DB* opened = nullptr;
  auto pace = std::make_unique<WritePace>();
  rocksdb::Options options = DatabaseOptions(directory);
  options.rate_limiter = pace->files();
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, &opened);
  if (!status.ok()) {
    const absl::Status error = ToStatus(status, directory);
    if (absl::StrContains(error.message(), "LOCK")) {
      return FailedPrecondition("data directory '", directory,
                                "' is in use by another process: ", status.ToString());
    }
    return Annotate(error, absl::StrCat("'", directory, "'"));
  }
  // Calls go first. Of each pool there is one thread; what the pool does to it, it does before.
  for (const auto pool : {rocksdb::Env::Priority::HIGH, rocksdb::Env::Priority::LOW}) {
    (void)rocksdb::Env::Default()->LowerThreadPoolCPUPriority(pool, rocksdb::CpuPriority::kLow);
    rocksdb::Env::Default()->Schedule([](void*) { StayInBackground(kNice); }, nullptr, pool);
  }
  return Database{std::unique_ptr<rocksdb::DB>(opened), std::move(pace)};
}

rocksdb::WriteOptions Unlogged() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;  // Commit flushes.
  return options;
}

rocksdb::WriteOptions Synced() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return options;
}

absl::Status ToStatus(const rocksdb::Status& status, const rocksdb::DB& db) {
  return ToStatus(status, db.GetName());
}

}  // namespace formwork
