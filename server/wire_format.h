#pragma once

// Protobuf's encoding, read from and written to gRPC's slices in place: no message object between
// the wire and a tensor's memory.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::server {

/// Protobuf's wire types.
enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr uint32_t MakeTag(uint32_t field, WireType type) {
  return field << 3 | static_cast<uint32_t>(type);
}

/// The fields of a map's entries.
inline constexpr uint32_t kMapKey = 1;
inline constexpr uint32_t kMapValue = 2;

/// Holds the slices of a received message while WireReaders walk over them.
class ReceivedMessage {
 public:
  explicit ReceivedMessage(const grpc::ByteBuffer& message);
  ReceivedMessage(const ReceivedMessage&) = delete;
  ReceivedMessage& operator=(const ReceivedMessage&) = delete;

  absl::Span<const absl::string_view> chunks() const { return chunks_; }
  size_t size() const { return size_; }

 private:
  grpc::Slice single_;
  std::vector<grpc::Slice> slices_;
  absl::InlinedVector<absl::string_view, 1> chunks_;
  size_t size_ = 0;
};

/// A place in a message made of chunks, and where the (sub)message at it ends. A value: a copy
/// remembers a place. The chunks outlive it. Every method that returns bool returns false where
/// the bytes are malformed; the reader is then of no more use.
class WireReader {
 public:
  WireReader() = default;  ///< At the end of an empty message.
  WireReader(absl::Span<const absl::string_view> chunks, size_t size);

  size_t remaining() const { return remaining_; }
  bool done() const { return remaining_ == 0; }

  /// A field's tag. Fails on field number 0 and on reserved wire types.
  bool ReadTag(uint32_t* tag);
  bool ReadVarint(uint64_t* value);
  bool ReadFixed32(uint32_t* value);
  /// A length-delimited field as a reader of its own; this one goes on behind it.
  bool ReadNested(WireReader* nested);
  /// A string field. Fails where it is not UTF-8.
  bool ReadString(std::string* value);
  /// Passes over the field that `tag` begins.
  bool SkipField(uint32_t tag);
  bool Skip(size_t bytes);
  /// Copies the next `bytes` bytes, which must be there.
  void CopyTo(void* out, size_t bytes);

 private:
  bool SkipGroup(uint32_t field, int depth);
  bool SkipFieldAt(uint32_t tag, int depth);
  bool ReadByte(uint8_t* byte);
  void NextChunk();

  const absl::string_view* chunk_ = nullptr;  // The one that `at_` is in.
  const char* at_ = nullptr;
  size_t in_chunk_ = 0;  // Bytes left in it.
  size_t remaining_ = 0;
};

constexpr size_t VarintSize(uint64_t value) {
  return static_cast<size_t>((64 - __builtin_clzll(value | 1) + 6) / 7);
}

/// The encoded size of a field of type bytes, string or message whose field number is below 16.
constexpr size_t BytesFieldSize(size_t bytes) { return 1 + VarintSize(bytes) + bytes; }

/// The namespace that a request of formwork.v1 is in, as far as its first field says so: where
/// protobuf writes it. Quick, however large the message is.
std::string NamespaceOf(const grpc::ByteBuffer& request);

/// Builds a message of slices: small pieces are copied together, large buffers are referenced.
class WireWriter {
 public:
  void Varint(uint64_t value);
  void Tag(uint32_t field, WireType type) { Varint(MakeTag(field, type)); }
  /// A varint field; left out where it is 0, as proto3 does.
  void VarintField(uint32_t field, uint64_t value);
  void StringField(uint32_t field, absl::string_view value);
  /// The tag and length of a field whose `bytes` bytes are written next.
  void BytesHeader(uint32_t field, size_t bytes);
  void Raw(const void* data, size_t bytes);
  /// Takes memory for so many bytes that are written by Raw, so that many writes take it once.
  void Reserve(size_t bytes) { pending_.reserve(pending_.size() + bytes); }
  /// `bytes` bytes at `data`, which `buffer` keeps alive until they are sent.
  void Reference(const Buffer& buffer, const void* data, size_t bytes);

  /// The message; the writer is empty then.
  grpc::ByteBuffer Finish();

 private:
  using Pending = absl::InlinedVector<char, 256>;

  void Flush();

  Pending pending_;
  absl::InlinedVector<grpc::Slice, 3> slices_;
};

}  // namespace formwork::server
