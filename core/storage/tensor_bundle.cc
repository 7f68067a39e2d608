#include "core/storage/tensor_bundle.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/storage/sorted_table.h"

namespace formwork {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored as in memory");

constexpr int kProducer = 1;  // Of the format.
constexpr int kMostShards = 100'000;
// What is read at once, so that its checksum is taken while it is in the cache.
constexpr size_t kReadBytes = size_t{1} << 20;

FilePath IndexFile(const FilePath& prefix) { return prefix.With(".index"); }

// As the format stores them: so a checksum of bytes that hold one is no fixed point.
uint32_t Masked(uint32_t crc) { return std::rotl(crc, 17) + 0xa282ead8u; }

absl::string_view Bytes(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

void ShapeToMessage(const Shape& shape, tf::TensorShapeProto* message) {
  for (const int64_t dim : shape.dims()) message->add_dim()->set_size(dim);
}

// The elements: of plain data their bytes; of strings the lengths, a checksum of them, the texts.
absl::Status AppendElements(const Tensor& value, NewFile& file, uint32_t* crc) {
  *crc = 0;
  const auto append = [&](absl::string_view bytes) {
    *crc = ExtendCrc32c(*crc, bytes);
    return file.Append(bytes);
  };
  if (IsPlainData(value.dtype())) return append(Bytes(value.raw(), value.bytes()));
  if (value.dtype() != DType::kString) {
    return Unimplemented("a tensor of ", DTypeName(value.dtype()), " cannot be stored");
  }
  for (const std::string& text : value.span<std::string>()) {
    std::string varint;
    uint64_t rest = text.size();
    for (; rest >= 0x80; rest >>= 7) varint.push_back(static_cast<char>(rest | 0x80));
    varint.push_back(static_cast<char>(rest));
    FORMWORK_RETURN_IF_ERROR(file.Append(varint));
    // Not of the varint: of the number, in as many bytes as it needs.
    const uint64_t length = text.size();
    *crc = ExtendCrc32c(*crc, Bytes(&length, length <= UINT32_MAX ? 4 : 8));
  }
  const uint32_t lengths = Masked(*crc);
  FORMWORK_RETURN_IF_ERROR(append(Bytes(&lengths, sizeof(lengths))));
  for (const std::string& text : value.span<std::string>()) FORMWORK_RETURN_IF_ERROR(append(text));
  return absl::OkStatus();
}

absl::Status AddEntry(std::map<std::string, tf::BundleEntryProto>& entries, std::string key,
                      const Tensor& value, NewFile& file) {
  if (entries.contains(key)) return InvalidArgument("key '", key, "' comes twice");
  tf::BundleEntryProto entry;
  entry.set_dtype(static_cast<tf::DataType>(value.dtype()));
  ShapeToMessage(value.shape(), entry.mutable_shape());
  entry.set_offset(static_cast<int64_t>(file.size()));
  uint32_t crc = 0;
  FORMWORK_RETURN_IF_ERROR(AppendElements(value, file, &crc));
  entry.set_size(static_cast<int64_t>(file.size()) - entry.offset());
  entry.set_crc32c(Masked(crc));
  entries.emplace(std::move(key), std::move(entry));
  return absl::OkStatus();
}

// The index last: a checkpoint without one is none. An old one goes before its data does.
absl::Status KeepIndex(const FilePath& prefix, int shards,
                       const std::map<std::string, tf::BundleEntryProto>& entries,
                       const std::function<absl::Status()>& keep_data) {
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<NewFile> index, NewFile::Create(IndexFile(prefix)));
  std::map<std::string, std::string> table;
  tf::BundleHeaderProto header;
  header.set_num_shards(shards);
  header.mutable_version()->set_producer(kProducer);
  table.emplace("", header.SerializeAsString());
  for (const auto& [key, entry] : entries) table.emplace(key, entry.SerializeAsString());
  FORMWORK_RETURN_IF_ERROR(WriteTable(table, *index));
  FORMWORK_RETURN_IF_ERROR(index->Sync());
  unlink(IndexFile(prefix).path.c_str());
  FORMWORK_RETURN_IF_ERROR(keep_data());
  return index->Keep();
}

absl::StatusOr<TensorSlice> SliceOf(const tf::TensorSliceProto& message, const Shape& full) {
  TensorSlice slice;
  slice.full = full;
  if (message.extent_size() != full.rank()) {
    return InvalidArgument("a slice has ", message.extent_size(), " ranges for rank ", full.rank());
  }
  for (const tf::TensorSliceProto::Extent& extent : message.extent()) {
    const bool whole = extent.has_length_case() == tf::TensorSliceProto::Extent::HAS_LENGTH_NOT_SET;
    slice.ranges.push_back({extent.start(), whole ? -1 : extent.length()});
  }
  FORMWORK_RETURN_IF_ERROR(slice.Check());
  return slice;
}

absl::StatusOr<BundleReader::Entry> EntryOf(const tf::BundleEntryProto& message, int shards) {
  BundleReader::Entry entry;
  if (!tf::DataType_IsValid(message.dtype()) || !IsKnown(static_cast<DType>(message.dtype()))) {
    return InvalidArgument("its dtype is not known: ", static_cast<int>(message.dtype()));
  }
  entry.dtype = static_cast<DType>(message.dtype());
  Dims dims;
  for (const auto& dim : message.shape().dim()) dims.push_back(dim.size());
  FORMWORK_ASSIGN_OR_RETURN(entry.shape, Shape::Make(dims));
  if (message.shard_id() < 0 || message.shard_id() >= shards || message.offset() < 0 ||
      message.size() < 0) {
    return InvalidArgument("it is at shard=", message.shard_id(), " offset=", message.offset(),
                           " size=", message.size());
  }
  entry.shard = static_cast<uint32_t>(message.shard_id());
  entry.offset = static_cast<uint64_t>(message.offset());
  entry.bytes = static_cast<uint64_t>(message.size());
  entry.crc32c = message.crc32c();
  for (const tf::TensorSliceProto& slice : message.slices()) {
    FORMWORK_ASSIGN_OR_RETURN(entry.slices.emplace_back(), SliceOf(slice, entry.shape));
  }
  if (entry.slices.empty() && IsPlainData(entry.dtype)) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(entry.shape.num_elements()),
                               DTypeSize(entry.dtype), &bytes) ||
        bytes != entry.bytes) {
      return InvalidArgument("it has ", entry.bytes, " bytes for ", DTypeName(entry.dtype),
                             entry.shape.ToString());
    }
  }
  return entry;
}

}  // namespace

