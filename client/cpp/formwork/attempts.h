#pragma once

// Requests that are sent again: who sends them, when, and what they say then. For the library
// itself.
//
// A client numbers its requests that change something, and the server does each of them once: one
// that is sent again, because its answer was lost, gets the answer that it had.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::client {

/// Who sends requests, and how many that change something. Thread-safe.
class Origin {
 public:
  Origin();

  struct Number {
    uint64_t sequence = 0;
    uint64_t acknowledged = 0;  ///< The last one that is done with, as all before it are.
  };
  Number Begin();
  /// The request will not be sent again.
  void End(Number number);
  const std::string& client_id() const { return client_id_; }
  /// The server's, as its last answer had it; 0: not known.
  uint64_t epoch() const { return epoch_.load(); }
  /// Of an answer, or of an error, whose it may not be.
  void NoteEpoch(uint64_t epoch) {
    if (epoch != 0) epoch_.store(epoch);
  }
  void NoteEpoch(const absl::Status& status);

 private:
  const std::string client_id_;
  std::atomic<uint64_t> epoch_{0};
  absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> open_ ABSL_GUARDED_BY(mutex_);  // That may be sent again, ascending.
};

/// The number of one request, which ends with this.
class NumberedRequest {
 public:
  explicit NumberedRequest(Origin& origin) : origin_(origin), number_(origin.Begin()) {}
  ~NumberedRequest() { origin_.End(number_); }
  NumberedRequest(const NumberedRequest&) = delete;
  NumberedRequest& operator=(const NumberedRequest&) = delete;

  const std::string& client_id() const { return origin_.client_id(); }
  uint64_t sequence() const { return number_.sequence; }
  uint64_t acknowledged() const { return number_.acknowledged; }
  /// Writes it into a message of protobuf's.
  template <typename Message>
  void WriteTo(Message& message) const {
    message.set_client_id(client_id());
    message.set_sequence(sequence());
    message.set_acknowledged(acknowledged());
  }

 private:
  Origin& origin_;
  const Origin::Number number_;
};

/// Rounded up, for first_sent_ms_ago.
uint64_t MillisecondsSince(absl::Time sent);

/// The attempts at one request. Not thread-safe.
class Attempts {
 public:
  /// `epoch`: the server's as it is known; 0: not. `timeout`: of all of them; `retry_for`: after
  /// which no other begins. `numbered`: whether it must not be done twice; else it does no harm.
  Attempts(uint64_t epoch, absl::Duration retry_for, absl::Duration timeout, bool numbered);

  absl::Time deadline() const { return deadline_; }
  /// Whether the server may have got one of them.
  bool lost() const { return lost_.has_value(); }
  /// How long to wait before the next attempt; none where there is to be none, and then `status` is
  /// what the request ends with.
  std::optional<absl::Duration> Failed(absl::Status& status);
  /// What the next attempt says besides, serialized; empty where nothing.
  std::string Mark() const;
  /// The same of a message of protobuf's.
  template <typename Message>
  void Mark(Message& message) const {
    if (!lost_) return;
    message.set_expected_epoch(epoch_);
    message.set_first_sent_ms_ago(MillisecondsSince(*lost_));
  }

 private:
  const uint64_t epoch_;
  const absl::Time deadline_;
  const absl::Time last_begin_;
  const bool numbered_;
  absl::Time began_;  // The last one.
  absl::Duration pause_;
  // Of the first attempt that the server may have got: when, and how it failed.
  std::optional<absl::Time> lost_;
  absl::Status lost_status_;
};

/// What a request says that is sent again, serialized: `epoch` and `sent` are of when it was first.
std::string RepeatFields(uint64_t epoch, absl::Time sent);

/// `message` with `fields` behind it.
grpc::ByteBuffer Appended(const grpc::ByteBuffer& message, const std::string& fields);

}  // namespace formwork::client
