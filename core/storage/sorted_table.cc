#include "core/storage/sorted_table.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "leveldb/env.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"

namespace formwork {
namespace {

// Their errors are kept here: LevelDB's statuses have fewer codes.
class WrittenFile final : public leveldb::WritableFile {
 public:
  explicit WrittenFile(NewFile& file) : file_(file) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    status.Update(file_.Append({data.data(), data.size()}));
    return status.ok() ? leveldb::Status::OK() : leveldb::Status::IOError("");
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

  absl::Status status;

 private:
  NewFile& file_;
};

class ReadFile final : public leveldb::RandomAccessFile {
 public:
  explicit ReadFile(const OldFile& file) : file_(file) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    status.Update(file_.Read(offset, n, scratch));
    *result = leveldb::Slice(scratch, n);
    return status.ok() ? leveldb::Status::OK() : leveldb::Status::IOError("");
  }

  mutable absl::Status status;

 private:
  const OldFile& file_;
};

}  // namespace

absl::Status WriteTable(const std::map<std::string, std::string>& entries, NewFile& file) {
  WrittenFile written(file);
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  leveldb::TableBuilder builder(options, &written);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  const leveldb::Status finished = builder.Finish();
  FORMWORK_RETURN_IF_ERROR(written.status);
  return finished.ok() ? absl::OkStatus() : Internal("table: ", finished.ToString());
}

absl::Status ReadTable(
    const OldFile& file,
    const std::function<absl::Status(absl::string_view key, absl::string_view value)>& entry) {
  ReadFile read(file);
  const auto failed = [&](const leveldb::Status& status) {
    if (!read.status.ok()) return read.status;
    return absl::DataLossError(absl::StrCat("file '", file.path(), "': ", status.ToString()));
  };
  leveldb::Options options;
  options.paranoid_checks = true;
  leveldb::Table* opened = nullptr;
  const leveldb::Status status = leveldb::Table::Open(options, &read, file.size(), &opened);
  const std::unique_ptr<leveldb::Table> table(opened);
  if (!status.ok()) return failed(status);
  leveldb::ReadOptions read_options;
  read_options.verify_checksums = true;
  const std::unique_ptr<leveldb::Iterator> iterator(table->NewIterator(read_options));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const leveldb::Slice key = iterator->key(), value = iterator->value();
    FORMWORK_RETURN_IF_ERROR(entry({key.data(), key.size()}, {value.data(), value.size()}));
  }
  return iterator->status().ok() ? absl::OkStatus() : failed(iterator->status());
}

}  // namespace formwork
