#include "core/kernels/widen.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elements.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr int64_t kGrain = 64 * 1024;

template <typename From, typename To>
struct ConvertLoop {
  FORMWORK_ISA_INLINE static void Run(const From* from, int64_t n, To* to) {
    for (int64_t i = 0; i < n; ++i) to[i] = To(static_cast<float>(from[i]));
  }
};

template <typename From, typename To>
void Convert(const From* from, int64_t n, To* to) {
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    ForHostIsa<ConvertLoop<From, To>>(from + begin, end - begin, to + begin);
  });
}

}  // namespace

absl::StatusOr<Tensor> Widened(Allocator& allocator, const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat) return tensor;
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DType::kFloat, tensor.shape()));
  if (tensor.dtype() == DType::kHalf) {
    Convert(tensor.data<half>(), tensor.num_elements(), wide.mutable_data<float>());
  } else {
    Convert(tensor.data<bfloat16>(), tensor.num_elements(), wide.mutable_data<float>());
  }
  return wide;
}

void NarrowTo(DType dtype, const float* from, int64_t n, void* to) {
  if (dtype == DType::kHalf) {
    Convert(from, n, static_cast<half*>(to));
  } else if (dtype == DType::kBfloat16) {
    Convert(from, n, static_cast<bfloat16*>(to));
  } else {
    CopyElements(from, n, static_cast<float*>(to));
  }
}

}  // namespace formwork
