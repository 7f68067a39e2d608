#pragma once

// Answers on their way from the threads that handle requests to the one that has the connections.

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "server/http_message.h"
#include "server/unique_fd.h"

namespace formwork::server {

/// Outlives the server where there are replies that do. Thread-safe.
class HttpOutbox : public std::enable_shared_from_this<HttpOutbox> {
 public:
  struct Sent {
    uint64_t id;
    HttpAnswer answer;
  };
  using Answers = std::list<Sent>;

  HttpOutbox();

  /// An eventfd that can be read where there are answers. They who are sent on the thread that
  /// takes them do not wake it.
  int wake_fd() const { return wake_.get(); }
  void Wake();
  void SetTaker(std::thread::id taker);

  /// For one answer, as HttpServer::Reply says; sending it takes no memory.
  absl::AnyInvocable<void(HttpAnswer)> ReplyTo(uint64_t id);

  bool HasSome();
  Answers TakeAll();
  std::optional<HttpAnswer> Take(uint64_t id);
  /// Drops what is there and what comes.
  void Close();
  bool closed();

 private:
  class Ticket;
  void Put(Answers&& one);

  const UniqueFd wake_;
  absl::Mutex mutex_;
  Answers answers_ ABSL_GUARDED_BY(mutex_);
  std::thread::id taker_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace formwork::server
