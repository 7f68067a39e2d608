#include "core/storage/sorted_table.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "google/protobuf/io/coded_stream.h"
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

// A table's parts, as LevelDB's doc/table_format.md has them.
constexpr int kFooterBytes = 48;
constexpr char kMagic[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";  // The footer's last 8.
constexpr uint64_t kTrailerBytes = 5;  // Of a block: its compression, its checksum.
constexpr uint64_t kMostIndexBytes = uint64_t{1} << 30;

using google::protobuf::io::CodedInputStream;

// Reads the handle of a block; whether the file has that block.
bool ReadHandle(CodedInputStream& in, uint64_t file_bytes, uint64_t* offset, uint64_t* size) {
  return in.ReadVarint64(offset) && in.ReadVarint64(size) && *size <= file_bytes &&
         kTrailerBytes <= file_bytes - *size && *offset <= file_bytes - *size - kTrailerBytes;
}

// LevelDB takes memory of the size that a block's handle has before it finds that the file has no
// such block. What else is wrong it tells by itself.
absl::Status CheckHandles(const OldFile& file) {
  if (file.size() < kFooterBytes) return absl::OkStatus();
  uint8_t footer[kFooterBytes];
  FORMWORK_RETURN_IF_ERROR(
      file.Read(file.size() - kFooterBytes, kFooterBytes, reinterpret_cast<char*>(footer)));
  if (std::memcmp(footer + kFooterBytes - 8, kMagic, 8) != 0) return absl::OkStatus();
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat("file '", file.name(), "' names a block that it does not have"));
  uint64_t offset = 0, size = 0;
  CodedInputStream handles(footer, kFooterBytes);
  if (!ReadHandle(handles, file.size(), &offset, &size)) return damaged;  // Of the meta index.
  if (!ReadHandle(handles, file.size(), &offset, &size)) return damaged;
  if (size > kMostIndexBytes) {
    return absl::DataLossError(
        absl::StrCat("file '", file.name(), "': its index has ", size, " bytes"));
  }
  std::string index(static_cast<size_t>(size) + 1, '\0');
  FORMWORK_RETURN_IF_ERROR(file.Read(offset, index.size(), index.data()));
  if (index.back() != leveldb::kNoCompression) {
    return Unimplemented("file '", file.name(), "': its index is compressed");
  }
  // Entries, where they can be begun at, and how many such places there are.
  const auto* data = reinterpret_cast<const uint8_t*>(index.data());
  uint32_t places = 0;
  if (size < sizeof(places)) return absl::OkStatus();
  CodedInputStream::ReadLittleEndian32FromArray(data + size - sizeof(places), &places);
  if (places > size / sizeof(places) - 1) return absl::OkStatus();
  const int end = static_cast<int>(size - sizeof(places) * (uint64_t{places} + 1));
  CodedInputStream entries(data, end);
  while (entries.CurrentPosition() < end) {
    uint32_t shared = 0, key = 0, value = 0;  // Bytes.
    if (!entries.ReadVarint32(&shared) || !entries.ReadVarint32(&key) ||
        !entries.ReadVarint32(&value) || key > kMostIndexBytes || value > kMostIndexBytes ||
        !entries.Skip(static_cast<int>(key))) {
      return damaged;
    }
    const int at = entries.CurrentPosition();
    if (!entries.Skip(static_cast<int>(value))) return damaged;
    CodedInputStream handle(data + at, static_cast<int>(value));
    if (!ReadHandle(handle, file.size(), &offset, &size)) return damaged;
  }
  return absl::OkStatus();
}

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
  FORMWORK_RETURN_IF_ERROR(CheckHandles(file));
  ReadFile read(file);
  const auto failed = [&](const leveldb::Status& status) {
    if (!read.status.ok()) return read.status;
    return absl::DataLossError(absl::StrCat("file '", file.name(), "': ", status.ToString()));
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