FilePath BundleDataFile(const FilePath& prefix, int shard, int shards) {
  return prefix.With(absl::StrFormat(".data-%05d-of-%05d", shard, shards));
}

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(const FilePath& prefix) {
  FORMWORK_ASSIGN_OR_RETURN(std::unique_ptr<NewFile> data,
                            NewFile::Create(BundleDataFile(prefix, 0, 1)));
  return std::unique_ptr<BundleWriter>(new BundleWriter(prefix, std::move(data)));
}

absl::Status BundleWriter::Add(absl::string_view key, const Tensor& value) {
  if (key.empty()) return InvalidArgument("a tensor's key is empty");
  return AddEntry(entries_, std::string(key), value, *data_);
}

absl::Status BundleWriter::AddSlice(absl::string_view key, const TensorSlice& slice,
                                    const Tensor& value) {
  if (key.empty()) return InvalidArgument("a tensor's key is empty");
  if (slice.shape() != value.shape()) {
    return InvalidArgument("the slice of '", key, "' is of shape ", slice.shape().ToString(),
                           ", its value ", value.shape().ToString());
  }
  const auto found = entries_.find(std::string(key));
  tf::TensorShapeProto full;
  ShapeToMessage(slice.full, &full);
  if (found != entries_.end() &&
      (found->second.slices_size() == 0 ||
       static_cast<DType>(found->second.dtype()) != value.dtype() ||
       found->second.shape().SerializeAsString() != full.SerializeAsString())) {
    return InvalidArgument("key '", key, "' comes twice, and not as slices of one tensor");
  }
  FORMWORK_RETURN_IF_ERROR(AddEntry(entries_, SliceKey(key, slice), value, *data_));
  tf::BundleEntryProto& whole = entries_[std::string(key)];
  if (found == entries_.end()) {
    whole.set_dtype(static_cast<tf::DataType>(value.dtype()));
    *whole.mutable_shape() = std::move(full);
  }
  tf::TensorSliceProto* to = whole.add_slices();
  for (const TensorSlice::Range& range : slice.ranges) {
    tf::TensorSliceProto::Extent* extent = to->add_extent();
    if (range.length == -1) continue;
    extent->set_start(range.start);
    extent->set_length(range.length);
  }
  return absl::OkStatus();
}

