#include "core/base/fair_queue.h"

#include <utility>

#include "absl/cleanup/cleanup.h"

namespace formwork {

void FairQueue::Leave(Key& key) {
  if (!key.waiting.empty()) key.rank = order_.extract(RankOf(key));
}

void FairQueue::Enter(Key& key) {
  if (!key.waiting.empty()) {
    key.rank.value() = RankOf(key);
    order_.insert(std::move(key.rank));
  } else if (key.running == 0) {
    keys_.erase(keys_.find(key.name));
  }
}

FairQueue::Key& FairQueue::KeyOf(absl::string_view name) {
  auto [found, inserted] = keys_.try_emplace(std::string(name));
  Key& key = found->second;
  if (!inserted) return key;
  absl::Cleanup undo = [this, at = found] { keys_.erase(at); };
  key.rank = order_.extract(order_.insert({0, 0, &key}).first);
  key.name = found->first;
  key.turn = ++turns_;
  std::move(undo).Cancel();
  return key;
}

uint64_t FairQueue::Add(absl::string_view name, Work&& work) {
  Key& key = KeyOf(name);
  absl::Cleanup forget = [&] {
    if (key.waiting.empty()) Enter(key);
  };
  const uint64_t place = ++places_;
  key.waiting.emplace_hint(key.waiting.end(), place, std::move(work));
  if (key.waiting.size() == 1) Enter(key);
  return place;
}

FairQueue::Work FairQueue::Remove(absl::string_view name, uint64_t place) {
  auto found = keys_.find(name);
  if (found == keys_.end()) return nullptr;
  Key& key = found->second;
  auto node = key.waiting.find(place);
  if (node == key.waiting.end()) return nullptr;
  Work work = std::move(node->second);
  Leave(key);
  key.waiting.erase(node);
  Enter(key);
  return work;
}

bool FairQueue::HasNext(bool idle_keys) const {
  return !order_.empty() && (!idle_keys || std::get<0>(*order_.begin()) == 0);
}

FairQueue::Next FairQueue::Take() {
  Key& key = *std::get<2>(*order_.begin());
  Leave(key);
  Next next{key.name, std::move(key.waiting.begin()->second)};
  key.waiting.erase(key.waiting.begin());
  ++key.running;
  key.turn = ++turns_;
  Enter(key);
  return next;
}

void FairQueue::Done(absl::string_view name) {
  Key& key = keys_.find(name)->second;
  Leave(key);
  --key.running;
  Enter(key);
}

}  // namespace formwork
