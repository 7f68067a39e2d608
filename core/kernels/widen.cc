#include "core/kernels/widen.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)
FORMWORK_ISA_AVX2 int64_t WidenVectors(const half* from, int64_t n, float* to) {
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  return i;
}
FORMWORK_ISA_AVX2 int64_t NarrowVectors(const float* from, int64_t n, half* to) {
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  return i;
}
#else
int64_t WidenVectors(const half*, int64_t, float*) { return 0; }
int64_t NarrowVectors(const float*, int64_t, half*) { return 0; }
#endif

template <typename From>
void WidenAll(const From* from, int64_t n, float* to) {
  ParallelFor(n, kGrain,
              [&](int64_t begin, int64_t end) { WidenRun(from + begin, end - begin, to + begin); });
}
template <typename To>
void NarrowAll(const float* from, int64_t n, To* to) {
  ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    NarrowRun(from + begin, end - begin, to + begin);
  });
}

}  // namespace

void WidenRun(const half* from, int64_t n, float* to) {
  const int64_t done = HostIsa() >= Isa::kAvx2 ? WidenVectors(from, n, to) : 0;
  ConvertLoop<half, float>::Run(from + done, n - done, to + done);
}
void WidenRun(const bfloat16* from, int64_t n, float* to) {
  ForHostIsa<ConvertLoop<bfloat16, float>>(from, n, to);
}
void NarrowRun(const float* from, int64_t n, half* to) {
  const int64_t done = HostIsa() >= Isa::kAvx2 ? NarrowVectors(from, n, to) : 0;
  ConvertLoop<float, half>::Run(from + done, n - done, to + done);
}
void NarrowRun(const float* from, int64_t n, bfloat16* to) {
  ForHostIsa<ConvertLoop<float, bfloat16>>(from, n, to);
}

absl::StatusOr<Tensor> Widened(Allocator& allocator, const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat) return tensor;
  FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                            Tensor::Allocate(allocator, DType::kFloat, tensor.shape()));
  if (tensor.dtype() == DType::kHalf) {
    WidenAll(tensor.data<half>(), tensor.num_elements(), wide.mutable_data<float>());
  } else {
    WidenAll(tensor.data<bfloat16>(), tensor.num_elements(), wide.mutable_data<float>());
  }
  return wide;
}

void NarrowTo(DType dtype, const float* from, int64_t n, void* to) {
  if (dtype == DType::kHalf) {
    NarrowAll(from, n, static_cast<half*>(to));
  } else if (dtype == DType::kBfloat16) {
    NarrowAll(from, n, static_cast<bfloat16*>(to));
  } else {
    CopyElements(from, n, static_cast<float*>(to));
  }
}

}  // namespace formwork
