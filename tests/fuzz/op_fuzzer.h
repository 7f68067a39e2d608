#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/op_running.h"
#include "tests/fuzz/op_world.h"

namespace formwork {

/// Made when it is first asked for.
OpWorld& FuzzedWorld();
/// One call of one op, drawn from these bytes. Ends the process where it does what it may not.
void FuzzOp(const uint8_t* data, size_t size);

/// The shape function and the kernel, of a call whose values are there. `known`: what shapes are
/// known; `owned`: the kernel may take the inputs over; `seed`: of what is done to iterators. Ends
/// the process where a result, or an error, is not what it may be.
void CheckCall(const Call& call, uint8_t known, bool owned, uint64_t seed,
               Surroundings& surroundings);

/// Inputs of a case that runs well are edited, one after the other: other ranks, sizes and no
/// elements; all elements the least, the largest, -1, no number, and so on. And all together:
/// dimensions that had one size have another, or none.
void CheckEditedInputs(FuzzedOp& op, const testing::OpCase& op_case);

}  // namespace formwork
