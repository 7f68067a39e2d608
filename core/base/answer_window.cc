#include "core/base/answer_window.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/name.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kMostClientBytes = 128;
// Some hundred bytes each, beside the answers' own.
constexpr size_t kMostClients = size_t{1} << 14;
constexpr size_t kMostAnswers = size_t{1} << 16;

class LostAnswer final : public AnswerWindow::Answer {
 public:
  size_t bytes() const override { return 0; }
};

}  // namespace

AnswerWindow::AnswerWindow(const Options& options)
    : options_(options),
      lost_(std::make_shared<const LostAnswer>()),
      forgotten_until_(options.begins) {}

void SequenceRanges::Erase(size_t i) {
  std::copy(ranges_.begin() + i + 1, ranges_.begin() + count_, ranges_.begin() + i);
  --count_;
}

void SequenceRanges::Add(uint64_t sequence) {
  size_t i = 0;
  while (i < count_ && ranges_[i].last + 1 < sequence) ++i;
  if (i < count_ && ranges_[i].first <= sequence + 1) {
    ranges_[i].first = std::min(ranges_[i].first, sequence);
    ranges_[i].last = std::max(ranges_[i].last, sequence);
    if (i + 1 == count_ || ranges_[i + 1].first > ranges_[i].last + 1) return;
    ranges_[i].last = ranges_[i + 1].last;
    return Erase(i + 1);
  }
  if (count_ == kMost) {
    ranges_[1].first = std::min(ranges_[0].first, sequence);
    Erase(0);
    if (i <= 1) return;  // It was before, or between, the lowest two.
    --i;
  }
  std::copy_backward(ranges_.begin() + i, ranges_.begin() + count_, ranges_.begin() + count_ + 1);
  ranges_[i] = {sequence, sequence};
  ++count_;
}

void SequenceRanges::Add(const Range& range) {
  Add(range.first);
  // Its other numbers are behind its first, and before the next range's.
  for (size_t i = 0; i < count_; ++i) {
    if (range.first < ranges_[i].first || range.first > ranges_[i].last) continue;
    ranges_[i].last = std::max(ranges_[i].last, range.last);
    return;
  }
}

bool SequenceRanges::Contains(uint64_t sequence) const {
  for (size_t i = 0; i < count_; ++i) {
    if (sequence <= ranges_[i].last) return sequence >= ranges_[i].first;
  }
  return false;
}

void SequenceRanges::DropUpTo(uint64_t last) {
  while (count_ > 0 && ranges_[0].last <= last) Erase(0);
}

absl::Status AnswerWindow::Forgotten(const RequestId& id) {
  ++stats_.forgotten;
  return InField(
      WithReason(FailedPrecondition("request ", id.sequence,
                                    " has been sent before, and its answer is not remembered any "
                                    "more: it may have been done"),
                 Reason::kAnswerForgotten, {{"sequence", id.sequence}}),
      "sequence");
}

AnswerWindow::Client* AnswerWindow::Find(absl::string_view name_space, absl::string_view client) {
  const auto found = by_name_.find({name_space, client});
  return found == by_name_.end() ? nullptr : &*found->second;
}

absl::StatusOr<AnswerWindow::Client*> AnswerWindow::FindOrMake(absl::string_view name_space,
                                                               const RequestId& id, absl::Time now,
                                                               absl::Time sent, Entries& dropped) {
  const auto found = by_name_.find({name_space, id.client});
  if (found != by_name_.end()) {
    found->second->last_seen = now;
    clients_.splice(clients_.end(), clients_, found->second);
    return &*found->second;
  }
  if (sent <= forgotten_until_) return Forgotten(id);
  FORMWORK_RETURN_IF_ERROR(InField(CheckName("namespace", name_space), "namespace"));
  if (id.client.size() > kMostClientBytes) {
    return InField(InvalidArgument("client_id is too long: bytes=", id.client.size(),
                                   " limit=", kMostClientBytes),
                   "client_id");
  }
  ForgetIdle(now, dropped);
  return &Add(name_space, id.client, now);
}

