#pragma once

// What the requests of clients were answered, so that one that is sent again is answered again and
// not done again.

#include <array>
#include <cstddef>
#include <cstdint>
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

 private:
  static constexpr size_t kMost = 16;
  struct Range {
    uint64_t first, last;
  };

  void Erase(size_t i);

  std::array<Range, kMost> ranges_;  // Ascending, with gaps between them.
  size_t count_ = 0;
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

  explicit AnswerWindow(const Options& options);

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
  /// The waiter of a request need not be told any more.
  void StopWaiting(absl::string_view name_space, const RequestId& id, const Waiter* waiter);
  /// Whether someone waits for its answer.
  bool HasWaiters(absl::string_view name_space, const RequestId& id);
  /// A request that was begun has ended, and waiters are told. `had_effect`: it is to be
  /// remembered, and `answer` is null where there was no memory for it. Else `answer` is for those
  /// who wait now; null: one of them is to do it. Does not throw.
  void End(absl::string_view name_space, const RequestId& id, std::shared_ptr<const Answer> answer,
           bool had_effect);

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
    std::vector<std::shared_ptr<Waiter>> waiters;  // Of one that runs.
  };
  using Entries = std::list<Entry>;
  struct Client {
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
  Entries running_ ABSL_GUARDED_BY(mutex_);
  Entries answered_ ABSL_GUARDED_BY(mutex_);            // In the order in which they were.
  absl::Time forgotten_until_ ABSL_GUARDED_BY(mutex_);  // No forgotten client was seen later.
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
