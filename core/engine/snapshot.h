#pragma once

// Snapshots: what an engine with a data directory leaves on disk, and starts from. Included by
// core/engine*.cc alone.
//
// A snapshot is the state between two calls: it takes a place in line at every resource at once, as
// a call that reads them all. Calls go on meanwhile; one that changes a value that is being written
// changes a copy. Functions are stored when they are registered, and are there again from the next
// snapshot that names them.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "core/engine/group_commit.h"
#include "core/function/function_cache.h"
#include "core/storage/snapshot_store.h"

namespace formwork {

class AccessTicket;
class EngineImpl;
struct EngineFunction;

/// Registrations on disk that no function needs any more. Thread-safe.
class UnusedRegistrations {
 public:
  void Add(uint64_t number);
  std::vector<uint64_t> Take();

 private:
  absl::Mutex mutex_;
  std::vector<uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
};

/// A function's registration on disk; it may be removed when nobody holds this any more.
class StoredRegistration {
 public:
  StoredRegistration(uint64_t number, std::shared_ptr<UnusedRegistrations> unused)
      : number(number), unused_(std::move(unused)) {}
  ~StoredRegistration() { unused_->Add(number); }
  StoredRegistration(const StoredRegistration&) = delete;
  StoredRegistration& operator=(const StoredRegistration&) = delete;

  const uint64_t number;

 private:
  const std::shared_ptr<UnusedRegistrations> unused_;
};

/// What a function that is registered again from a snapshot keeps.
struct RestoredFunction {
  uint64_t id = 0;
  std::shared_ptr<const StoredRegistration> stored;
};

/// Of an earlier life: whether nothing that was answered is missing in its log (Logged::more).
absl::StatusOr<bool> LogHasAll(const SnapshotStore& store);

/// The life that follows `previous`, of which there may be none. `durability`: of namespaces that
/// have none of their own.
state::Life NextLife(const std::optional<state::Life>& previous, bool log_has_all,
                     Durability durability);

state::Durability ToStored(Durability durability);
/// None where it is none that there is.
std::optional<Durability> FromStored(state::Durability durability);

/// Of one that is stored: which registration it is of, and its hidden state.
std::optional<state::Function> StateOf(const EngineFunction& function);

/// What there is to say of a resource, without its value.
void ToMessage(const Resource& resource, uint64_t version, state::Resource* to);

/// Thread-safe.
class Snapshots {
 public:
  /// `life`: the engine's. Outlived by the engine's parts but not by its requests.
  Snapshots(EngineImpl& engine, std::unique_ptr<SnapshotStore> store, state::Life life);
  ~Snapshots();  ///< Leaves undone what waits.

  /// Makes the engine, which is new, what the last snapshot says; then they are taken from time to
  /// time. To be called once, before all else. Functions that cannot be registered any more are
  /// left out, and told of. Errors: those of the store, kFailedPrecondition if the snapshot has
  /// what this program does not know; kResourceExhausted if there is no room for it.
  absl::Status Restore();

  /// Has one taken after those that are under way; `done` runs on a thread of its own, or where the
  /// engine ends.
  void Request(absl::AnyInvocable<void(absl::StatusOr<SnapshotInfo>)> done);
  /// Counts a call or a write that has changed something, after it has (options().snapshot_calls).
  void CountChange(absl::string_view name_space);
  /// The last one, of an engine that has been drained; from then on nothing may be changed.
  /// Errors: kDeadlineExceeded where the resources are not there to be read by `deadline`.
  absl::Status TakeLast(absl::Time deadline);

  /// Stores what a function is made of. `bindings`: of its `captures`. Null where nothing of its
  /// namespace outlives the process.
  absl::StatusOr<std::shared_ptr<const StoredRegistration>> Store(
      const Registration& registration, absl::string_view graph_def,
      const std::vector<TensorSpec>& captures, const std::vector<Binding>& bindings);

  /// Stores which namespaces have a durability of their own.
  absl::Status StoreDurabilities();

  SnapshotStats stats() const;
  /// Of the values that the last one has, by resource.
  using Versions = std::map<uint64_t, uint64_t>;
  std::shared_ptr<const Versions> versions() const;

