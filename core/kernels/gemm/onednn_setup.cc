#include "core/kernels/gemm/onednn_setup.h"

#include <oneapi/dnnl/dnnl.h>

#include "core/kernels/isa.h"

// libgomp's own; declared here because nothing of ours is compiled with OpenMP.
extern "C" void omp_set_num_threads(int);

namespace formwork {
namespace {

// Where FORMWORK_ISA does not lower the level, oneDNN uses all that the machine has: it knows
// levels between and above ours.
bool LowerIsa() {
  const absl::StatusOr<std::optional<Isa>> setting = IsaSetting();
  if (!setting.ok() || !setting->has_value()) return false;
  if (HostIsa() == Isa::kAvx2) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
  if (HostIsa() == Isa::kBaseline) dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
  return true;
}

}  // namespace

void SetUpOnednn() {
  // oneDNN takes the level before its first use alone.
  [[maybe_unused]] static const bool lowered = LowerIsa();
  // This setting belongs to the calling thread.
  thread_local bool done = false;
  if (done) return;
  omp_set_num_threads(1);
  done = true;
}

}  // namespace formwork
