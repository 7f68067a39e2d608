#pragma once

// Protocol buffers' wire format, written by hand, and read in place: kernels know no messages by
// their generated classes.

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"

namespace formwork {

/// What a field's value is.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;

struct WireField {
  uint32_t number = 0;
  uint32_t type = 0;
  uint64_t varint = 0;
  absl::string_view bytes;  ///< Of what has a length, and of fixed numbers.
};

/// The fields of a message, one after the other.
class WireReader {
 public:
  explicit WireReader(absl::string_view message) : rest_(message) {}

  bool done() const { return rest_.empty(); }
  /// False where the message is malformed.
  bool Next(WireField& field) {
    uint64_t tag;
    if (!Varint(tag) || tag > std::numeric_limits<uint32_t>::max() || tag < 8) return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = tag & 7;
    uint64_t size = 0;
    switch (field.type) {
      case kVarint:
        return Varint(field.varint);
      case kBytes:
        return Varint(size) && Take(size, field.bytes);
      case kFixed32:
        return Take(4, field.bytes);
      case kFixed64:
        return Take(8, field.bytes);
      default:  // Groups, which none of these messages has.
        return false;
    }
  }
  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Take(uint64_t size, absl::string_view& bytes) {
    if (size > rest_.size()) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

 private:
  absl::string_view rest_;
};

inline void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

/// A field of text, of a message, or of packed numbers.
inline void AppendBytes(uint32_t field, absl::string_view bytes, std::string& to) {
  AppendVarint(field << 3 | kBytes, to);
  AppendVarint(bytes.size(), to);
  to.append(bytes.data(), bytes.size());
}

/// A field of a float or double.
template <typename T>
void AppendFixed(uint32_t field, T value, std::string& to) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  AppendVarint(field << 3 | (sizeof(T) == 4 ? kFixed32 : kFixed64), to);
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace formwork