AnswerWindow::Client& AnswerWindow::Add(absl::string_view name_space, absl::string_view client_id,
                                        absl::Time now) {
  Clients made(1);
  Client& client = made.front();
  client.number = ++last_number_;
  client.name_space = std::string(name_space);
  client.id = std::string(client_id);
  client.last_seen = now;
  client.begins = forgotten_until_;
  by_name_.emplace(std::pair<absl::string_view, absl::string_view>(client.name_space, client.id),
                   made.begin());
  clients_.splice(clients_.end(), made);
  return client;
}

AnsweredClient AnswerWindow::Known(const Client& client) {
  return {client.number,       client.name_space,    client.id,
          client.acknowledged, client.gone.ranges(), client.begins};
}

void AnswerWindow::Note(const Client& client) {
  if (log_ == nullptr) return;
  const HeapScope unlimited(nullptr);
  log_->NoteClient(Known(client));
}

void AnswerWindow::Restore(absl::Time begins) {
  absl::MutexLock lock(&mutex_);
  forgotten_until_ = begins;
}

void AnswerWindow::Restore(const AnsweredClient& known) {
  absl::MutexLock lock(&mutex_);
  if (Find(known.name_space, known.id) != nullptr) return;
  last_number_ = std::max(last_number_, known.number);
  Client& client = Add(known.name_space, known.id, absl::Now());
  client.number = known.number;
  client.acknowledged = known.acknowledged;
  client.begins = known.begins;
  for (const SequenceRanges::Range& range : known.gone) client.gone.Add(range);
}

void AnswerWindow::Restore(absl::string_view name_space, absl::string_view client_id,
                           uint64_t sequence, uint64_t content,
                           std::shared_ptr<const Answer> answer, uint64_t position) {
  Entries dropped;
  absl::MutexLock lock(&mutex_);
  Client* client = Find(name_space, client_id);
  if (client == nullptr) client = &Add(name_space, client_id, absl::Now());
  if (client->entries.count(sequence) > 0) return;
  if (answer == nullptr) answer = lost_;
  const Entries::iterator entry = answered_.emplace(answered_.end(), client, sequence, content);
  client->entries.emplace(sequence, entry);
  entry->runs = false;
  entry->bytes = answer->bytes();
  entry->answer = std::move(answer);
  entry->position = position;
  client->bytes += entry->bytes;
  stats_.bytes += entry->bytes;
  ++client->answers;
  ++stats_.answers;
  MakeRoom(*client, dropped);
}

void AnswerWindow::set_log(AnswerLog* log) {
  absl::MutexLock lock(&mutex_);
  log_ = log;
  if (log != nullptr) log->NoteBegin(forgotten_until_);
}

absl::Time AnswerWindow::Visit(const std::function<void(const AnsweredClient&)>& visit_client,
                               const std::function<void(const Remembered&)>& visit_answer) {
  absl::MutexLock lock(&mutex_);
  for (const Client& client : clients_) visit_client(Known(client));
  for (const Entry& entry : answered_) {
    visit_answer({Known(*entry.client), entry.sequence, entry.content, *entry.answer});
  }
  return forgotten_until_;
}

void AnswerWindow::ForgetIdle(absl::Time now, Entries& dropped) {
  for (int looks = 0; looks < 4 && !clients_.empty(); ++looks) {
    Client& oldest = clients_.front();
    if (now - oldest.last_seen < options_.ttl && clients_.size() < kMostClients) return;
    if (oldest.entries.size() > static_cast<size_t>(oldest.answers)) {  // Some run.
      clients_.splice(clients_.end(), clients_, clients_.begin());
      continue;
    }
    while (!oldest.entries.empty()) {
      ++stats_.evictions;
      Drop(oldest.entries.begin()->second, dropped);
    }
    forgotten_until_ = std::max(forgotten_until_, oldest.last_seen);
    if (log_ != nullptr) {
      const HeapScope unlimited(nullptr);
      log_->DropClient(oldest.number);
      log_->NoteBegin(forgotten_until_);
    }
    by_name_.erase({oldest.name_space, oldest.id});
    clients_.pop_front();
  }
}

