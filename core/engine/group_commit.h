#pragma once

// GroupCommit: the log of an engine whose answered calls are on disk. Included by core/engine*.cc
// alone.
//
// What is appended while one group of changes is being written is the next group: one write to the
// disk for all that wait. Of a resource that has changed several times in a group its last value is
// written. Since a group is durable at once, what is there after a crash is the state after some
// append, and no answer that was given is of a later one. Of a table what has changed is written,
// where that is less.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/answer_window.h"
#include "core/base/hash_map.h"
#include "core/engine.h"
#include "core/resource/access_ticket.h"
#include "core/resource/commit_log.h"
#include "core/storage/snapshot_store.h"

namespace formwork {

/// What a request was answered, as the log has it (core/engine_answers.h).
struct LoggedAnswer {
  state::Answer message;
  std::vector<Tensor> parts;  ///< Shared: of outputs.
};

/// What a call's record has beside resources.
struct CallCommit final : CommitAttachment {
  std::optional<state::Function> function;  ///< Its hidden state, if it is still there.
  std::optional<LoggedAnswer> answer;
};

/// The log's entry of one, or of the client. `position`: of the answer.
LoggedValue ToLogged(LoggedAnswer answer, uint64_t position);
LoggedValue ToLogged(const AnsweredClient& client);
/// Of those that are not known.
AnsweredClient UnknownClient(absl::Time begins);

/// Thread-safe.
class GroupCommit final : public CommitLog, public AnswerLog {
 public:
  /// A resource's value as the store takes it. Errors: kUnimplemented for what cannot be stored.
  using PartsOf = absl::AnyInvocable<absl::StatusOr<std::vector<Tensor>>(
      const Resource& resource, const Tensor& value) const>;
  /// What makes one value of another, less than the second is; empty where there is no such thing.
  using ChangesOf = absl::AnyInvocable<absl::StatusOr<std::vector<Tensor>>(
      const Resource& resource, const Tensor& before, const Tensor& after)>;
  struct Options {
    SnapshotStore& store;  ///< Outlives this.
    PartsOf parts_of = {};
    ChangesOf changes_of = {};
    uint64_t most_bytes = 0;  ///< That a call may change; 0: no bound.
    /// So much has been logged since the last Truncate that a snapshot is due. On the log's thread.
    absl::AnyInvocable<void()> on_large = {};
  };
  /// `position`: where the log goes on from; `logged`: what it has; `functions`: that are there.
  GroupCommit(Options options, uint64_t position, const std::vector<StoredKey>& logged,
              HashSet<uint64_t> functions);
  ~GroupCommit() override;  ///< Who waits still is told kCancelled.

  /// A record's attachment is a CallCommit.
  uint64_t Append(CommitRecord record) override;

  /// While one is there nothing that has been appended is written: so all that is appended
  /// meanwhile by who has it becomes durable at once. He waits for nothing. A thread that has one
  /// may make another within it.
  class Unit {
   public:
    explicit Unit(GroupCommit* commits) ABSL_NO_THREAD_SAFETY_ANALYSIS
        : commits_(commits == held_ ? nullptr : commits),
          outer_(held_) {  ///< May be null.
      if (commits_ == nullptr) return;
      commits_->units_.ReaderLock();
      held_ = commits_;
    }
    ~Unit() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (commits_ == nullptr) return;
      held_ = outer_;
      commits_->units_.ReaderUnlock();
    }
    Unit(const Unit&) = delete;
    Unit& operator=(const Unit&) = delete;

   private:
    static inline thread_local GroupCommit* held_ = nullptr;  // By this thread.

    GroupCommit* const commits_;  // Null where there is nothing to do.
    GroupCommit* const outer_;
  };

  // What the window forgets goes with the next group.
  void DropAnswer(uint64_t position) override;
  void NoteClient(AnsweredClient client) override;
  void DropClient(uint64_t number) override;
  void NoteBegin(absl::Time begins) override;

  /// A function is there from now on, or is no longer.
  uint64_t AppendFunction(state::Function function);
  uint64_t AppendNoFunction(uint64_t id);
  /// From now on there is something whose loss a client must be able to notice. Once is enough.
  uint64_t AppendMore();

  /// Whether a call that is admitted to `access` may change it. Errors: kResourceExhausted if the
  /// disk is full, or if what it may change is more than a call may; what failed last, while that
  /// is not over.
  absl::Status Admit(absl::Span<const AccessRequest> access);
  /// The same of `bytes` that are new.
  absl::Status Admit(uint64_t bytes);

