#include "server/wire_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/base/utf8.h"

namespace formwork::server {
namespace {

// As protobuf: nested groups deeper than this are refused.
constexpr int kMaxGroupDepth = 100;
constexpr size_t kOwnedBytes = size_t{64} << 10;
constexpr uint64_t kMaxLength = std::numeric_limits<int32_t>::max();

static_assert(std::endian::native == std::endian::little, "tensors cross the wire as they lie");

absl::string_view ViewOf(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

}  // namespace

ReceivedMessage::ReceivedMessage(const grpc::ByteBuffer& message) {
  if (!message.Valid()) return;
  if (message.TrySingleSlice(&single_).ok()) {
    chunks_.push_back(ViewOf(single_));
    size_ = single_.size();
    return;
  }
  if (!message.Dump(&slices_).ok()) return;
  chunks_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    if (slice.size() == 0) continue;
    chunks_.push_back(ViewOf(slice));
    size_ += slice.size();
  }
}

WireReader::WireReader(absl::Span<const absl::string_view> chunks, size_t size)
    : chunk_(chunks.data()), remaining_(size) {
  if (size == 0) return;
  at_ = chunk_->data();
  in_chunk_ = chunk_->size();
}

void WireReader::NextChunk() {
  ++chunk_;
  at_ = chunk_->data();
  in_chunk_ = chunk_->size();
}

bool WireReader::ReadByte(uint8_t* byte) {
  if (remaining_ == 0) return false;
  if (in_chunk_ == 0) NextChunk();
  *byte = static_cast<uint8_t>(*at_++);
  --in_chunk_;
  --remaining_;
  return true;
}

bool WireReader::ReadVarint(uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool WireReader::ReadTag(uint32_t* tag) {
  const size_t before = remaining_;
  uint64_t value;
  if (!ReadVarint(&value)) return false;
  // Protobuf takes a tag of at most five bytes.
  if (value > std::numeric_limits<uint32_t>::max() || before - remaining_ > 5) return false;
  *tag = static_cast<uint32_t>(value);
  return *tag >> 3 != 0 && (*tag & 7) <= static_cast<uint32_t>(WireType::kFixed32);
}

bool WireReader::ReadFixed32(uint32_t* value) {
  if (remaining_ < sizeof(*value)) return false;
  CopyTo(value, sizeof(*value));
  return true;
}

bool WireReader::ReadNested(WireReader* nested) {
  uint64_t length;
  if (!ReadVarint(&length) || length > kMaxLength || length > remaining_) return false;
  // At the end of a chunk the nested reader stands before the next one and moves when it reads.
  *nested = *this;
  nested->remaining_ = static_cast<size_t>(length);
  return Skip(static_cast<size_t>(length));
}

bool WireReader::ReadString(std::string* value) {
  WireReader text;
  if (!ReadNested(&text)) return false;
  value->resize(text.remaining());
  text.CopyTo(value->data(), value->size());
  return IsValidUtf8(*value);
}

bool WireReader::Skip(size_t bytes) {
  if (bytes > remaining_) return false;
  remaining_ -= bytes;
  while (bytes > in_chunk_) {
    bytes -= in_chunk_;
    NextChunk();
  }
  at_ += bytes;
  in_chunk_ -= bytes;
  return true;
}

void WireReader::CopyTo(void* out, size_t bytes) {
  char* to = static_cast<char*>(out);
  remaining_ -= bytes;
  while (bytes > 0) {
    if (in_chunk_ == 0) NextChunk();
    const size_t n = std::min(bytes, in_chunk_);
    std::memcpy(to, at_, n);
    to += n;
    at_ += n;
    in_chunk_ -= n;
    bytes -= n;
  }
}

bool WireReader::SkipField(uint32_t tag) { return SkipFieldAt(tag, 0); }

bool WireReader::SkipFieldAt(uint32_t tag, int depth) {
  uint64_t value;
  WireReader nested;
  switch (static_cast<WireType>(tag & 7)) {
    case WireType::kVarint:
      return ReadVarint(&value);
    case WireType::kFixed64:
      return Skip(8);
    case WireType::kBytes:
      return ReadNested(&nested);
    case WireType::kStartGroup:
      return SkipGroup(tag >> 3, depth + 1);
    case WireType::kFixed32:
      return Skip(4);
    case WireType::kEndGroup:
      return false;  // Of a group that was never begun.
  }
  return false;
}

bool WireReader::SkipGroup(uint32_t field, int depth) {
  if (depth > kMaxGroupDepth) return false;
  while (true) {
    uint32_t tag;
    if (!ReadTag(&tag)) return false;
    if (tag == MakeTag(field, WireType::kEndGroup)) return true;
    if (!SkipFieldAt(tag, depth)) return false;
  }
}

std::string NamespaceOf(const grpc::ByteBuffer& request) {
  constexpr size_t kMostBytes = 512;  // No name is longer.
  const ReceivedMessage received(request);
  WireReader reader(received.chunks(), received.size());
  uint32_t tag;
  WireReader text;
  std::string name_space;
  if (!reader.done() && reader.ReadTag(&tag) && tag == MakeTag(1, WireType::kBytes) &&
      reader.ReadNested(&text) && text.remaining() <= kMostBytes) {
    name_space.resize(text.remaining());
    text.CopyTo(name_space.data(), name_space.size());
  }
  return name_space;
}

void WireWriter::Varint(uint64_t value) {
  char bytes[10];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = static_cast<char>(value);
  Raw(bytes, n);
}

void WireWriter::VarintField(uint32_t field, uint64_t value) {
  if (value == 0) return;
  Tag(field, WireType::kVarint);
  Varint(value);
}

void WireWriter::BytesHeader(uint32_t field, size_t bytes) {
  Tag(field, WireType::kBytes);
  Varint(bytes);
}

void WireWriter::StringField(uint32_t field, absl::string_view value) {
  BytesHeader(field, value.size());
  Raw(value.data(), value.size());
}

void WireWriter::Raw(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  pending_.insert(pending_.end(), from, from + bytes);
}

void WireWriter::Reference(const Buffer& buffer, const void* data, size_t bytes) {
  Flush();
  slices_.emplace_back(
      const_cast<void*>(data), bytes, [](void* held) { delete static_cast<Buffer*>(held); },
      new Buffer(buffer));
}

void WireWriter::Flush() {
  if (pending_.empty()) return;
  if (pending_.size() < kOwnedBytes) {
    slices_.emplace_back(pending_.data(), pending_.size());
    pending_.clear();
    return;
  }
  // Much text: not copied again, and of the heap that is counted as long as it waits to be written.
  auto* const owned = new Pending(std::move(pending_));
  pending_.clear();
  slices_.emplace_back(
      owned->data(), owned->size(), [](void* held) { delete static_cast<Pending*>(held); }, owned);
}

grpc::ByteBuffer WireWriter::Finish() {
  Flush();
  grpc::ByteBuffer message(slices_.data(), slices_.size());
  slices_.clear();
  return message;
}

}  // namespace formwork::server
