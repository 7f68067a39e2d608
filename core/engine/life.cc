// What tells clients of one life of the engine from those of others: epochs, and where IDs start.

#include <algorithm>
#include <random>

#include "core/base/status.h"
#include "core/engine/snapshot.h"

namespace formwork {
namespace {

uint64_t NewEpoch() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

// Where all IDs of a life start that do not go on from one that ended in peace: apart from those of
// others by the upper bits; within 53, which JSON's readers keep.
uint64_t FirstId(uint64_t epoch) { return ((epoch >> 32) & 0xfffff) << 32 | 1; }

}  // namespace

state::Durability ToStored(Durability durability) {
  switch (durability) {
    case Durability::kMemory:
      return state::MEMORY;
    case Durability::kSnapshot:
      return state::SNAPSHOT;
    case Durability::kSync:
      break;
  }
  return state::SYNC;
}

std::optional<Durability> FromStored(state::Durability durability) {
  switch (durability) {
    case state::MEMORY:
      return Durability::kMemory;
    case state::SNAPSHOT:
      return Durability::kSnapshot;
    case state::SYNC:
      return Durability::kSync;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<bool> LogHasAll(const SnapshotStore& store) {
  bool more = false;
  FORMWORK_RETURN_IF_ERROR(store.VisitLog(
      [&](const StoredKey&, const state::Logged& logged) { more |= logged.more(); }));
  return !more;
}

state::Life NextLife(const std::optional<state::Life>& previous, bool log_has_all,
                     Durability durability) {
  state::Life life;
  if (previous) life = *previous;
  const bool in_peace = life.complete();
  bool new_sync = !in_peace && !(life.logged() && log_has_all);
  bool new_snapshot = !in_peace;
  if (life.snapshot_epoch() == 0) life.set_snapshot_epoch(life.epoch());
  const Durability before =
      FromStored(life.durability())
          .value_or(life.logged() ? Durability::kSync : Durability::kSnapshot);
  // Then the epoch of what has none of its own is another one's: it must not have been that before
  // something was lost.
  if (before != durability &&
      (new_sync || new_snapshot || life.epoch() != life.snapshot_epoch() ||
       before == Durability::kMemory || durability == Durability::kMemory)) {
    new_sync = new_snapshot = true;
  }
  if (!in_peace) {
    const auto& used = life.first_ids();
    uint64_t first = 0;
    do {
      first = FirstId(NewEpoch());
    } while (std::find(used.begin(), used.end(), first) != used.end());
    life.add_first_ids(first);
    life.set_next_resource_id(first);
    life.set_next_function_id(first);
    life.set_next_kept_tensor_id(first);
  }
  const uint64_t made = NewEpoch();
  if (new_sync) life.set_epoch(made);
  if (new_snapshot) life.set_snapshot_epoch(made);
  life.set_memory_epoch(made);
  life.set_durability(ToStored(durability));
  life.set_complete(false);
  life.set_logged(true);
  life.set_answers_logged(true);
  return life;
}

}  // namespace formwork
