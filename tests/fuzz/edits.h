#pragma once

// What fuzzers of readers do with their bytes: they edit what has been written well, because little
// of what is merely random gets past checksums and sizes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace formwork {

/// Takes a fuzzer's bytes apart. Where they have ended there are zeros.
class FuzzBytes {
 public:
  FuzzBytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  uint32_t Number() {
    const uint32_t high = Byte();
    return high << 8 | Byte();
  }
  /// Of 64 bits: small, or near the ends of ranges, more often than not.
  uint64_t Wide() {
    const uint8_t what = Byte();
    switch (what % 4) {
      case 0:
        return Byte();
      case 1:
        return (uint64_t{1} << (Byte() % 64)) - what / 128;
      case 2:
        return ~uint64_t{Byte()};
      default:
        return uint64_t{Number()} << 48 | uint64_t{Number()} << 16 | Number();
    }
  }
  std::string Bytes(size_t count) {
    count = std::min(count, size_);
    std::string bytes(reinterpret_cast<const char*>(data_), count);
    data_ += count;
    size_ -= count;
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

/// Edits texts, known by their keys: one is removed, cut, flipped at a byte, written over,
/// replaced, or put under another's key.
inline void Edit(FuzzBytes& bytes, std::map<std::string, std::string>& texts) {
  const uint8_t what = bytes.Byte();
  if (texts.empty()) return;
  const auto chosen = std::next(texts.begin(), static_cast<int64_t>(bytes.Byte() % texts.size()));
  std::string& text = chosen->second;
  const size_t at = text.empty() ? 0 : bytes.Number() % text.size();
  switch (what % 6) {
    case 0:
      texts.erase(chosen);
      break;
    case 1:
      text.resize(at);
      break;
    case 2:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (bytes.Byte() | 1));
      break;
    case 3: {
      const std::string over = bytes.Bytes(bytes.Byte());
      text.replace(at, over.size(), over);
      break;
    }
    case 4:
      text = bytes.Bytes(bytes.Number());
      break;
    case 5:
      std::next(texts.begin(), static_cast<int64_t>(bytes.Byte() % texts.size()))->second = text;
      break;
  }
}

/// Edits a message: a field of it, or of one in it, gets another value, or more or fewer of them.
inline void Edit(FuzzBytes& bytes, google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const auto& all = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  if (all.field_count() == 0) return;
  const FieldDescriptor* field = all.field(bytes.Byte() % all.field_count());
  // Rather one that there is: what is deep inside is reached more often.
  for (int i = 0; i < all.field_count(); ++i) {
    const bool there = field->is_repeated() ? reflection.FieldSize(message, field) > 0
                                            : reflection.HasField(message, field);
    if (there) break;
    field = all.field((field->index() + 1) % all.field_count());
  }
  const bool repeated = field->is_repeated();
  const int size = repeated ? reflection.FieldSize(message, field) : 0;
  const uint8_t what = bytes.Byte() % 8;
  if (what == 0) return reflection.ClearField(&message, field);
  if (what == 1 && size > 0) return reflection.RemoveLast(&message, field);
  if (what == 2 && size > 1) return reflection.SwapElements(&message, field, 0, size - 1);
  const bool add = repeated && (size == 0 || what == 3);
  const int at = size == 0 ? 0 : bytes.Byte() % size;
  switch (field->cpp_type()) {
#define FORMWORK_EDIT(kind, Name, ...)                                             \
  case FieldDescriptor::CPPTYPE_##kind: {                                          \
    const auto value = __VA_ARGS__;                                                \
    if (add) return reflection.Add##Name(&message, field, value);                  \
    if (repeated) return reflection.SetRepeated##Name(&message, field, at, value); \
    return reflection.Set##Name(&message, field, value);                           \
  }
    FORMWORK_EDIT(BOOL, Bool, bytes.Byte() % 2 == 1)
    FORMWORK_EDIT(INT32, Int32, static_cast<int32_t>(bytes.Wide()))
    FORMWORK_EDIT(UINT32, UInt32, static_cast<uint32_t>(bytes.Wide()))
    FORMWORK_EDIT(INT64, Int64, static_cast<int64_t>(bytes.Wide()))
    FORMWORK_EDIT(UINT64, UInt64, bytes.Wide())
    FORMWORK_EDIT(FLOAT, Float, static_cast<float>(bytes.Wide()))
    FORMWORK_EDIT(DOUBLE, Double, static_cast<double>(bytes.Wide()))
    FORMWORK_EDIT(ENUM, EnumValue, static_cast<int>(bytes.Wide()))
    FORMWORK_EDIT(STRING, String, bytes.Bytes(bytes.Byte()))
#undef FORMWORK_EDIT
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (add) return Edit(bytes, *reflection.AddMessage(&message, field));
      if (repeated) return Edit(bytes, *reflection.MutableRepeatedMessage(&message, field, at));
      return Edit(bytes, *reflection.MutableMessage(&message, field));
  }
}

/// Likewise, of a message that is written in `text`, if it is one.
template <typename Message>
void EditMessage(FuzzBytes& bytes, std::string& text) {
  Message message;
  if (!message.ParseFromString(text)) return;
  Edit(bytes, static_cast<google::protobuf::Message&>(message));
  text = message.SerializeAsString();
}

}  // namespace formwork