  uint64_t last() const { return last_.load(std::memory_order_acquire); }
  uint64_t durable() const { return durable_.load(std::memory_order_acquire); }
  /// Runs `done` once all up to `position` is durable, or where it cannot be made so now (then it
  /// is tried again, and may be in the end): on the log's thread, or here.
  void WhenDurable(uint64_t position, absl::AnyInvocable<void(const absl::Status&)> done);
  absl::Status AwaitDurable(uint64_t position);
  /// What has been changed in memory cannot be written any more: who waits, or comes, is told so at
  /// once, whatever the log's thread is doing.
  void Fail(const absl::Status& status);

  /// The value is what a resource is by what is stored: what is logged next may be its changes.
  /// Before anything is appended.
  void NoteStored(uint64_t id, Tensor value);
  /// Stores what nobody waits for, and what nothing is logged of meanwhile.
  absl::Status Store(absl::Span<const LoggedValue> values);
  /// A snapshot has all up to `position`: it is not needed any more.
  absl::Status Truncate(uint64_t position);

  CommitStats stats() const;

 private:
  struct Function {
    uint64_t position = 0;
    bool removed = false;
    state::Function state;
  };
  // What has not been written yet, of each its last state.
  struct Group {
    struct Commit {
      uint64_t position = 0;
      ResourceCommit state;
      /// Of a kind that changes in place (StoredForm::moves): its value as it was then.
      std::optional<absl::StatusOr<std::vector<Tensor>>> parts = {};
    };
    HashMap<uint64_t, Commit> resources;               // Whole.
    HashMap<uint64_t, std::vector<Commit>> rows = {};  // Behind that, or what is on disk.
    HashMap<uint64_t, Function> functions;
    std::map<uint64_t, LoggedAnswer> answers;  // By position.
    HashSet<uint64_t> dropped;                 // Positions of answers, these or earlier ones.
    HashMap<uint64_t, std::optional<AnsweredClient>> clients;  // By number; none: it is forgotten.
    uint64_t more = 0;                                         // Its position.
    uint64_t last = 0;                                         // Position; 0: it is empty.
    uint64_t records = 0;
  };
  using Waiters = std::multimap<uint64_t, absl::AnyInvocable<void(const absl::Status&)>>;

  absl::StatusOr<std::vector<Tensor>> PartsNow(const ResourceCommit& state) const;
  void Add(uint64_t position, CallCommit attached) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t NextPosition(Function function) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t NextPosition() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  absl::StatusOr<uint64_t> Write(const Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // An entry of what has changed of a resource since it was logged; none where it is to be logged
  // as a whole.
  absl::StatusOr<std::optional<LoggedValue>> ChangesOfLogged(uint64_t id,
                                                             const Group::Commit& commit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // Puts back what could not be written, behind what has come since.
  void PutBack(Group group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells those who wait for what is durable, or has just failed.
  void Tell(uint64_t position, const absl::Status& status);

  SnapshotStore& store_;
  PartsOf parts_of_;
  ChangesOf changes_of_;
  const uint64_t most_bytes_;
  absl::AnyInvocable<void()> on_large_;

  absl::Mutex writing_;  // Held by who writes to the log on disk.
  // What is there: of each resource and function the key of its last state.
  std::map<std::pair<StoredKey::Of, uint64_t>, StoredKey> logged_ ABSL_GUARDED_BY(writing_);
  std::map<uint64_t, std::vector<StoredKey>> logged_rows_ ABSL_GUARDED_BY(writing_);
  // Of resources whose changes can be logged: the value that is on disk, which shares what has not
  // changed since.
  HashMap<uint64_t, Tensor> logged_values_ ABSL_GUARDED_BY(writing_);
  std::atomic<uint64_t> log_bytes_{0};  // Since it was truncated.
  bool is_large_ ABSL_GUARDED_BY(writing_) = false;

  absl::Mutex units_;  // Held by each Unit, and by who takes a group away; before mutex_.
  mutable absl::Mutex mutex_;
  Group pending_ ABSL_GUARDED_BY(mutex_);
  HashSet<uint64_t> functions_ ABSL_GUARDED_BY(mutex_);  // That are there.
  HashSet<uint64_t> clients_ ABSL_GUARDED_BY(mutex_);  // Of which the log has, or will have, more.
  Waiters waiters_ ABSL_GUARDED_BY(mutex_);
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);  // How the last group fared.
  CommitStats stats_ ABSL_GUARDED_BY(mutex_);
  bool more_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> fails_{false};
  std::atomic<uint64_t> last_;
  std::atomic<uint64_t> durable_;
  std::thread thread_;
};

}  // namespace formwork
