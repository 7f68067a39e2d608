#pragma once

// Hashes of bytes that TensorFlow's ops are specified by.

#include <farmhash.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace formwork {
namespace hash_words {

inline uint64_t Load64(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// The last, at most 7, bytes of `text`, the first of them lowest.
inline uint64_t LoadRest(absl::string_view text) {
  uint64_t word = 0;
  for (size_t i = text.size() % 8; i-- > 0;) {
    word = word << 8 | static_cast<unsigned char>(text[text.size() / 8 * 8 + i]);
  }
  return word;
}

}  // namespace hash_words

/// FarmHash's Fingerprint64.
struct Farm {
  uint64_t operator()(absl::string_view text) const {
    return util::Fingerprint64(text.data(), text.size());
  }
};

/// SipHash-2-4 (Aumasson and Bernstein).
class Sip {
 public:
  explicit Sip(std::array<uint64_t, 2> key) : key_(key) {}
  uint64_t operator()(absl::string_view text) const {
    uint64_t v[4] = {key_[0] ^ 0x736f6d6570736575, key_[1] ^ 0x646f72616e646f6d,
                     key_[0] ^ 0x6c7967656e657261, key_[1] ^ 0x7465646279746573};
    for (size_t i = 0; i + 8 <= text.size(); i += 8)
      Compress(hash_words::Load64(text.data() + i), v);
    Compress(hash_words::LoadRest(text) | static_cast<uint64_t>(text.size()) << 56, v);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; ++i) Round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
  }

 private:
  static uint64_t Rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }
  static void Round(uint64_t* v) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = Rotate(v[1], 13) ^ v[0];
    v[3] = Rotate(v[3], 16) ^ v[2];
    v[0] = Rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = Rotate(v[1], 17) ^ v[2];
    v[3] = Rotate(v[3], 21) ^ v[0];
    v[2] = Rotate(v[2], 32);
  }
  static void Compress(uint64_t word, uint64_t* v) {
    v[3] ^= word;
    Round(v);
    Round(v);
    v[0] ^= word;
  }

  std::array<uint64_t, 2> key_;
};

/// One fingerprint of two, the second of which follows the first.
inline uint64_t JoinFingerprints(uint64_t first, uint64_t second) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  const auto mix = [](uint64_t value) { return value ^ (value >> 47); };
  const uint64_t joined = ((first ^ kFactor) ^ (mix(second * kFactor) * kFactor)) * kFactor;
  return mix(mix(joined) * kFactor);
}

}  // namespace formwork
