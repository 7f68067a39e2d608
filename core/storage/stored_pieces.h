#pragma once

// How the database has a value: under a header key what says how to read it, state::StoredValue,
// and its bytes in pieces, each under a key of its own. Headers stand together, because whoever
// lists keys reads what they stand for.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/storage/stored_key.h"
#include "core/tensor/tensor.h"
#include "formwork/state/snapshot.pb.h"
#include "rocksdb/db.h"

namespace formwork {

/// What the keys of headers begin with, and what is behind all of these.
inline constexpr char kHeader = 'h';
inline constexpr char kAfterHeaders = 'i';
/// A value's bytes are written in pieces of so many: what is logged beside them waits while one is
/// copied. Formats before the fifth had larger ones, and they are read, and removed, all the same.
inline constexpr size_t kPieceBytes = size_t{512} << 10;

std::string HeaderKey(const StoredKey& key);
std::string PieceKey(const StoredKey& key, uint64_t piece);
/// Nothing where it is none.
std::optional<StoredKey> FromHeaderKey(absl::string_view text);

/// "the value of resource id=1 version=2".
std::string Described(const StoredKey& key);
/// kDataLoss.
absl::Status Damaged(const StoredKey& key, absl::string_view what);

/// What says of `values`, stored under `key`, how to read them. Errors: kInternal.
absl::StatusOr<state::StoredValue> HeaderOf(const StoredKey& key, absl::Span<const Tensor> values);
/// As many as there can be at most, where a damaged one says that they are more.
uint64_t BytesOf(const state::StoredValue& header);

using PutPiece =
    absl::FunctionRef<rocksdb::Status(const std::string& piece_key, absl::string_view piece)>;
rocksdb::Status WritePieces(const StoredKey& key, absl::Span<const Tensor> values, PutPiece put);
/// Errors: as SnapshotStore::Get.
absl::StatusOr<std::vector<Tensor>> ReadPieces(rocksdb::DB& db, const StoredKey& key,
                                               const state::StoredValue& header,
                                               Allocator& allocator);

}  // namespace formwork
