#include "core/storage/snapshot_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/background_thread.h"
#include "core/base/status.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace formwork {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored as in memory");

// Keys: these; of a value's header this letter and its StoredKey; of its bytes another letter, the
// StoredKey and the number of a piece. Headers stand together, because whoever lists keys reads
// what they stand for.
constexpr char kFormatKey[] = "format";
constexpr char kLifeKey[] = "life";
constexpr char kSnapshotKey[] = "snapshot";
constexpr char kNamespacesKey[] = "namespaces";
constexpr char kFormat[] = "formwork 4";
// Without a log, without answers, and without namespaces' durability; else the same.
constexpr absl::string_view kFormatsBefore[] = {"formwork 1", "formwork 2", "formwork 3"};
constexpr char kHeader = 'h';
constexpr char kAfterHeaders = 'i';
constexpr char kPiece = 'p';

// A value's bytes are stored in pieces of so many.
constexpr size_t kPieceBytes = size_t{4} << 20;
// Larger pieces stand apart from the tree, which is written again and again.
constexpr uint64_t kApartBytes = 4096;
// Of what waits in memory to be written there are four at the most.
constexpr size_t kBufferBytes = size_t{16} << 20;
constexpr size_t kHeaderKeyBytes = 1 + 1 + 8 + 8;
// What is logged at once goes through RocksDB's own log up to so many bytes; more is flushed first.
constexpr uint64_t kLoggedAtOnce = kBufferBytes;
// Of the disk, that is left to what has begun when nothing new may begin.
constexpr uint64_t kReserveBytes = uint64_t{16} << 20;
constexpr uint64_t kLeastReserveBytes = uint64_t{4} << 20;

// Of the database's threads.
constexpr int kNice = 19;
// Files are written in such pieces: what calls notice is short.
constexpr size_t kWrittenAtOnce = size_t{256} << 10;

// When what has been removed is given back to the disk: at so many bytes, and parts of what is
// stored; or at so many files of keys.
constexpr uint64_t kWorthCompaction = uint64_t{64} << 20;
constexpr uint64_t kManyFiles = 32;

void AppendBigEndian(uint64_t number, size_t bytes, std::string* key) {
  for (size_t i = bytes; i-- > 0;) key->push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t LoadBigEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

std::string EncodeKey(char letter, const StoredKey& key) {
  std::string text = {letter, static_cast<char>(key.of)};
  AppendBigEndian(key.id, 8, &text);
  AppendBigEndian(key.version, 8, &text);
  return text;
}

std::string HeaderKey(const StoredKey& key) { return EncodeKey(kHeader, key); }

std::string PieceKey(const StoredKey& key, uint64_t piece) {
  std::string text = EncodeKey(kPiece, key);
  AppendBigEndian(piece, 8, &text);
  return text;
}

std::optional<StoredKey> FromHeaderKey(absl::string_view text) {
  if (text.size() != kHeaderKeyBytes) return std::nullopt;
  return StoredKey{static_cast<StoredKey::Of>(text[1]), LoadBigEndian(text.substr(2, 8)),
                   LoadBigEndian(text.substr(10, 8))};
}

// As many as there can be at most, where a damaged one says that they are more.
uint64_t BytesOf(const state::StoredValue& header) {
  uint64_t bytes = 0;
  for (const state::StoredValue::Part& part : header.parts()) {
    if (__builtin_add_overflow(bytes, part.bytes(), &bytes)) return UINT64_MAX;
  }
  return bytes;
}

std::string Described(const StoredKey& key) {
  switch (key.of) {
    case StoredKey::Of::kResource:
      return absl::StrCat("the value of resource id=", key.id, " version=", key.version);
    case StoredKey::Of::kRegistration:
      return absl::StrCat("registration ", key.id);
    case StoredKey::Of::kLoggedResource:
      return absl::StrCat("the logged value of resource id=", key.id);
    case StoredKey::Of::kLoggedRows:
      return absl::StrCat("logged changes of resource id=", key.id, " position=", key.version);
    case StoredKey::Of::kLoggedFunction:
      return absl::StrCat("what is logged of function id=", key.id);
    case StoredKey::Of::kLoggedAnswer:
      return absl::StrCat("the answer to a request, position=", key.version);
    case StoredKey::Of::kLoggedClient:
      return absl::StrCat("what is known of client ", key.id);
    case StoredKey::Of::kLoggedMore:
      break;
  }
  return "an entry of the log";
}

absl::Status Damaged(const StoredKey& key, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("data directory: ", Described(key), " ", what));
}