void AnswerWindow::Drop(Entries::iterator entry, Entries& dropped) {
  Client& client = *entry->client;
  if (log_ != nullptr && entry->position != 0) {
    const HeapScope unlimited(nullptr);
    log_->DropAnswer(entry->position);
  }
  client.bytes -= entry->bytes;
  stats_.bytes -= entry->bytes;
  --client.answers;
  --stats_.answers;
  client.entries.erase(entry->sequence);
  dropped.splice(dropped.end(), answered_, entry);
}

void AnswerWindow::Evict(Entries::iterator entry, Entries& dropped) {
  ++stats_.evictions;
  Client& client = *entry->client;
  client.gone.Add(entry->sequence);
  if (entry->position != 0) Note(client);
  Drop(entry, dropped);
}

void AnswerWindow::MakeRoom(Client& client, Entries& dropped) {
  const auto too_much = [&] {
    return client.answers > options_.max_answers || client.bytes > options_.max_bytes / 4;
  };
  for (auto next = client.entries.begin(); next != client.entries.end() && too_much();) {
    const Entries::iterator entry = (next++)->second;
    if (!entry->runs) Evict(entry, dropped);
  }
  while (stats_.bytes > options_.max_bytes || answered_.size() > kMostAnswers) {
    Evict(answered_.begin(), dropped);
  }
}

void AnswerWindow::Acknowledge(Client& client, uint64_t sequence, Entries& dropped) {
  if (sequence <= client.acknowledged) return;
  client.acknowledged = sequence;
  client.gone.DropUpTo(sequence);
  bool noted = false;
  for (auto next = client.entries.begin();
       next != client.entries.end() && next->first <= sequence;) {
    const Entries::iterator entry = (next++)->second;
    if (entry->runs) continue;
    if (entry->position != 0 && !std::exchange(noted, true)) Note(client);
    Drop(entry, dropped);
  }
}

absl::StatusOr<AnswerWindow::Begun> AnswerWindow::Begin(absl::string_view name_space,
                                                        const RequestId& id, uint64_t content,
                                                        std::shared_ptr<Waiter> waiter) {
  const absl::Time now = absl::Now();
  Entries dropped;  // Destroyed without the lock.
  absl::MutexLock lock(&mutex_);
  if (options_.max_answers == 0) {
    if (id.is_repeat()) return Forgotten(id);
    return Begun();
  }
  const absl::Time sent = id.is_repeat() ? now - id.age - kMostTravel : absl::InfiniteFuture();
  FORMWORK_ASSIGN_OR_RETURN(Client* const client, FindOrMake(name_space, id, now, sent, dropped));
  Acknowledge(*client, std::min(id.acknowledged, id.sequence - 1), dropped);
  const auto found = client->entries.find(id.sequence);
  if (found != client->entries.end()) {
    Entry& entry = *found->second;
    if (entry.content != content) {
      return InField(InvalidArgument("request ", id.sequence,
                                     " of this client was another one: a sequence number is of one "
                                     "request"),
                     "sequence");
    }
    if (!entry.runs) {
      ++stats_.repeats;
      return Begun{Place::kAnswered, entry.answer};
    }
    if (waiter != nullptr) {
      entry.waiters.push_back(std::move(waiter));
      ++stats_.repeats;
    }
    return Begun{Place::kRuns, nullptr};
  }
  if (id.sequence <= client->acknowledged || client->gone.Contains(id.sequence) ||
      sent <= client->begins) {
    return Forgotten(id);
  }
  Entries made;
  made.push_back(Entry(client, id.sequence, content));
  client->entries.emplace(id.sequence, made.begin());
  running_.splice(running_.end(), made);
  return Begun();
}

