#include "core/plan/releases.h"

#include <vector>

namespace formwork {
namespace {

// Giving a variable back takes a lock: worth it where so many steps follow, or a function.
constexpr size_t kStepsAfter = 4;

}  // namespace

void Releases::AddTo(Plan& plan, absl::FunctionRef<bool(int32_t origin)> written) const {
  std::map<uint32_t, std::vector<uint32_t>> slots;  // By instruction.
  for (const auto& [origin, last] : last_) {
    if (!last.slot || kept_.contains(origin) || !written(origin)) continue;
    if (last.instruction + kStepsAfter < plan.code.size() || last.instruction < last_function_) {
      slots[last.instruction].push_back(*last.slot);
    }
  }
  for (const auto& [i, released] : slots) {
    plan.code[i].releases = {static_cast<uint32_t>(plan.releases.size()),
                             static_cast<uint32_t>(released.size())};
    plan.releases.insert(plan.releases.end(), released.begin(), released.end());
  }
}

}  // namespace formwork