absl::Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("data directory: ", status.ToString());
  if (status.IsNoSpace() || status.IsMemoryLimit()) return absl::ResourceExhaustedError(text);
  if (status.IsCorruption()) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

rocksdb::Slice Of(absl::string_view text) { return {text.data(), text.size()}; }

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

bool IsLogged(const StoredKey& key) {
  return key.of != StoredKey::Of::kResource && key.of != StoredKey::Of::kRegistration;
}

// Cuts what is written into pieces.
class PieceWriter {
 public:
  using Put = absl::FunctionRef<rocksdb::Status(const std::string& key, absl::string_view piece)>;
  PieceWriter(Put put, const StoredKey& key) : put_(put), key_(key) {}

  rocksdb::Status Write(absl::string_view bytes) {
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kPieceBytes - piece_.size());
      if (taken == kPieceBytes) {  // Where it stands, without a copy.
        const rocksdb::Status put = PutNext(bytes.substr(0, taken));
        if (!put.ok()) return put;
      } else {
        piece_.append(bytes.data(), taken);
        if (piece_.size() == kPieceBytes) {
          const rocksdb::Status put = Finish();
          if (!put.ok()) return put;
        }
      }
      bytes.remove_prefix(taken);
    }
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish() {
    if (piece_.empty()) return rocksdb::Status::OK();
    const rocksdb::Status put = PutNext(piece_);
    piece_.clear();
    return put;
  }

 private:
  rocksdb::Status PutNext(absl::string_view piece) { return put_(PieceKey(key_, next_++), piece); }

  const Put put_;
  const StoredKey key_;
  uint64_t next_ = 0;
  std::string piece_;
};

class PieceReader {
 public:
  PieceReader(rocksdb::DB& db, const StoredKey& key) : db_(db), key_(key) {}

  absl::Status Read(char* to, size_t bytes) {
    return Take(bytes, [&to](absl::string_view part) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    });
  }
  // Takes memory for what has been read alone, whatever `bytes` says.
  absl::Status Append(size_t bytes, std::string* to) {
    return Take(bytes, [to](absl::string_view part) { to->append(part.data(), part.size()); });
  }

 private:
  absl::Status Take(size_t bytes, absl::FunctionRef<void(absl::string_view)> taken) {
    while (bytes > 0) {
      if (left_.empty()) FORMWORK_RETURN_IF_ERROR(Next());
      const size_t part = std::min(bytes, left_.size());
      taken(left_.substr(0, part));
      left_.remove_prefix(part);
      bytes -= part;
    }
    return absl::OkStatus();
  }
  absl::Status Next() {
    piece_.Reset();
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    const rocksdb::Status got =
        db_.Get(options, db_.DefaultColumnFamily(), PieceKey(key_, next_++), &piece_);
    if (got.IsNotFound() || (got.ok() && piece_.empty())) return Damaged(key_, "is incomplete");
    FORMWORK_RETURN_IF_ERROR(ToStatus(got));
    left_ = {piece_.data(), piece_.size()};
    return absl::OkStatus();
  }

  rocksdb::DB& db_;
  const StoredKey key_;
  uint64_t next_ = 0;
  rocksdb::PinnableSlice piece_;
  absl::string_view left_;
};

uint64_t StoredBytes(const Tensor& value) {
  if (value.dtype() != DType::kString) return value.bytes();
  uint64_t bytes = 0;
  for (const std::string& text : value.span<std::string>()) bytes += sizeof(uint64_t) + text.size();
  return bytes;
}

rocksdb::Status WriteElements(const Tensor& value, PieceWriter& writer) {
  if (value.dtype() != DType::kString) {
    return writer.Write({static_cast<const char*>(value.raw()), value.bytes()});
  }
  for (const std::string& text : value.span<std::string>()) {
    const uint64_t size = text.size();
    rocksdb::Status written = writer.Write({reinterpret_cast<const char*>(&size), sizeof(size)});
    if (written.ok()) written = writer.Write(text);
    if (!written.ok()) return written;
  }
  return rocksdb::Status::OK();
}

