#pragma once

// Casts that go by way of another type than the two they name, or drop bits.

#include "core/kernels/kernel.h"

namespace formwork {

/// Cast where the table has no entry: quantized types cast as the integers that they are stored as;
/// float8_e5m2 and float8_e4m3fn go by float; int4 and uint4 by bytes. The attr Truncate drops the
/// bits of a mantissa that the target has no room for instead of rounding.
/// Errors: kUnimplemented for types that are not numbers.
absl::StatusOr<KernelFn> MakeDetourCast(KernelInit& init);

}  // namespace formwork