 private:
  using Done = absl::AnyInvocable<void(absl::StatusOr<SnapshotInfo>)>;
  // Of a resource, between two calls.
  struct Value {
    std::shared_ptr<Resource> resource;
    uint64_t version = 0;
    bool stored = false;  // By an earlier snapshot.
    Tensor value;         // Pinned, where it is not stored and there is one; on a device its work
                          // has run.
    /// Of a kind that changes in place (StoredForm::moves).
    std::optional<absl::StatusOr<std::vector<Tensor>>> parts;
  };

  // All that there is to start from: the last snapshot, and what the log has after it.
  struct Start;

  // From now on only the last one is taken; requests that wait are refused.
  void Stop();
  void Loop();
  // Takes one and tells of it.
  absl::StatusOr<SnapshotInfo> Take(absl::Time deadline, bool last);
  absl::StatusOr<SnapshotInfo> Write(absl::Time deadline, bool last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(taking_);
  // What requests were answered that the log does not have, for the next life.
  absl::Status StoreAnswers();
  // Those that it has not got again from the log any more go to `old`.
  absl::Status RestoreAnswers(const Start& start, std::vector<StoredKey>* old);
  // What is on disk of a namespace is not left there to be removed.
  void KeepStored(absl::string_view name_space);
  // Whether the epoch of such namespaces goes on from the life before.
  bool GoesOn(Durability durability) const { return goes_on_[static_cast<size_t>(durability)]; }
  // Waits until `ticket`, whose on_ready sets `granted_`, is ready; but for the last one, at most
  // until that is asked for.
  absl::Status Await(AccessTicket& ticket, absl::Time deadline, bool last);
  // Everything between two calls.
  absl::StatusOr<std::vector<Value>> Collect(absl::Time deadline, bool last,
                                             state::Snapshot* snapshot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(taking_);
  // Copies what is on a device, as far as there is room: the device's memory is scarce, and calls
  // that change what is held take more of it.
  absl::Status CopyAhead(std::vector<Value>& values);
  // Writes those that are not stored yet, and says so in `snapshot`.
  absl::Status Put(std::vector<Value> values, state::Snapshot* snapshot, SnapshotInfo* info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(taking_);
  // Whether others call, while values are written.
  struct OthersCalls {
    uint64_t begun;  // As the engine had counted when it was looked at last.
    absl::Time until = absl::InfinitePast();  // They are taken to go on until then.
  };
  // How fast values may be written now, in bytes a second; 0: as fast as can be.
  uint64_t Pace(OthersCalls* calls) const;
  // `snapshot` is the last one now: removes what it does not name, of registrations where they are
  // among the `unused`.
  void Clean(const state::Snapshot& snapshot, const std::vector<uint64_t>& unused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(taking_);
  absl::Status ReadStart(Start* start) ABSL_EXCLUSIVE_LOCKS_REQUIRED(taking_);
  absl::Status RestoreResource(const state::Resource& from, const StoredKey& at,
                               const std::vector<StoredKey>& rows);
  absl::Status RestoreRows(const StoredKey& key, Tensor* value);
  absl::Status RestoreFunction(const state::Function& from);
  // Makes a value whole (StoredForm::revival). Where that fails it stays as it is, and may be
  // stored again.
  void Revive(const state::Resource& from);
  absl::StatusOr<std::vector<Tensor>> PartsOf(const Resource& resource, const Tensor& value);
  // As StoredForm says; empty where it has none.
  absl::StatusOr<std::vector<Tensor>> ChangesOf(const Resource& resource, const Tensor& before,
                                                const Tensor& after);

  EngineImpl& engine_;
  const std::unique_ptr<SnapshotStore> store_;
  const std::shared_ptr<UnusedRegistrations> unused_ = std::make_shared<UnusedRegistrations>();
  std::atomic<uint64_t> next_registration_{1};
  std::atomic<int64_t> changes_{0};  // That were counted since the last one was begun.

  std::array<bool, 3> goes_on_{};  // By Durability.

  absl::Mutex taking_;  // Held by who takes one.
  state::Life life_ ABSL_GUARDED_BY(taking_);
  // All of the last one.
  std::string committed_ ABSL_GUARDED_BY(taking_);

  mutable absl::Mutex mutex_;
  std::vector<Done> requests_ ABSL_GUARDED_BY(mutex_);
  bool due_ ABSL_GUARDED_BY(mutex_) = false;  // One is, whether or not it is asked for.
  bool granted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // None but the last is to be taken any more.
  SnapshotStats stats_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Versions> versions_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const Versions>();
  std::thread thread_;
  std::unique_ptr<GroupCommit> commits_;
};

}  // namespace formwork