// What says of `values`, stored under `key`, how to read them. Errors: kInternal.
absl::StatusOr<state::StoredValue> HeaderOf(const StoredKey& key, absl::Span<const Tensor> values) {
  state::StoredValue header;
  for (const Tensor& value : values) {
    if (value.on_device() || !(IsPlainData(value.dtype()) || value.dtype() == DType::kString)) {
      return Internal(Described(key), " is not of the host's plain data or strings");
    }
    state::StoredValue::Part* part = header.add_parts();
    part->set_dtype(static_cast<tf::DataType>(value.dtype()));
    for (int64_t dim : value.shape().dims()) part->add_dims(dim);
    part->set_bytes(StoredBytes(value));
  }
  return header;
}

rocksdb::Status WritePieces(const StoredKey& key, absl::Span<const Tensor> values,
                            PieceWriter::Put put) {
  PieceWriter writer(put, key);
  for (const Tensor& value : values) {
    const rocksdb::Status written = WriteElements(value, writer);
    if (!written.ok()) return written;
  }
  return writer.Finish();
}

absl::Status ReadElements(const StoredKey& key, uint64_t bytes, PieceReader& reader,
                          Tensor& value) {
  if (value.dtype() != DType::kString) {
    if (bytes != value.bytes()) return Damaged(key, "has not the size of its shape");
    return reader.Read(static_cast<char*>(value.mutable_raw()), bytes);
  }
  for (std::string& text : value.mutable_span<std::string>()) {
    uint64_t size = 0;
    if (bytes < sizeof(size)) return Damaged(key, "has not the size of its strings");
    FORMWORK_RETURN_IF_ERROR(reader.Read(reinterpret_cast<char*>(&size), sizeof(size)));
    bytes -= sizeof(size);
    if (bytes < size) return Damaged(key, "has not the size of its strings");
    FORMWORK_RETURN_IF_ERROR(reader.Append(size, &text));
    bytes -= size;
  }
  return bytes == 0 ? absl::OkStatus() : Damaged(key, "has not the size of its strings");
}

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
  options.max_write_buffer_number = 4;
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

}  // namespace

SnapshotStore::SnapshotStore(std::unique_ptr<rocksdb::DB> db, std::unique_ptr<WritePace> pace)
    : db_(std::move(db)), pace_(std::move(pace)) {}

SnapshotStore::~SnapshotStore() { db_->Close(); }

absl::StatusOr<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(const std::string& directory) {
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
    const absl::Status error = ToStatus(status);
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
  std::unique_ptr<SnapshotStore> store(
      new SnapshotStore(std::unique_ptr<rocksdb::DB>(opened), std::move(pace)));
  FORMWORK_RETURN_IF_ERROR(store->CheckFormat());
  return store;
}

void SnapshotStore::SetPace(uint64_t bytes_per_second) { pace_->Set(bytes_per_second); }

absl::Status SnapshotStore::CheckFormat() {
  std::string format;
  const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), kFormatKey, &format);
  const bool before = std::find(std::begin(kFormatsBefore), std::end(kFormatsBefore), format) !=
                      std::end(kFormatsBefore);
  if (got.IsNotFound()) {
    // A new one has nothing in it, also one that was made and not used yet when its process ended.
    const std::unique_ptr<rocksdb::Iterator> any(db_->NewIterator(rocksdb::ReadOptions()));
    any->SeekToFirst();
    if (any->Valid()) {
      return FailedPrecondition("data directory '", db_->GetName(),
                                "' is the database of another program");
    }
    FORMWORK_RETURN_IF_ERROR(ToStatus(any->status()));
  }
  if (got.IsNotFound() || (got.ok() && before)) {
    return ToStatus(db_->Put(Synced(), kFormatKey, kFormat));
  }
  FORMWORK_RETURN_IF_ERROR(ToStatus(got));
  if (format == kFormat) return absl::OkStatus();
  return FailedPrecondition("data directory '", db_->GetName(),
                            "' is of another format: there=", absl::CHexEscape(format),
                            " known=", kFormat);
}

