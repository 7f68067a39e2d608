#pragma once

// What random ops are on every device: attrs.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/ops/attr.h"

namespace formwork {

/// Of ops whose numbers follow from attrs; without seeds the first call draws one.
struct SeedAttrs {
  int64_t seed = 0;
  int64_t seed2 = 0;

  bool seeded() const { return seed != 0 || seed2 != 0; }
  static absl::StatusOr<SeedAttrs> FromAttrs(const AttrMap& attrs);
};

}  // namespace formwork
