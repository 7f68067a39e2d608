#pragma once

#include <compare>
#include <cstdint>

namespace formwork {

/// What a stored value is of.
struct StoredKey {
  enum class Of : uint8_t {
    kResource = 'r',
    kRegistration = 'f',
    kLoggedResource = 'R',
    kLoggedRows = 'W',  // Rows of a variable, entries of a table: behind its value, which has all.
    kLoggedFunction = 'F',
    kLoggedMore = 'M',    // state::Logged::more.
    kLoggedAnswer = 'A',  // Under no ID.
    kLoggedClient = 'C',  // By its number; under no position.
  };
  Of of = Of::kResource;
  uint64_t id = 0;
  uint64_t version = 0;  // Of what is logged: its position.
  auto operator<=>(const StoredKey&) const = default;
};

}  // namespace formwork
