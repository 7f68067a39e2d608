#include "core/plan/memory.h"

#include "core/base/status.h"
#include "core/kernels/stream_scope.h"

namespace formwork {

absl::Status PlaceConstants(Plan& plan, absl::Span<const Memory> wanted, Allocator& memory,
                            Stream& stream, Allocator& host) {
  std::vector<bool> read(plan.constants.size());
  for (const std::vector<Plan::Ref>& refs : {plan.refs, plan.results}) {
    for (const Plan::Ref& ref : refs) {
      if (ref.constant) read[ref.index] = true;
    }
  }
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    Tensor& constant = plan.constants[i];
    if (!read[i]) {
      constant = Tensor();
    } else if (wanted[i] == Memory::kDevice) {
      FORMWORK_ASSIGN_OR_RETURN(constant, CopyToDevice(constant, memory, stream, host));
    }
  }
  return absl::OkStatus();
}

}  // namespace formwork
