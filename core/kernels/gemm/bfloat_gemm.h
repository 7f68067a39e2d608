#pragma once

// Products of bfloat16 by instructions for them. README.md has the figures.

#include <cstdint>

#include "absl/status/status.h"
#include "core/tensor/small_float.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Whether this machine has such instructions (AMX, or those of AVX-512) and HostIsa() allows them.
bool HasBfloatProducts();

/// c = op(a) op(b), as Gemm's (gemm.h), of matrices without gaps and at least one element each, as
/// long as HasBfloatProducts(). Products are added up as floats, and rounded once. Large ones are
/// split over the compute threads. Errors: the allocator's; kUnimplemented where oneDNN has none.
absl::Status BfloatGemm(Allocator& allocator, bool trans_a, bool trans_b, int64_t m, int64_t n,
                        int64_t k, const bfloat16* a, const bfloat16* b, bfloat16* c);

/// Empties the cache of compiled products.
void ForgetBfloatProducts();

}  // namespace formwork