absl::Status BundleWriter::Finish() {
  FORMWORK_RETURN_IF_ERROR(data_->Sync());
  return KeepIndex(prefix_, 1, entries_, [this] { return data_->Keep(); });
}

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(const FilePath& prefix) {
  FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<OldFile> index, OldFile::Open(IndexFile(prefix)));
  std::unique_ptr<BundleReader> reader(new BundleReader(prefix.name));
  int shards = -1;
  FORMWORK_RETURN_IF_ERROR(
      ReadTable(*index, [&](absl::string_view key, absl::string_view value) -> absl::Status {
        const int bytes = static_cast<int>(std::min<size_t>(value.size(), INT32_MAX));
        if (shards < 0) {
          tf::BundleHeaderProto header;
          if (!key.empty() || !header.ParseFromArray(value.data(), bytes) ||
              header.num_shards() < 0 || header.num_shards() > kMostShards) {
            return reader->Damaged("has no header");
          }
          if (header.endianness() != tf::BundleHeaderProto::LITTLE) {
            return Unimplemented("checkpoint '", prefix.name, "' is of a big-endian machine");
          }
          if (header.version().min_consumer() > kProducer) {
            return Unimplemented("checkpoint '", prefix.name, "' is of a newer format");
          }
          shards = header.num_shards();
          return absl::OkStatus();
        }
        tf::BundleEntryProto message;
        if (!message.ParseFromArray(value.data(), bytes)) {
          return reader->Damaged(absl::StrCat("has no entry for '", key, "'"));
        }
        absl::StatusOr<Entry> entry = EntryOf(message, shards);
        if (!entry.ok()) {
          return reader->Damaged(absl::StrCat("entry '", key, "': ", entry.status().message()));
        }
        reader->entries_.emplace(std::string(key), *std::move(entry));
        return absl::OkStatus();
      }));
  if (shards < 0) return reader->Damaged("has no header");
  for (int i = 0; i < shards; ++i) {
    FORMWORK_ASSIGN_OR_RETURN(reader->shards_.emplace_back(),
                              OldFile::Open(BundleDataFile(prefix, i, shards)));
  }
  return reader;
}

absl::Status BundleReader::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("checkpoint '", name_, "': ", what));
}

absl::StatusOr<const BundleReader::Entry*> BundleReader::Find(absl::string_view key) const {
  const auto found = entries_.find(std::string(key));
  if (found != entries_.end()) return &found->second;
  return NotFound("Key ", key, " not found in checkpoint");
}

