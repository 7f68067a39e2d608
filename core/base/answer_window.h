#pragma once

// What the requests of clients were answered, so that one that is sent again is answered again and
// not done again.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/hash_map.h"
#include "core/base/request_id.h"

namespace formwork {

/// A set of sequence numbers in a fixed room: at most so many ranges. Where there would be more,
/// the lowest two become one, with what is between them. Not thread-safe.
class SequenceRanges {
 public:
  void Add(uint64_t sequence);
  bool Contains(uint64_t sequence) const;
  /// Those up to `last` need not be known any more.
  void DropUpTo(uint64_t last);
  struct Range {
    uint64_t first, last;
  };
  std::vector<Range> ranges() const { return {ranges_.begin(), ranges_.begin() + count_}; }
  /// Adds what was another's range.
  void Add(const Range& range);

 private:
  static constexpr size_t kMost = 16;

  void Erase(size_t i);

  std::array<Range, kMost> ranges_;  // Ascending, with gaps between them.
  size_t count_ = 0;
};

/// What is known of a client beside its answers.
struct AnsweredClient {
  uint64_t number = 0;  ///< No other client of the window has it; from 1 on.
  std::string name_space, id;
  uint64_t acknowledged = 0;
  std::vector<SequenceRanges::Range> gone;  ///< That were answered, and whose answers had to go.
  absl::Time begins;  ///< What it first sent before may have been done, and is refused.
};

/// Where the answers of a window outlive the process. Told under the window's lock, so that it is
/// in order, and does not call the window. What it is told last of all may be lost: then more is
/// known after the process than had to be.
class AnswerLog {
 public:
  virtual ~AnswerLog() = default;
  /// The answer that was logged at `position` is not in the window any more.
  virtual void DropAnswer(uint64_t position) = 0;
  virtual void NoteClient(AnsweredClient client) = 0;
  virtual void DropClient(uint64_t number) = 0;
  /// A client of which nothing is known is refused what it first sent before.
  virtual void NoteBegin(absl::Time begins) = 0;
};

/// Of each client a window of its sequence numbers: those that run, and those that have had an
/// effect with their answers. An answer leaves the window when the client acknowledges it, or for
/// another where there is no room, the oldest first; what was in it is then known not to be there
/// any more, and refused when it comes again. A client of which nothing comes is forgotten after a
/// while; its requests that come again are refused then because they say how old they are.
///
/// What ends without an effect leaves no trace here: when it comes again it is done. Thread-safe;
/// nothing waits, and answers are destroyed outside of the lock.
class AnswerWindow {
 public:
  struct Options {
    int64_t max_answers = 1024;              ///< Of one client; 0: nothing is remembered.
    size_t max_bytes = size_t{64} << 20;     ///< Of all answers; those of one client: a quarter.
    absl::Duration ttl = absl::Minutes(10);  ///< After which a client is forgotten.
    /// Requests that were first sent before may have been done by another process.
    absl::Time begins = absl::InfinitePast();
  };

  /// An answer as it is remembered.
  class Answer {
   public:
    virtual ~Answer() = default;
    virtual size_t bytes() const = 0;
  };

  /// Who waits for the answer to a request that runs.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    /// Once, on the thread that ends what it waits for: the answer, which may be none that is known
    /// where there was no memory for it; or null: there was none and no effect, and the request is
    /// now this one's to do, and to End. Does not throw.
    virtual void OnAnswer(std::shared_ptr<const Answer> answer) = 0;
  };

  struct Stats {
    int64_t answers = 0;  ///< That are remembered.
    uint64_t bytes = 0;   ///< Of them.
    int64_t clients = 0;
    uint64_t repeats = 0;    ///< Requests that came again and were not done again.
    uint64_t evictions = 0;  ///< Answers that went before their clients had acknowledged them.
    uint64_t forgotten = 0;  ///< Requests that came again, too late.
  };

  /// How much older a request may be than it says (RequestId::age): it was on its way since.
  static constexpr absl::Duration kMostTravel = absl::Seconds(2);

  explicit AnswerWindow(const Options& options);

  /// What an earlier process knew, all before the first Begin: since when it did, its clients, and
  /// their answers in the order of their `position`s in its log.
  void Restore(absl::Time begins);
  void Restore(const AnsweredClient& client);
  /// `answer` is null where there was no room for it.
  void Restore(absl::string_view name_space, absl::string_view client, uint64_t sequence,
               uint64_t content, std::shared_ptr<const Answer> answer, uint64_t position);
  /// From now on all that it forgets is told. Outlives the window's use.
  void set_log(AnswerLog* log);
  /// An answer as it is told to Visit.
  struct Remembered {
    const AnsweredClient& client;
    uint64_t sequence;
    uint64_t content;
    const Answer& answer;
  };
  /// All that there is, in the order in which it was answered. When nothing runs. Since when it
  /// knows what was done.
  absl::Time Visit(const std::function<void(const AnsweredClient&)>& visit_client,
                   const std::function<void(const Remembered&)>& visit_answer);
  /// Whether an answer of so many bytes can be remembered at all.
  bool HasRoomFor(size_t bytes) const {
    return options_.max_answers > 0 && bytes <= options_.max_bytes / 4;
  }