absl::Status SnapshotStore::Retried(const std::function<rocksdb::Status()>& write) {
  rocksdb::Status status = write();
  if (status.ok()) return absl::OkStatus();
  // After a full disk it looks by itself, every few seconds, and this says that it is busy.
  if (db_->Resume().ok()) status = write();
  return ToStatus(status);
}

absl::StatusOr<uint64_t> SnapshotStore::Put(const StoredKey& key, absl::Span<const Tensor> values,
                                            bool logged) {
  if (logged) return Put(key, values, rocksdb::WriteOptions(), [](uint64_t) {});
  return Put(key, values, Unlogged(), [this](uint64_t bytes) { pace_->AwaitTurn(bytes); });
}

absl::StatusOr<uint64_t> SnapshotStore::Put(const StoredKey& key, absl::Span<const Tensor> values,
                                            const rocksdb::WriteOptions& options,
                                            absl::FunctionRef<void(uint64_t)> before) {
  FORMWORK_ASSIGN_OR_RETURN(const state::StoredValue header, HeaderOf(key, values));
  FORMWORK_RETURN_IF_ERROR(Retried([&] {
    // First, so that there are no pieces without one, wherever it ends.
    const rocksdb::Status begun = db_->Put(options, HeaderKey(key), header.SerializeAsString());
    if (!begun.ok()) return begun;
    return WritePieces(key, values, [&](const std::string& piece_key, absl::string_view piece) {
      before(piece.size());
      return db_->Put(options, piece_key, Of(piece));
    });
  }));
  const uint64_t bytes = BytesOf(header);
  stored_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return bytes;
}

absl::StatusOr<uint64_t> SnapshotStore::Log(absl::Span<const LoggedValue> values,
                                            absl::Span<const StoredKey> removed) {
  std::vector<state::StoredValue> headers;
  uint64_t bytes = 0;
  for (const LoggedValue& value : values) {
    FORMWORK_ASSIGN_OR_RETURN(headers.emplace_back(), HeaderOf(value.key, value.parts));
    *headers.back().mutable_logged() = value.logged;
    bytes += BytesOf(headers.back());
  }
  // RocksDB takes long to find that there is room again, once it has found that there was none.
  FORMWORK_RETURN_IF_ERROR(CheckRoom(bytes, kLeastReserveBytes));
  // All headers at once, for they make it all there; pieces with them, or before them.
  rocksdb::WriteBatch batch;
  const bool at_once = bytes <= kLoggedAtOnce;
  for (size_t i = 0; i < values.size(); ++i) {
    const StoredKey& key = values[i].key;
    const auto put = [&](const std::string& piece_key, absl::string_view piece) {
      return batch.Put(piece_key, Of(piece));
    };
    if (at_once) {
      FORMWORK_RETURN_IF_ERROR(ToStatus(WritePieces(key, values[i].parts, put)));
    } else {
      FORMWORK_RETURN_IF_ERROR(Put(key, values[i].parts, Unlogged(), [](uint64_t) {}).status());
      stored_bytes_.fetch_sub(BytesOf(headers[i]), std::memory_order_relaxed);  // Not yet.
    }
    batch.Put(HeaderKey(key), headers[i].SerializeAsString());
  }
  uint64_t removed_bytes = 0;
  for (const StoredKey& key : removed) {
    FORMWORK_ASSIGN_OR_RETURN(const std::optional<state::StoredValue> header, Header(key));
    if (!header) continue;
    const uint64_t of_header = BytesOf(*header);
    for (uint64_t piece = 0; piece * kPieceBytes < of_header; ++piece) {
      batch.Delete(PieceKey(key, piece));
    }
    batch.Delete(HeaderKey(key));
    removed_bytes += of_header;
  }
  if (!at_once) {
    FORMWORK_RETURN_IF_ERROR(Retried([&] { return db_->Flush(rocksdb::FlushOptions()); }));
  }
  FORMWORK_RETURN_IF_ERROR(Retried([&] { return db_->Write(Synced(), &batch); }));
  pace_->Logged(batch.GetDataSize());
  stored_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  stored_bytes_.fetch_sub(removed_bytes, std::memory_order_relaxed);
  removed_bytes_.fetch_add(removed_bytes, std::memory_order_relaxed);
  return batch.GetDataSize() + (at_once ? 0 : bytes);
}

