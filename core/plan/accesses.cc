#include "core/plan/accesses.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "core/base/stop_flag.h"

namespace formwork {
namespace {

using OriginsPtr = Accesses::OriginsPtr;

Access Stronger(Access a, Access b) { return std::max(a, b); }

OriginsPtr Union(const OriginsPtr& a, const OriginsPtr& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  Accesses::Origins both;
  both.reserve(a->size() + b->size());
  std::set_union(a->begin(), a->end(), b->begin(), b->end(), std::back_inserter(both));
  return std::make_shared<const Accesses::Origins>(std::move(both));
}

}  // namespace

void Accesses::NoteHandle(int32_t origin, uint32_t slot, bool top) {
  origins_[slot] = std::make_shared<const Origins>(Origins{origin});
  if (!top) return;
  handles_.push_back(slot);
  slot_of_.try_emplace(origin, slot);
}

OriginsPtr Accesses::OriginsOf(Plan::Ref ref) const {
  if (ref.constant) return nullptr;
  auto found = origins_.find(ref.index);
  return found == origins_.end() ? nullptr : found->second;
}

void Accesses::AddOrigins(uint32_t slot, const OriginsPtr& more) {
  OriginsPtr& own = origins_[slot];
  own = Union(own, more);
}

OriginsPtr Accesses::Carried(const Node& node, const std::vector<size_t>& carried,
                             const std::vector<Plan::Ref>& variables) const {
  const bool any = std::any_of(carried.begin(), carried.end(),
                               [&node](size_t k) { return HoldsHandles(node.output_dtypes[k]); });
  OriginsPtr origins;
  if (!any) return origins;
  std::set<const Origins*> seen;
  for (const Plan::Ref& variable : variables) {
    OriginsPtr own = OriginsOf(variable);
    if (own == nullptr || !seen.insert(own.get()).second) continue;
    if (WorkIsCut()) return origins;
    origins = Union(origins, own);
  }
  return origins;
}

void Accesses::NoteEscaped(const OriginsPtr& origins, const OriginsPtr& known) {
  if (origins == nullptr || origins == known) return;
  for (int32_t origin : *origins) {
    if (known != nullptr && std::binary_search(known->begin(), known->end(), origin)) continue;
    Note(origin, Access::kWrite);
    scope_.releases.Keep(origin);
  }
}

void Accesses::NoteStep(const Step& step, absl::FunctionRef<Access(size_t k)> access_by) {
  const Node& node = step.node;
  std::map<OriginsPtr, Access> sources;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (WorkIsCutAt(static_cast<int64_t>(k), kDearItems)) return;
    OriginsPtr origins = OriginsOf(step.inputs[k]);
    if (origins == nullptr) continue;
    const bool handle = step.graph.dtype(node.inputs[k]) == DType::kResource;
    const bool late = origins->size() > 1;
    Access& access = sources[std::move(origins)];
    if (!handle) continue;
    access = Stronger(access, access_by(k));
    if (late && access != Access::kNone) scope_.late_handles = true;
  }
  if (sources.empty()) return;
  // A handle may go into a variant, and be taken out of it again.
  const bool holds_handles = std::find(node.output_dtypes.begin(), node.output_dtypes.end(),
                                       DType::kVariant) != node.output_dtypes.end();
  OriginsPtr all;
  for (const auto& [origins, access] : sources) {
    if (WorkIsCut()) return;
    for (int32_t origin : *origins) {
      Note(origin, access);
      if (!root_) {
        if (origin >= 0) continue;
        scope_.releases.Keep(origin);
        scope_.hides_resources = true;
      } else if (holds_handles) {
        scope_.releases.Keep(origin);
      } else if (step.top) {
        NoteLast(origin, static_cast<uint32_t>(plan_.code.size()) - 1);
      } else {
        touched_.insert(origin);
      }
    }
    all = Union(all, origins);
  }
  for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
    if (HoldsHandles(node.output_dtypes[k])) AddOrigins(step.outputs[k].index, all);
  }
}

void Accesses::EndTouched(uint32_t end) {
  for (int32_t origin : touched_) NoteLast(origin, end);
  touched_.clear();
}

void Accesses::AddReleases() {
  scope_.releases.AddTo(plan_,
                        [this](int32_t origin) { return AccessTo(origin) == Access::kWrite; });
}

void Accesses::NoteLast(int32_t origin, uint32_t instruction) {
  auto slot = slot_of_.find(origin);
  scope_.releases.Note(origin, instruction,
                       slot == slot_of_.end() ? std::nullopt : std::optional(slot->second));
}

void Accesses::Note(int32_t origin, Access access) {
  Access& noted = AccessTo(origin);
  noted = Stronger(noted, access);
  if (!region_ || access == Access::kNone) return;
  Access& in_region = plan_.regions[*region_].access[origin];
  in_region = Stronger(in_region, access);
}

}  // namespace formwork
