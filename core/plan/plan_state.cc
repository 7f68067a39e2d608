#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/graph/graph.h"
#include "core/plan/plan.h"

namespace formwork {
namespace {

// A plan under way, in a call of it.
struct Visit {
  const Plan& plan;
  std::string call;
  uint32_t first;  // Number of its state.
  size_t next = 0;
};

}  // namespace

void VisitState(const Plan& root,
                absl::FunctionRef<bool(absl::string_view name, Plan::Range numbers)> visit) {
  HashSet<std::string> names;
  std::vector<Visit> visits;  // A list, because calls may nest deep.
  visits.push_back({root, "", 0});
  while (!visits.empty()) {
    Visit& last = visits.back();
    if (last.next == last.plan.states.size()) {
      visits.pop_back();
      continue;
    }
    const Plan::State& state = last.plan.states[last.next++];
    const uint32_t first = last.first + state.numbers.first;
    std::string name = NameInside(last.call, state.node);
    if (state.function) {
      visits.push_back({*root.functions[*state.function], std::move(name), first});
      continue;
    }
    const std::string unnumbered = name;
    for (int n = 2; !names.insert(name).second; ++n) name = absl::StrCat(unnumbered, "#", n);
    if (!visit(name, {first, state.numbers.count})) return;
  }
}

}  // namespace formwork
