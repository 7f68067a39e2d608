#include "server/http_outbox.h"

#include <sys/eventfd.h>

#include <utility>

namespace formwork::server {

// The place of one answer. What it holds first is what is sent where nobody fills it.
class HttpOutbox::Ticket {
 public:
  Ticket(std::shared_ptr<HttpOutbox> outbox, uint64_t id) : outbox_(std::move(outbox)) {
    place_.push_back({id, {.code = 503, .body = "out of memory\n"}});
  }
  ~Ticket() {
    if (!place_.empty()) outbox_->Put(std::move(place_));
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  void Fill(HttpAnswer&& answer) {
    if (place_.empty()) return;
    place_.front().answer = std::move(answer);
    outbox_->Put(std::move(place_));
  }

 private:
  const std::shared_ptr<HttpOutbox> outbox_;
  Answers place_;
};

HttpOutbox::HttpOutbox() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void HttpOutbox::Wake() { eventfd_write(wake_.get(), 1); }

void HttpOutbox::SetTaker(std::thread::id taker) {
  absl::MutexLock lock(&mutex_);
  taker_ = taker;
}

absl::AnyInvocable<void(HttpAnswer)> HttpOutbox::ReplyTo(uint64_t id) {
  return [ticket = std::make_unique<Ticket>(shared_from_this(), id)](HttpAnswer answer) {
    ticket->Fill(std::move(answer));
  };
}

void HttpOutbox::Put(Answers&& one) {
  Answers dropped;  // Goes without the lock.
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return dropped.swap(one);
    answers_.splice(answers_.end(), one);
    if (answers_.size() > 1 || taker_ == std::this_thread::get_id()) return;
  }
  Wake();  // Now, for who wakes wants the lock.
}

bool HttpOutbox::HasSome() {
  absl::MutexLock lock(&mutex_);
  return !answers_.empty();
}

HttpOutbox::Answers HttpOutbox::TakeAll() {
  eventfd_t ignored;
  eventfd_read(wake_.get(), &ignored);
  Answers all;
  absl::MutexLock lock(&mutex_);
  all.swap(answers_);
  return all;
}

std::optional<HttpAnswer> HttpOutbox::Take(uint64_t id) {
  Answers taken;  // Goes without the lock.
  absl::MutexLock lock(&mutex_);
  for (auto it = answers_.begin(); it != answers_.end(); ++it) {
    if (it->id != id) continue;
    taken.splice(taken.end(), answers_, it);
    return std::move(taken.front().answer);
  }
  return std::nullopt;
}

void HttpOutbox::Close() {
  Answers dropped;
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  dropped.swap(answers_);
}

bool HttpOutbox::closed() {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

}  // namespace formwork::server
