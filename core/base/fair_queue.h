#pragma once

// What waits for a thread, by key (a namespace), so that no key holds up another.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/container/btree_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"

namespace formwork {

/// The next one is of the key that has the fewest running; of those the one whose turn was longest
/// ago. Each key's own work goes first in, first out. Not thread-safe: its owner has a lock.
class FairQueue {
 public:
  using Work = absl::AnyInvocable<void()>;

  /// The place that it got; never 0.
  uint64_t Add(absl::string_view key, Work work);
  /// Takes it out of its place again; null where it has been taken before.
  Work Remove(absl::string_view key, uint64_t place);
  /// Whether Take would give something; with `idle_keys`, of a key of which nothing runs.
  bool HasNext(bool idle_keys) const;
  struct Next {
    std::string key;
    Work work;
  };
  /// The next one, which counts as running until Done. Only where HasNext.
  Next Take();
  void Done(absl::string_view key);

 private:
  struct Key {
    std::map<uint64_t, Work> waiting;  // By place.
    int64_t running = 0;
    uint64_t turn = 0;  // When one was taken last, or the key came.
  };
  using Keys = absl::node_hash_map<std::string, Key>;
  // Of a key that has work waiting: who comes first.
  using Rank = std::tuple<int64_t, uint64_t, Keys::value_type*>;

  static Rank RankOf(Keys::value_type& key) { return {key.second.running, key.second.turn, &key}; }
  // Around a change of a key.
  void Leave(Keys::value_type& key);
  void Enter(Keys::value_type& key);

  Keys keys_;  // Those that have something waiting or running.
  absl::btree_set<Rank> order_;
  uint64_t places_ = 0;
  uint64_t turns_ = 0;
};

}  // namespace formwork