bool AnswerWindow::Remembers(absl::string_view name_space, const RequestId& id) {
  absl::MutexLock lock(&mutex_);
  const Client* const client = Find(name_space, id.client);
  return client != nullptr && client->entries.contains(id.sequence);
}

AnswerWindow::Entry* AnswerWindow::FindRunning(absl::string_view name_space, const RequestId& id) {
  Client* const client = Find(name_space, id.client);
  if (client == nullptr) return nullptr;
  const auto found = client->entries.find(id.sequence);
  return found == client->entries.end() || !found->second->runs ? nullptr : &*found->second;
}

void AnswerWindow::StopWaiting(absl::string_view name_space, const RequestId& id,
                               const Waiter* waiter) {
  std::shared_ptr<Waiter> held;  // Goes without the lock.
  absl::MutexLock lock(&mutex_);
  Entry* const entry = FindRunning(name_space, id);
  if (entry == nullptr) return;
  const auto found = std::find_if(entry->waiters.begin(), entry->waiters.end(),
                                  [waiter](const auto& one) { return one.get() == waiter; });
  if (found == entry->waiters.end()) return;
  held = std::move(*found);
  entry->waiters.erase(found);
}

bool AnswerWindow::IsBusy(absl::string_view name_space, absl::string_view client) {
  absl::MutexLock lock(&mutex_);
  const Client* const known = Find(name_space, client);
  return known != nullptr && std::any_of(known->entries.begin(), known->entries.end(),
                                         [](const auto& entry) { return entry.second->runs; });
}

bool AnswerWindow::IsAwaited(absl::string_view name_space, const RequestId& id,
                             const Waiter* doer) {
  absl::MutexLock lock(&mutex_);
  const Entry* const entry = FindRunning(name_space, id);
  return entry != nullptr && !entry->waiters.empty() &&
         std::none_of(entry->waiters.begin(), entry->waiters.end(),
                      [doer](const auto& waiter) { return waiter.get() == doer; });
}

void AnswerWindow::End(absl::string_view name_space, const RequestId& id,
                       std::shared_ptr<const Answer> answer, bool had_effect, uint64_t position) {
  const HeapScope unlimited(nullptr);
  Entries dropped;
  std::vector<std::shared_ptr<Waiter>> told;
  std::shared_ptr<Waiter> next;  // Whose it is to be done now.
  {
    absl::MutexLock lock(&mutex_);
    if (options_.max_answers == 0) return;
    Entry* const entry = FindRunning(name_space, id);
    Client& client = *entry->client;
    const Entries::iterator place = client.entries.find(id.sequence)->second;
    if (!had_effect && answer == nullptr && !entry->waiters.empty()) {
      next = std::move(entry->waiters.front());
      entry->waiters.erase(entry->waiters.begin());
    } else {
      told = std::move(entry->waiters);
      if (had_effect && answer != nullptr && id.sequence > client.acknowledged) {
        entry->runs = false;
        entry->bytes = answer->bytes();
        entry->answer = answer;
        entry->position = position;
        client.bytes += entry->bytes;
        stats_.bytes += entry->bytes;
        ++client.answers;
        ++stats_.answers;
        answered_.splice(answered_.end(), running_, place);
        MakeRoom(client, dropped);
      } else {
        if (had_effect) client.gone.Add(id.sequence);
        if (position != 0 && log_ != nullptr) {
          Note(client);
          log_->DropAnswer(position);
        }
        client.entries.erase(id.sequence);
        dropped.splice(dropped.end(), running_, place);
      }
    }
    if (answer == nullptr) answer = lost_;
  }
  if (next != nullptr) next->OnAnswer(nullptr);
  for (const auto& waiter : told) waiter->OnAnswer(answer);
}

AnswerWindow::Stats AnswerWindow::stats() {
  Entries dropped;
  absl::MutexLock lock(&mutex_);
  ForgetIdle(absl::Now(), dropped);
  stats_.clients = static_cast<int64_t>(clients_.size());
  return stats_;
}

}  // namespace formwork