absl::Status SnapshotStore::VisitLog(
    const std::function<void(const StoredKey&, const state::Logged&)>& visit) const {
  return VisitHeaders([&](const StoredKey& key, const state::StoredValue& header) {
    if (!IsLogged(key) || !header.has_logged()) return absl::OkStatus();
    const state::Logged& logged = header.logged();
    if ((logged.has_resource() && logged.resource().id() != key.id) ||
        (logged.has_function() && logged.function().id() != key.id)) {
      return Damaged(key, "says that it is of another");
    }
    visit(key, logged);
    return absl::OkStatus();
  });
}

absl::Status SnapshotStore::CheckRoom(uint64_t bytes) const {
  return CheckRoom(bytes, kReserveBytes);
}

absl::Status SnapshotStore::CheckRoom(uint64_t bytes, uint64_t reserve) const {
  struct statvfs disk {};
  if (statvfs(db_->GetName().c_str(), &disk) != 0) return absl::OkStatus();  // Writing will tell.
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  // Once to RocksDB's log, once to where it stays.
  const uint64_t needed = reserve + 2 * bytes;
  if (free >= needed) return absl::OkStatus();
  return ResourceExhausted("data directory '", db_->GetName(), "': the disk is full: free=", free,
                           " needed=", needed);
}

absl::StatusOr<std::optional<state::StoredValue>> SnapshotStore::Header(
    const StoredKey& key) const {
  std::string text;
  const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), HeaderKey(key), &text);
  if (got.IsNotFound()) return std::nullopt;
  FORMWORK_RETURN_IF_ERROR(ToStatus(got));
  state::StoredValue header;
  if (header.ParseFromString(text)) return header;
  return Damaged(key, "has a damaged header");
}

absl::StatusOr<std::vector<Tensor>> SnapshotStore::Get(const StoredKey& key,
                                                       Allocator& allocator) const {
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<state::StoredValue> header, Header(key));
  if (!header) return NotFound("data directory: ", Described(key), " is not there");
  PieceReader reader(*db_, key);
  std::vector<Tensor> values;
  for (const state::StoredValue::Part& part : header->parts()) {
    const DType dtype = static_cast<DType>(part.dtype());
    const absl::StatusOr<Shape> shape = Shape::Make(part.dims());
    if (!shape.ok() || !(IsPlainData(dtype) || dtype == DType::kString)) {
      return Damaged(key, "is of no dtype and shape that there are");
    }
    // Before memory is taken.
    const auto least = static_cast<uint64_t>(shape->num_elements()) *
                       (dtype == DType::kString ? sizeof(uint64_t) : DTypeSize(dtype));
    if (part.bytes() < least) return Damaged(key, "has not the size of its shape");
    FORMWORK_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(allocator, dtype, *shape));
    FORMWORK_RETURN_IF_ERROR(ReadElements(key, part.bytes(), reader, value));
    values.push_back(std::move(value));
  }
  return values;
}

absl::Status SnapshotStore::Remove(const StoredKey& key) {
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<state::StoredValue> header, Header(key));
  if (!header) return absl::OkStatus();
  return Remove(key, *header);
}