absl::StatusOr<Tensor> BundleReader::ReadWhole(absl::string_view key, const Entry& entry,
                                               Allocator& allocator) const {
  const OldFile& file = *shards_[entry.shard];
  const auto damaged = [&](absl::string_view what) {
    return Damaged(absl::StrCat("tensor '", key, "' ", what, " (", file.name(), ")"));
  };
  if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) {
    return damaged("is cut off");
  }
  uint32_t crc = 0;
  if (IsPlainData(entry.dtype)) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(allocator, entry.dtype, entry.shape));
    char* to = static_cast<char*>(value.mutable_raw());
    for (uint64_t at = 0; at < entry.bytes; at += kReadBytes) {
      const size_t piece = std::min<uint64_t>(kReadBytes, entry.bytes - at);
      FORMWORK_RETURN_IF_ERROR(file.Read(entry.offset + at, piece, to + at));
      crc = ExtendCrc32c(crc, {to + at, piece});
    }
    if (Masked(crc) != entry.crc32c) return damaged("has a wrong checksum");
    if (entry.dtype == DType::kBool) {
      for (size_t i = 0; i < entry.bytes; ++i) to[i] = to[i] != 0;
    }
    return value;
  }
  if (entry.dtype != DType::kString) {
    return Unimplemented("checkpoint '", name_, "': tensor '", key, "' is of ",
                         DTypeName(entry.dtype));
  }
  // A string takes a byte at least, and as many as all there are at most.
  if (static_cast<uint64_t>(entry.shape.num_elements()) > entry.bytes) return damaged("is cut off");
  FORMWORK_ASSIGN_OR_RETURN(
      const Tensor held,
      Tensor::Allocate(allocator, DType::kUint8, {static_cast<int64_t>(entry.bytes)}));
  char* begin = static_cast<char*>(const_cast<void*>(held.raw()));
  FORMWORK_RETURN_IF_ERROR(file.Read(entry.offset, entry.bytes, begin));
  absl::string_view rest(begin, entry.bytes);
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(allocator, entry.dtype, entry.shape));
  std::vector<uint64_t> lengths(static_cast<size_t>(entry.shape.num_elements()));
  for (uint64_t& length : lengths) {
    length = 0;
    for (int shift = 0;; shift += 7) {
      if (rest.empty() || shift > 56) return damaged("is cut off");
      const auto byte = static_cast<uint8_t>(rest[0]);
      rest.remove_prefix(1);
      length |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) break;
    }
    crc = ExtendCrc32c(crc, Bytes(&length, length <= UINT32_MAX ? 4 : 8));
  }
  uint32_t stored = 0;
  if (rest.size() < sizeof(stored)) return damaged("is cut off");
  std::memcpy(&stored, rest.data(), sizeof(stored));
  if (stored != Masked(crc)) return damaged("has a wrong checksum of its lengths");
  crc = ExtendCrc32c(crc, rest);
  if (Masked(crc) != entry.crc32c) return damaged("has a wrong checksum");
  rest.remove_prefix(sizeof(stored));
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > rest.size()) return damaged("is cut off");
    value.mutable_data<std::string>()[i].assign(rest.data(), lengths[i]);
    rest.remove_prefix(lengths[i]);
  }
  return value;
}

absl::StatusOr<Tensor> BundleReader::Read(absl::string_view key, Allocator& allocator) const {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Find(key));
  if (entry->slices.empty()) return ReadWhole(key, *entry, allocator);
  if (!IsPlainData(entry->dtype)) {
    return Unimplemented("checkpoint '", name_, "': '", key, "' is a partitioned tensor of ",
                         DTypeName(entry->dtype));
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor whole, Tensor::Allocate(allocator, entry->dtype, entry->shape));
  const size_t size = DTypeSize(entry->dtype);
  std::vector<bool> there(static_cast<size_t>(entry->shape.num_elements()));
  int64_t covered = 0;
  for (const TensorSlice& slice : entry->slices) {
    FORMWORK_ASSIGN_OR_RETURN(const Entry* part, Find(SliceKey(key, slice)));
    if (part->dtype != entry->dtype || part->shape != slice.shape() || !part->slices.empty()) {
      return Damaged(absl::StrCat("tensor '", key, "' has a slice of another shape or dtype"));
    }
    FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ReadWhole(key, *part, allocator));
    char* to = static_cast<char*>(whole.mutable_raw());
    const char* from = static_cast<const char*>(value.raw());
    bool overlaps = false;
    ForRows(slice, size, [&](size_t at, size_t part_at, size_t bytes) {
      std::memcpy(to + at, from + part_at, bytes);
      const auto first = there.begin() + static_cast<int64_t>(at / size);
      const auto last = first + static_cast<int64_t>(bytes / size);
      overlaps |= std::find(first, last, true) != last;
      std::fill(first, last, true);
    });
    // Then there would be room for elements that nothing was read for.
    if (overlaps) return Damaged(absl::StrCat("tensor '", key, "' has slices that overlap"));
    covered += part->shape.num_elements();
  }
  if (covered == entry->shape.num_elements()) return whole;
  return Damaged(absl::StrCat("of tensor '", key, "' not every slice is there"));
}

