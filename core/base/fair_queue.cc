#include "core/base/fair_queue.h"

#include <utility>

namespace formwork {

void FairQueue::Leave(Keys::value_type& key) {
  if (!key.second.waiting.empty()) order_.erase(RankOf(key));
}

void FairQueue::Enter(Keys::value_type& key) {
  if (!key.second.waiting.empty()) {
    order_.insert(RankOf(key));
  } else if (key.second.running == 0) {
    keys_.erase(key.first);
  }
}

uint64_t FairQueue::Add(absl::string_view key, Work work) {
  auto [found, inserted] = keys_.try_emplace(key);
  Keys::value_type& entry = *found;
  if (inserted) entry.second.turn = ++turns_;
  Leave(entry);
  const uint64_t place = ++places_;
  entry.second.waiting.emplace_hint(entry.second.waiting.end(), place, std::move(work));
  Enter(entry);
  return place;
}

FairQueue::Work FairQueue::Remove(absl::string_view key, uint64_t place) {
  auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  auto node = found->second.waiting.find(place);
  if (node == found->second.waiting.end()) return nullptr;
  Work work = std::move(node->second);
  Leave(*found);
  found->second.waiting.erase(node);
  Enter(*found);
  return work;
}

bool FairQueue::HasNext(bool idle_keys) const {
  return !order_.empty() && (!idle_keys || std::get<0>(*order_.begin()) == 0);
}

FairQueue::Next FairQueue::Take() {
  Keys::value_type& entry = *std::get<2>(*order_.begin());
  Leave(entry);
  Next next{entry.first, std::move(entry.second.waiting.begin()->second)};
  entry.second.waiting.erase(entry.second.waiting.begin());
  ++entry.second.running;
  entry.second.turn = ++turns_;
  Enter(entry);
  return next;
}

void FairQueue::Done(absl::string_view key) {
  Keys::value_type& entry = *keys_.find(key);
  Leave(entry);
  --entry.second.running;
  Enter(entry);
}

}  // namespace formwork
