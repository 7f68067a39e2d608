#pragma once

// Row splits: where each row of a ragged dimension begins in the next one, and where the last ends.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/index_values.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Inputs [first, first + count) as row splits, from outside in, of values of `rows` rows.
/// Errors: kInvalidArgument unless they are vectors that begin at 0, do not decrease, and each as
/// long as the one before says.
absl::StatusOr<std::vector<IndexValues>> NestedSplits(KernelContext& ctx, int first, int count,
                                                      int64_t rows);

/// Rows [begin, end) of `values`, as a value of their own.
absl::StatusOr<Tensor> CopyRows(Allocator& allocator, const Tensor& values, int64_t begin,
                                int64_t end);

}  // namespace formwork
