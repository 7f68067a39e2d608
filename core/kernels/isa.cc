#include "core/kernels/isa.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

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

absl::StatusOr<std::optional<Isa>> ReadSetting() {
  const char* const text = std::getenv("FORMWORK_ISA");
  if (text == nullptr || *text == '\0') return std::nullopt;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (absl::string_view(text) == IsaName(isa)) return isa;
  }
  return InvalidArgument("FORMWORK_ISA: not one of baseline, avx2, avx512: ", text);
}

Isa Choose() {
  const absl::StatusOr<std::optional<Isa>> setting = IsaSetting();
  return setting.ok() && *setting ? std::min(**setting, Detect()) : Detect();
}

}  // namespace

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

absl::StatusOr<std::optional<Isa>> IsaSetting() {
  static const absl::StatusOr<std::optional<Isa>>& setting =
      *new absl::StatusOr<std::optional<Isa>>(ReadSetting());
  return setting;
}

Isa HostIsa() {
  static const Isa isa = Choose();
  return isa;
}

}  // namespace formwork
