#include "core/kernels/isa.h"

namespace formwork {
namespace {

Isa Detect() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  // Every machine with AVX2 has FMA and F16C but for a few emulators, which get the baseline.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

}  // namespace

Isa HostIsa() {
  static const Isa isa = Detect();
  return isa;
}

}  // namespace formwork
