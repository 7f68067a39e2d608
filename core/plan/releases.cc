#include "core/plan/releases.h"

#include <algorithm>
#include <vector>

namespace formwork {
namespace {

// Giving a variable back takes a lock: worth it where so many steps follow, or a function.
constexpr size_t kStepsAfter = 4;

}  // namespace

void Releases::AddTo(Plan& plan, absl::FunctionRef<bool(int32_t origin)> written) const {
  std::map<uint32_t, std::vector<uint32_t>> slots;  // By step.
  for (const auto& [origin, last] : last_) {
    if (!last.slot || kept_.contains(origin) || !written(origin)) continue;
    if (last.step + kStepsAfter < plan.steps.size() || last.step < last_function_) {
      slots[last.step].push_back(*last.slot);
    }
  }
  for (const auto& [s, released] : slots) {
    Plan::Step& step = plan.steps[s];
    step.first_release = static_cast<uint32_t>(plan.releases.size());
    step.num_releases = static_cast<uint32_t>(released.size());
    plan.releases.insert(plan.releases.end(), released.begin(), released.end());
    for (uint32_t k = 0; k < step.num_inputs; ++k) {
      Plan::Ref& ref = plan.refs[step.first_input + k];
      if (!ref.constant && std::count(released.begin(), released.end(), ref.index) > 0) {
        ref.owned = false;
      }
    }
  }
}

}  // namespace formwork
