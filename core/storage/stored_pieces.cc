#include "core/storage/stored_pieces.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/storage/database.h"

namespace formwork {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored as in memory");

// Behind kHeader the key of a header has the StoredKey; behind this the key of a piece has that and
// the piece's number.
constexpr char kPiece = 'p';
constexpr size_t kHeaderKeyBytes = 1 + 1 + 8 + 8;

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

// Cuts what is written into pieces.
class PieceWriter {
 public:
  PieceWriter(PutPiece put, const StoredKey& key) : put_(put), key_(key) {}

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

  const PutPiece put_;
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
    FORMWORK_RETURN_IF_ERROR(ToStatus(got, db_));
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

}  // namespace

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

uint64_t BytesOf(const state::StoredValue& header) {
  uint64_t bytes = 0;
  for (const state::StoredValue::Part& part : header.parts()) {
    if (__builtin_add_overflow(bytes, part.bytes(), &bytes)) return UINT64_MAX;
  }
  return bytes;
}

rocksdb::Status WritePieces(const StoredKey& key, absl::Span<const Tensor> values, PutPiece put) {
  PieceWriter writer(put, key);
  for (const Tensor& value : values) {
    const rocksdb::Status written = WriteElements(value, writer);
    if (!written.ok()) return written;
  }
  return writer.Finish();
}

absl::StatusOr<std::vector<Tensor>> ReadPieces(rocksdb::DB& db, const StoredKey& key,
                                               const state::StoredValue& header,
                                               Allocator& allocator) {
  PieceReader reader(db, key);
  std::vector<Tensor> values;
  for (const state::StoredValue::Part& part : header.parts()) {
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

}  // namespace formwork
