#pragma once

// What waits for a thread, by key (a namespace), so that no key holds up another.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"

namespace formwork {

/// The next one is of the key that has the fewest running; of those the one whose turn was longest
/// ago. Each key's own work goes first in, first out. Add alone takes memory: where there is none
/// it throws, and nothing has changed. Not thread-safe: its owner has a lock.
class FairQueue {
 public:
  using Work = absl::AnyInvocable<void()>;

  /// The place that it got; never 0.
  uint64_t Add(absl::string_view key, Work&& work);
  /// Takes it out of its place again; null where it has been taken before.
  Work Remove(absl::string_view key, uint64_t place);
  /// Whether Take would give something; with `idle_keys`, of a key of which nothing runs.
  bool HasNext(bool idle_keys) const;
  struct Next {
    absl::string_view key;  ///< Valid until Done.
    Work work;
  };
  /// The next one, which counts as running until Done. Only where HasNext.
  Next Take();
  void Done(absl::string_view key);

 private:
  struct Key;
  // Of a key that has work waiting: who comes first.
  using Rank = std::tuple<int64_t, uint64_t, Key*>;
  using Order = std::set<Rank>;
  struct Key {
    absl::string_view name;
    std::map<uint64_t, Work> waiting;  // By place.
    int64_t running = 0;
    uint64_t turn = 0;      // When one was taken last, or the key came.
    Order::node_type rank;  // While it is not in order_: it goes in and out without taking memory.
  };

  static Rank RankOf(Key& key) { return {key.running, key.turn, &key}; }
  Key& KeyOf(absl::string_view name);
  // Around a change of a key.
  void Leave(Key& key);
  void Enter(Key& key);

  HashMap<std::string, Key> keys_;  // Those that have something waiting or running.
  Order order_;
  uint64_t places_ = 0;
  uint64_t turns_ = 0;
};

}  // namespace formwork
