#pragma once

// Vector instructions chosen at run time. The binary is built for baseline x86-64; a hot loop is
// written once, as a struct with a static always-inline function, and compiled for each level:
//
//   struct Scale {
//     FORMWORK_ISA_INLINE static void Run(int64_t n, float by, float* x) { ... }
//   };
//   ForHostIsa<Scale>(n, by, x);
//
// No lambdas inside of Run: they are functions of their own, compiled for the baseline.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace formwork {

enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };

/// "baseline", "avx2" or "avx512".
const char* IsaName(Isa isa);

/// The level that the environment's FORMWORK_ISA names, read once; nullopt where it is not set or
/// empty. kInvalidArgument where it names none.
absl::StatusOr<std::optional<Isa>> IsaSetting();

/// The level that kernels use: what this machine has, or less where IsaSetting() says so. It never
/// changes. Cheap.
Isa HostIsa();

#define FORMWORK_ISA_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define FORMWORK_ISA_AVX2 __attribute__((target("avx2,fma,f16c")))
#define FORMWORK_ISA_AVX512 \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")))
#else
#define FORMWORK_ISA_AVX2
#define FORMWORK_ISA_AVX512
#endif

namespace isa_internal {

template <typename Body, typename... Args>
FORMWORK_ISA_AVX512 auto RunAvx512(Args... args) {
  return Body::Run(args...);
}
template <typename Body, typename... Args>
FORMWORK_ISA_AVX2 auto RunAvx2(Args... args) {
  return Body::Run(args...);
}
template <typename Body, typename... Args>
auto RunBaseline(Args... args) {
  return Body::Run(args...);
}

}  // namespace isa_internal

/// Body::Run(args...) compiled for this machine.
template <typename Body, typename... Args>
inline auto ForHostIsa(Args... args) {
  switch (HostIsa()) {
    case Isa::kAvx512:
      return isa_internal::RunAvx512<Body>(args...);
    case Isa::kAvx2:
      return isa_internal::RunAvx2<Body>(args...);
    default:
      return isa_internal::RunBaseline<Body>(args...);
  }
}

}  // namespace formwork
