#pragma once

// Products of matrices through cuBLASLt. Private to gpu/.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/kernels/enqueued_work.h"
#include "core/ops/epilogue.h"
#include "core/ops/matmul.h"
#include "core/tensor/dtype.h"
#include "gpu/element_kernel.h"

namespace formwork {

/// `count` products of x [m, k] by y [k, n], each of which may lie transposed; the next matrix of
/// an operand lies so many elements on, that of the result m * n.
struct ProductSize {
  int64_t m, n, k;
  int64_t count = 1;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
};

/// On the GPU. Of what the epilogue has not: null.
struct ProductOperands {
  const void* x;
  const void* y;
  const void* bias;
  const void* residual;  ///< May be `out`, whatever the epilogue.
  void* out;
};

/// Products of one dtype with one epilogue, which knows the algorithm of each size that it had
/// last. Thread-safe once it is prepared.
class MatrixProduct {
 public:
  /// A scale of `epilogue` is not its own.
  MatrixProduct(ProductAttrs attrs, Epilogue epilogue, DType dtype);
  ~MatrixProduct();

  static bool Takes(DType dtype);
  /// Compiles what cuBLASLt has not. Once, before the first product.
  absl::Status Prepare() { return activation_ ? activation_->Prepare() : absl::OkStatus(); }
  /// Of at least one element of x and of y; all but an activation that Activate makes. Errors:
  /// cuBLASLt's.
  absl::Status Enqueue(KernelContext& ctx, const ProductSize& size,
                       const ProductOperands& operands) const;
  /// The same of stacks of matrices of dimensions `x` and `y`, which broadcast: `geometry` is
  /// theirs.
  absl::Status EnqueueAll(KernelContext& ctx, const ProductGeometry& geometry,
                          absl::Span<const int64_t> x, absl::Span<const int64_t> y,
                          const ProductOperands& all) const;
  /// Of all that products have made of `out`.
  absl::Status Activate(KernelContext& ctx, Tensor& out) const;

 private:
  struct Plan;
  // The size's fields, and how pointers are aligned.
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, uint32_t>;

  absl::StatusOr<std::shared_ptr<const Plan>> Find(const ProductSize& size,
                                                   uint32_t alignment) const;
  absl::StatusOr<Plan> Make(const ProductSize& size, uint32_t alignment) const;

  const ProductAttrs attrs_;
  const Epilogue epilogue_;
  const DType dtype_;
  std::optional<ElementKernel> activation_;  // Which cuBLASLt has not.
  mutable absl::Mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const Plan>> plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
