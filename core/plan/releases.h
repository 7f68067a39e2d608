#pragma once

// Where a call gives variables back before it ends.

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/functional/function_ref.h"
#include "core/plan/plan.h"

namespace formwork {

/// Collects the accesses of a root plan. A variable is known by its origin, a number that the
/// planner gives it.
class Releases {
 public:
  /// `instruction`, which every run comes by, has a handle of the variable, or a loop or branch has
  /// that ends there. `slot`: where the handle is then, if it is known. Instructions come in order.
  void Note(int32_t origin, uint32_t instruction, std::optional<uint32_t> slot) {
    last_[origin] = {instruction, slot};
  }
  /// The variable may be reached in ways that are not seen, so that it is kept until the end.
  void Keep(int32_t origin) { kept_.insert(origin); }
  /// From `instruction` on a function runs: it may take long.
  void NoteFunction(uint32_t instruction) { last_function_ = instruction; }

  /// Adds to the plan's instructions, all of which are there, the variables that `written` says
  /// hold others up. Their handles stay in their slots.
  void AddTo(Plan& plan, absl::FunctionRef<bool(int32_t origin)> written) const;

 private:
  struct Access {
    uint32_t instruction = 0;
    std::optional<uint32_t> slot;
  };

  std::map<int32_t, Access> last_;
  std::set<int32_t> kept_;
  uint32_t last_function_ = 0;
};

}  // namespace formwork
