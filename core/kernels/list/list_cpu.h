#pragma once

// What the files of the list family share. Texts of errors are TensorFlow's.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/list.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Beyond this a list is refused: its items would take a gigabyte.
inline constexpr int64_t kMaxListItems = int64_t{1} << 22;

/// The list that a scalar handle holds. It lives as long as the handle's tensor.
absl::StatusOr<const TensorList*> ListOf(const Tensor& handle);
/// The same with its element dtype checked.
absl::StatusOr<const TensorList*> TypedListOf(const Tensor& handle, DType dtype);
/// The list of element i of a tensor of handles.
absl::StatusOr<const TensorList*> ListAt(const Tensor& handles, int64_t i);
/// The list of a checked scalar handle for changing: itself where nobody else holds it, else a
/// copy, which `handle` then holds.
TensorList& OwnList(Tensor& handle);

/// Errors: kResourceExhausted if a list of `size` items does not fit.
absl::Status CheckListSize(Allocator& allocator, int64_t size);
/// Adds to `shape` what the items that are set say, where the list's own shape is not full.
absl::Status MergeItemShapes(const TensorList& list, PartialShape& shape);

/// list_stacking_cpu.cc
void RegisterListStackingCpuKernels(KernelRegistry& registry);

}  // namespace formwork