absl::StatusOr<Tensor> BundleReader::ReadSlice(absl::string_view key, const TensorSlice& slice,
                                               Allocator& allocator) const {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Find(key));
  if (entry->shape != slice.full) {
    return InvalidArgument("tensor '", key, "' has shape ", entry->shape.ToString(),
                           " in the checkpoint, and the slice is of ", slice.full.ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor whole, Read(key, allocator));
  if (slice.shape() == slice.full) return whole;
  FORMWORK_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(allocator, entry->dtype, slice.shape()));
  if (entry->dtype == DType::kString) {
    ForRows(slice, 1, [&](size_t at, size_t part_at, size_t count) {
      std::copy_n(whole.data<std::string>() + at, count,
                  part.mutable_data<std::string>() + part_at);
    });
    return part;
  }
  ForRows(slice, DTypeSize(entry->dtype), [&](size_t at, size_t part_at, size_t bytes) {
    std::memcpy(static_cast<char*>(part.mutable_raw()) + part_at,
                static_cast<const char*>(whole.raw()) + at, bytes);
  });
  return part;
}

absl::Status MergeBundles(absl::Span<const FilePath> prefixes, const FilePath& destination) {
  std::map<std::string, tf::BundleEntryProto> entries;
  std::vector<FilePath> data;  // By the number of the shard that it becomes.
  for (const FilePath& prefix : prefixes) {
    FORMWORK_ASSIGN_OR_RETURN(const std::unique_ptr<OldFile> index,
                              OldFile::Open(IndexFile(prefix)));
    // What it says is checked here.
    FORMWORK_RETURN_IF_ERROR(BundleReader::Open(prefix).status());
    const int first = static_cast<int>(data.size());
    int shards = 0;
    FORMWORK_RETURN_IF_ERROR(
        ReadTable(*index, [&](absl::string_view key, absl::string_view value) -> absl::Status {
          if (key.empty()) {
            tf::BundleHeaderProto header;
            header.ParseFromArray(value.data(), static_cast<int>(value.size()));
            shards = header.num_shards();
            return absl::OkStatus();
          }
          tf::BundleEntryProto entry;
          entry.ParseFromArray(value.data(), static_cast<int>(value.size()));
          entry.set_shard_id(entry.shard_id() + first);
          tf::BundleEntryProto& to = entries[std::string(key)];
          if (to.dtype() == tf::DT_INVALID) {
            to = std::move(entry);
          } else if (to.slices_size() > 0 && entry.slices_size() > 0) {
            to.mutable_slices()->MergeFrom(entry.slices());
          } else {
            return InvalidArgument("two of the checkpoints have a tensor '", key, "'");
          }
          return absl::OkStatus();
        }));
    for (int i = 0; i < shards; ++i) data.push_back(BundleDataFile(prefix, i, shards));
  }
  const int shards = static_cast<int>(data.size());
  if (shards > kMostShards) return InvalidArgument("more than ", kMostShards, " data files");
  FORMWORK_RETURN_IF_ERROR(KeepIndex(destination, shards, entries, [&] {
    for (int i = 0; i < shards; ++i) {
      FORMWORK_RETURN_IF_ERROR(RenameFile(data[i], BundleDataFile(destination, i, shards)));
    }
    return absl::OkStatus();
  }));
  for (const FilePath& prefix : prefixes) {
    if (prefix.path != destination.path) unlink(IndexFile(prefix).path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace formwork