  enum class Place : uint8_t {
    kFirst,     ///< It is to be done, and then to End.
    kRuns,      ///< It is being done; the waiter will hear of it.
    kAnswered,  ///< It has been done.
  };
  struct Begun {
    Place place = Place::kFirst;
    std::shared_ptr<const Answer> answer;  ///< With kAnswered.
  };
  /// Before a request is done that is `given`. `content`: a hash of what it asks for. `waiter`: may
  /// be null; then kRuns alone is said. May throw for want of memory, and has done nothing then.
  /// Errors: kFailedPrecondition (Reason::kAnswerForgotten) if it may have been done and its answer
  /// is not remembered; kInvalidArgument if the number was another request's, or the client's name
  /// is too long.
  absl::StatusOr<Begun> Begin(absl::string_view name_space, const RequestId& id, uint64_t content,
                              std::shared_ptr<Waiter> waiter = nullptr);
  /// Whether a request is being done, or has been and its answer is there.
  bool Remembers(absl::string_view name_space, const RequestId& id);
  /// The waiter of a request need not be told any more.
  void StopWaiting(absl::string_view name_space, const RequestId& id, const Waiter* waiter);
  /// Whether a request of the client runs.
  bool IsBusy(absl::string_view name_space, absl::string_view client);
  /// Whether a request runs and others wait for its answer; false where `doer` is itself one of
  /// those.
  bool IsAwaited(absl::string_view name_space, const RequestId& id, const Waiter* doer);
  /// A request that was begun has ended, and waiters are told. `had_effect`: it is to be
  /// remembered, and `answer` is null where there was no memory for it. Else `answer` is for those
  /// who wait now; null: one of them is to do it. `position`: where it is in the log; 0: it is not.
  /// Does not throw.
  void End(absl::string_view name_space, const RequestId& id, std::shared_ptr<const Answer> answer,
           bool had_effect, uint64_t position = 0);

  Stats stats();

 private:
  struct Client;
  struct Entry {
    Entry(Client* client, uint64_t sequence, uint64_t content)
        : client(client), sequence(sequence), content(content) {}
    Client* client;
    uint64_t sequence;
    uint64_t content;
    bool runs = true;
    std::shared_ptr<const Answer> answer;
    size_t bytes = 0;
    uint64_t position = 0;                         // In the log.
    std::vector<std::shared_ptr<Waiter>> waiters;  // Of one that runs.
  };
  using Entries = std::list<Entry>;
  struct Client {
    uint64_t number = 0;
    std::string name_space, id;
    std::map<uint64_t, Entries::iterator> entries;
    uint64_t acknowledged = 0;
    SequenceRanges gone;  // That were answered, and whose answers had to go.
    int64_t answers = 0;
    size_t bytes = 0;
    absl::Time last_seen;
    // What was first sent before may have been done when the client was another of these.
    absl::Time begins;
  };
  using Clients = std::list<Client>;

  Client* Find(absl::string_view name_space, absl::string_view client)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Client& Add(absl::string_view name_space, absl::string_view client, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static AnsweredClient Known(const Client& client);
  // Tells the log of it.
  void Note(const Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a request that was first sent at `sent`.
  absl::StatusOr<Client*> FindOrMake(absl::string_view name_space, const RequestId& id,
                                     absl::Time now, absl::Time sent, Entries& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null where it is not there, or does not run.
  Entry* FindRunning(absl::string_view name_space, const RequestId& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Acknowledge(Client& client, uint64_t sequence, Entries& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes an entry that has an answer out of the window.
  void Drop(Entries::iterator entry, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(Entries::iterator entry, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom(Client& client, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets clients of which nothing has come for long, a few at a time.
  void ForgetIdle(absl::Time now, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Forgotten(const RequestId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::shared_ptr<const Answer> lost_;  // In place of one that there was no memory for.
  absl::Mutex mutex_;
  Clients clients_ ABSL_GUARDED_BY(mutex_);  // The one that was seen last is the last.
  // By namespace and name, which are the Client's.
  HashMap<std::pair<absl::string_view, absl::string_view>, Clients::iterator> by_name_
      ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;  // Of clients.
  AnswerLog* log_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Entries running_ ABSL_GUARDED_BY(mutex_);
  Entries answered_ ABSL_GUARDED_BY(mutex_);            // In the order in which they were.
  absl::Time forgotten_until_ ABSL_GUARDED_BY(mutex_);  // No forgotten client was seen later.
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