// The header last, for it says which pieces there are. Of a value that was not finished, or is
// damaged, there may be fewer, but never more than all that is stored.
absl::Status SnapshotStore::Remove(const StoredKey& key, const state::StoredValue& header) {
  const uint64_t bytes = BytesOf(header);
  uint64_t most = kPieceBytes;
  for (const char* stored : {"rocksdb.total-sst-files-size", "rocksdb.total-blob-file-size",
                             "rocksdb.size-all-mem-tables"}) {
    uint64_t of_kind = 0;
    if (bytes > kPieceBytes && db_->GetIntProperty(stored, &of_kind)) most += of_kind;
  }
  for (uint64_t piece = 0; piece * kPieceBytes < std::min(bytes, most); ++piece) {
    FORMWORK_RETURN_IF_ERROR(ToStatus(db_->Delete(Unlogged(), PieceKey(key, piece))));
  }
  FORMWORK_RETURN_IF_ERROR(ToStatus(db_->Delete(Unlogged(), HeaderKey(key))));
  stored_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  removed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status SnapshotStore::VisitHeaders(
    absl::FunctionRef<absl::Status(const StoredKey&, const state::StoredValue&)> visit) const {
  const std::string first(1, kHeader), last(1, kAfterHeaders);
  const rocksdb::Slice end = Of(last);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  std::unique_ptr<rocksdb::Iterator> found(db_->NewIterator(options));
  for (found->Seek(first); found->Valid(); found->Next()) {
    const std::optional<StoredKey> key = FromHeaderKey({found->key().data(), found->key().size()});
    if (!key) return absl::DataLossError("data directory: the key of a value is damaged");
    state::StoredValue header;
    if (!header.ParseFromString(found->value().ToString())) {
      return Damaged(*key, "has a damaged header");
    }
    FORMWORK_RETURN_IF_ERROR(visit(*key, header));
  }
  return ToStatus(found->status());
}

absl::Status SnapshotStore::RemoveAllBut(const std::function<bool(const StoredKey&)>& wanted) {
  return VisitHeaders([&](const StoredKey& key, const state::StoredValue& header) {
    stored_bytes_.fetch_add(BytesOf(header), std::memory_order_relaxed);
    return wanted(key) ? absl::OkStatus() : Remove(key, header);
  });
}

absl::Status SnapshotStore::Compact() {
  std::string text;
  uint64_t files = 0;
  db_->GetProperty("rocksdb.num-files-at-level0", &text);
  if (!absl::SimpleAtoi(text, &files)) files = 0;
  const bool removed = removed_bytes_ >= kWorthCompaction && removed_bytes_ >= stored_bytes_ / 2;
  if (!removed && files < kManyFiles) return absl::OkStatus();
  // Keys alone: a file of values goes once none of its values has a key.
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kDisable;
  FORMWORK_RETURN_IF_ERROR(ToStatus(db_->CompactRange(options, nullptr, nullptr)));
  removed_bytes_ = 0;
  // Values that stay may hold back files in which most have gone: these are written again.
  uint64_t disk = 0;
  db_->GetIntProperty("rocksdb.total-blob-file-size", &disk);
  if (disk < kWorthCompaction || disk / 3 < stored_bytes_) return absl::OkStatus();
  options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  options.blob_garbage_collection_age_cutoff = 1.0;
  return ToStatus(db_->CompactRange(options, nullptr, nullptr));
}

absl::Status SnapshotStore::Commit(const state::Life* life, const state::Snapshot* snapshot) {
  rocksdb::WriteBatch records;
  if (life != nullptr) records.Put(kLifeKey, life->SerializeAsString());
  if (snapshot != nullptr) records.Put(kSnapshotKey, snapshot->SerializeAsString());
  FORMWORK_RETURN_IF_ERROR(Retried([&] { return db_->Flush(rocksdb::FlushOptions()); }));
  return Retried([&] { return db_->Write(Synced(), &records); });
}

template <typename Message>
absl::StatusOr<std::optional<Message>> SnapshotStore::Read(const char* key) const {
  std::string text;
  const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), key, &text);
  if (got.IsNotFound()) return std::nullopt;
  FORMWORK_RETURN_IF_ERROR(ToStatus(got));
  Message message;
  if (message.ParseFromString(text)) return message;
  return absl::DataLossError(absl::StrCat("data directory: record '", key, "' is damaged"));
}

absl::StatusOr<std::optional<state::Life>> SnapshotStore::ReadLife() const {
  return Read<state::Life>(kLifeKey);
}

absl::StatusOr<std::optional<state::Snapshot>> SnapshotStore::ReadSnapshot() const {
  return Read<state::Snapshot>(kSnapshotKey);
}

absl::Status SnapshotStore::Write(const state::Namespaces& namespaces) {
  const std::string text = namespaces.SerializeAsString();
  FORMWORK_RETURN_IF_ERROR(CheckRoom(text.size(), kLeastReserveBytes));
  return Retried([&] { return db_->Put(Synced(), kNamespacesKey, text); });
}

absl::StatusOr<std::optional<state::Namespaces>> SnapshotStore::ReadNamespaces() const {
  return Read<state::Namespaces>(kNamespacesKey);
}

}  // namespace formwork
