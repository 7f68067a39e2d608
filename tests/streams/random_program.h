#pragma once

// Functions drawn from a seed: products, sums, shape arithmetic, variables that are read, assigned
// and updated, branches on values of the device, loops, calls that are part of their callers and
// calls that are not, steps whose outputs' shapes only the values tell, and that change a
// variable's size, and steps that fail by value.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/streams/stream_world.h"

namespace formwork::testing {

/// Of feeds x (float [4,4]), n (int32, iterations) and i (int32 [4], rows).
absl::StatusOr<Program> RandomProgram(Programs& programs, uint64_t seed);
/// Functions that never need a value on the host; of the same feeds.
enum class Plain : uint8_t {
  kReads,        ///< A variable.
  kAdds,         ///< To it.
  kReadsAndAdds  ///< Uses its value for what is worth a stream, and adds to it once that is issued.
};
absl::StatusOr<Program> PlainProgram(Programs& programs, Plain kind);
/// Gives all variables values; of the same feeds.
absl::StatusOr<Program> InitialProgram(Programs& programs);
/// `fails`: rows that are out of range.
std::vector<Tensor> RandomInputs(uint64_t seed, bool fails);

}  // namespace formwork::testing
