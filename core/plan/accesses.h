#pragma once

// What a plan does to resources: which handles are in which slots, what its instructions do to what
// is behind them, and when each is touched last.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "core/base/hash_map.h"
#include "core/graph/graph.h"
#include "core/plan/plan.h"
#include "core/plan/planner_scope.h"

namespace formwork {

/// Follows the handles through one plan while it is emitted.
class Accesses {
 public:
  /// Which parameters (>= 0) and named resources (-1 - index) a handle may be. Ascending. Shared by
  /// the handles that are not told apart; null: none.
  using Origins = absl::InlinedVector<int32_t, 2>;
  using OriginsPtr = std::shared_ptr<const Origins>;

  /// `root`: as Emit. Both outlive this; the plan's arg_access is filled in.
  Accesses(Plan& plan, PlannerScope& scope, bool root) : plan_(plan), scope_(scope), root_(root) {}

  static bool HoldsHandles(DType dtype) {
    return dtype == DType::kResource || dtype == DType::kVariant;
  }

  /// `slot` holds the handle of what is known by `origin`; `top`: every run comes by there.
  void NoteHandle(int32_t origin, uint32_t slot, bool top);
  /// Slots of the handles that stay where they are until the call ends.
  const std::vector<uint32_t>& handles() const { return handles_; }

  OriginsPtr OriginsOf(Plan::Ref ref) const;
  void AddOrigins(uint32_t slot, const OriginsPtr& more);
  /// What the handles among a loop's `carried` variables may be: all that goes in, not told apart.
  OriginsPtr Carried(const Node& node, const std::vector<size_t>& carried,
                     const std::vector<Plan::Ref>& variables) const;
  /// A loop's variable becomes what its first iteration, which had `known`, did not know of.
  void NoteEscaped(const OriginsPtr& origins, const OriginsPtr& known);

  /// What is touched from here on is touched in the root plan's region of that number.
  void BeginRegion(uint32_t region) { region_ = region; }

  /// One step of the plan, its last instruction.
  struct Step {
    const Graph& graph;
    const Node& node;
    bool top;                        ///< Every run comes by it.
    std::vector<Plan::Ref> inputs;   ///< Of the node.
    std::vector<Plan::Ref> outputs;  ///< Of the node.
  };
  /// What a step does to the resources behind its handles; `access_by`: by input k. Ends early
  /// where the work is cut.
  void NoteStep(const Step& step, absl::FunctionRef<Access(size_t k)> access_by);
  /// Whether a branch or loop of the root's own has touched resources since the last End.
  bool AnyTouched() const { return !touched_.empty(); }
  /// Instruction `end`, which every run comes by, is behind all that did.
  void EndTouched(uint32_t end);

  /// Of a root plan, once all of its instructions are there.
  void AddReleases();

 private:
  void NoteLast(int32_t origin, uint32_t instruction);
  Access& AccessTo(int32_t origin) {
    return origin >= 0 ? plan_.arg_access[origin] : scope_.named_resources[-1 - origin].access;
  }
  void Note(int32_t origin, Access access);

  Plan& plan_;
  PlannerScope& scope_;
  const bool root_;
  HashMap<uint32_t, OriginsPtr> origins_;  // By slot, of handles and variants that may hold them.
  std::vector<uint32_t> handles_;
  HashMap<int32_t, uint32_t> slot_of_;  // The first of them, by origin.
  std::optional<uint32_t> region_;      // That has begun last.
  std::set<int32_t> touched_;           // Origins, in the branch or loop that is being added.
};

}  // namespace formwork
