#pragma once

// Elementwise ops on strings and variants, which are no plain data.

#include "core/kernels/kernel.h"

namespace formwork {

/// Equal, NotEqual, Add and selects of strings; AddN of variants (lists, optionals); selects of
/// variants; Conj of variants (sparse matrices). Errors: kUnimplemented for others.
absl::StatusOr<KernelFn> MakeObjectElementwise(KernelInit& init);

}  // namespace formwork
