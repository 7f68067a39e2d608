#pragma once

// A hash that is the same in each process: of what outlives one.

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace formwork {

/// Of what is added, in its order. No match for somebody who wants two things to have the same one.
class StableHash {
 public:
  StableHash& Add(uint64_t number) {
    hash_ = (hash_ ^ number) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 32;
    return *this;
  }
  StableHash& Add(absl::string_view text) {
    Add(uint64_t{text.size()});
    uint64_t word = 0;
    for (; text.size() >= sizeof(word); text.remove_prefix(sizeof(word))) {
      std::memcpy(&word, text.data(), sizeof(word));
      Add(word);
    }
    word = 0;
    if (!text.empty()) std::memcpy(&word, text.data(), text.size());
    return Add(word);
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0x2545f4914f6cdd1d;
};

}  // namespace formwork
