#include "core/storage/snapshot_store.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/storage/database.h"
#include "core/storage/stored_pieces.h"
#include "rocksdb/write_batch.h"

namespace formwork {
namespace {

// Beside the keys of values (stored_pieces.h).
constexpr char kFormatKey[] = "format";
constexpr char kLifeKey[] = "life";
constexpr char kSnapshotKey[] = "snapshot";
constexpr char kNamespacesKey[] = "namespaces";
constexpr char kFormat[] = "formwork 5";
// Without a log, without answers, without namespaces' durability, and with larger pieces; else the
// same.
constexpr absl::string_view kFormatsBefore[] = {"formwork 1", "formwork 2", "formwork 3",
                                                "formwork 4"};
// What is logged at once goes through RocksDB's own log up to so many bytes; more is flushed first.
constexpr uint64_t kLoggedAtOnce = kBufferBytes;
// Of the disk, that is left to what has begun when nothing new may begin.
constexpr uint64_t kReserveBytes = uint64_t{16} << 20;
constexpr uint64_t kLeastReserveBytes = uint64_t{4} << 20;

// When what has been removed is given back to the disk: at so many bytes, and parts of what is
// stored; or at so many files of keys.
constexpr uint64_t kWorthCompaction = uint64_t{64} << 20;
constexpr uint64_t kManyFiles = 32;

bool IsLogged(const StoredKey& key) {
  return key.of != StoredKey::Of::kResource && key.of != StoredKey::Of::kRegistration;
}

}  // namespace

SnapshotStore::SnapshotStore(std::unique_ptr<rocksdb::DB> db, std::unique_ptr<WritePace> pace)
    : db_(std::move(db)), pace_(std::move(pace)) {}

SnapshotStore::~SnapshotStore() { db_->Close(); }

absl::StatusOr<std::unique_ptr<SnapshotStore>> SnapshotStore::Open(const std::string& directory) {
  FORMWORK_ASSIGN_OR_RETURN(Database opened, OpenDatabase(directory));
  std::unique_ptr<SnapshotStore> store(
      new SnapshotStore(std::move(opened.db), std::move(opened.pace)));
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
    FORMWORK_RETURN_IF_ERROR(ToStatus(any->status(), *db_));
  }
  if (got.IsNotFound() || (got.ok() && before)) {
    return ToStatus(db_->Put(Synced(), kFormatKey, kFormat), *db_);
  }
  FORMWORK_RETURN_IF_ERROR(ToStatus(got, *db_));
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
  return ToStatus(status, *db_);
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
      return db_->Put(options, piece_key, rocksdb::Slice(piece.data(), piece.size()));
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
      return batch.Put(piece_key, rocksdb::Slice(piece.data(), piece.size()));
    };
    if (at_once) {
      FORMWORK_RETURN_IF_ERROR(ToStatus(WritePieces(key, values[i].parts, put), *db_));
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
  return ResourceExhausted("data directory: the disk is full: free=", free, " needed=", needed);
}

absl::StatusOr<std::optional<state::StoredValue>> SnapshotStore::Header(
    const StoredKey& key) const {
  std::string text;
  const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), HeaderKey(key), &text);
  if (got.IsNotFound()) return std::nullopt;
  FORMWORK_RETURN_IF_ERROR(ToStatus(got, *db_));
  state::StoredValue header;
  if (header.ParseFromString(text)) return header;
  return Damaged(key, "has a damaged header");
}

absl::StatusOr<std::vector<Tensor>> SnapshotStore::Get(const StoredKey& key,
                                                       Allocator& allocator) const {
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<state::StoredValue> header, Header(key));
  if (!header) return NotFound("data directory: ", Described(key), " is not there");
  return ReadPieces(*db_, key, *header, allocator);
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
    FORMWORK_RETURN_IF_ERROR(ToStatus(db_->Delete(Unlogged(), PieceKey(key, piece)), *db_));
  }
  FORMWORK_RETURN_IF_ERROR(ToStatus(db_->Delete(Unlogged(), HeaderKey(key)), *db_));
  stored_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  removed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status SnapshotStore::VisitHeaders(
    absl::FunctionRef<absl::Status(const StoredKey&, const state::StoredValue&)> visit) const {
  const std::string first(1, kHeader), last(1, kAfterHeaders);
  const rocksdb::Slice end(last);
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
  return ToStatus(found->status(), *db_);
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
  FORMWORK_RETURN_IF_ERROR(ToStatus(db_->CompactRange(options, nullptr, nullptr), *db_));
  removed_bytes_ = 0;
  // Values that stay may hold back files in which most have gone: these are written again.
  uint64_t disk = 0;
  db_->GetIntProperty("rocksdb.total-blob-file-size", &disk);
  if (disk < kWorthCompaction || disk / 3 < stored_bytes_) return absl::OkStatus();
  options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  options.blob_garbage_collection_age_cutoff = 1.0;
  return ToStatus(db_->CompactRange(options, nullptr, nullptr), *db_);
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
  FORMWORK_RETURN_IF_ERROR(ToStatus(got, *db_));
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
