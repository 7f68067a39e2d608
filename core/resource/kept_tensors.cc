#include "core/resource/kept_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// How many are looked at under the lock at once.
constexpr size_t kAtOnce = 1000;

absl::Status NoTensor(uint64_t id) {
  return WithReason(NotFound("there is no kept tensor of id=", id), Reason::kTensorNotFound,
                    {{"tensorId", id}});
}

}  // namespace

uint64_t KeptTensors::BytesOf(const Kept& kept) {
  // Its places in the two trees are about 64 bytes each.
  return sizeof(Kept) + 128 + kept.owner.size() + kept.function_name.size() + kept.tensor.bytes();
}

KeptTensorInfo KeptTensors::InfoOf(uint64_t id, const Kept& kept) {
  return {id,         kept.tensor.dtype(), kept.tensor.shape(), BytesOf(kept),
          kept.owner, kept.function_name,  kept.created,        kept.expires};
}

KeptTensors::NameSpace* KeptTensors::Find(absl::string_view name_space) {
  auto found = name_spaces_.find(name_space);
  return found == name_spaces_.end() ? nullptr : &found->second;
}

void KeptTensors::ForgetIfEmpty(NameSpace& space) {
  if (space.tensors.empty()) name_spaces_.erase(name_spaces_.find(space.name));
}

absl::StatusOr<uint64_t> KeptTensors::Put(absl::string_view name_space, absl::string_view owner,
                                          absl::string_view function_name, absl::Duration ttl,
                                          Tensor tensor) {
  const absl::Time now = absl::Now();
  Kept kept{
      std::move(tensor), std::string(owner), std::string(function_name), now, ttl, now + ttl, {}};
  const uint64_t wanted = BytesOf(kept);
  absl::MutexLock lock(&mutex_);
  auto [named, inserted] = name_spaces_.try_emplace(std::string(name_space));
  NameSpace& space = named->second;
  if (inserted) space.name = named->first;
  // Where it is refused, or there is no memory for it.
  absl::Cleanup forget = [&] {
    mutex_.AssertHeld();
    ForgetIfEmpty(space);
  };
  if (max_bytes_ != 0 && wanted > max_bytes_ - std::min<uint64_t>(max_bytes_, space.bytes)) {
    return WithReason(ResourceExhausted("the kept tensors of namespace '", name_space,
                                        "' take too much memory: wanted=", wanted,
                                        " used=", space.bytes, " limit=", max_bytes_),
                      Reason::kQuota,
                      {{"namespace", name_space},
                       {"wantedBytes", wanted},
                       {"usedBytes", space.bytes},
                       {"limitBytes", max_bytes_}});
  }
  const uint64_t id = next_id_++;
  kept.end = ends_.end();
  const auto at = space.tensors.emplace_hint(space.tensors.end(), id, std::move(kept));
  if (ttl != absl::InfiniteDuration()) {
    absl::Cleanup undo = [&] { space.tensors.erase(at); };
    at->second.end = ends_.insert({at->second.expires, id, &space}).first;
    std::move(undo).Cancel();
  }
  space.bytes += wanted;
  bytes_ += wanted;
  ++count_;
  return id;
}

absl::StatusOr<Tensor> KeptTensors::Use(absl::string_view name_space, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  NameSpace* const space = Find(name_space);
  if (space == nullptr) return NoTensor(id);
  auto found = space->tensors.find(id);
  if (found == space->tensors.end()) return NoTensor(id);
  Kept& kept = found->second;
  if (kept.ttl != absl::InfiniteDuration()) {
    const absl::Time now = absl::Now();
    if (now >= kept.expires) return NoTensor(id);
    kept.expires = now + kept.ttl;
  }
  return kept.tensor;
}

std::vector<KeptTensorInfo> KeptTensors::List(absl::string_view name_space) {
  std::vector<KeptTensorInfo> infos;
  for (uint64_t next = 0;;) {
    absl::MutexLock lock(&mutex_);
    const NameSpace* const space = Find(name_space);
    if (space == nullptr) return infos;
    auto at = space->tensors.lower_bound(next);
    for (size_t n = 0; n < kAtOnce && at != space->tensors.end(); ++n, ++at) {
      infos.push_back(InfoOf(at->first, at->second));
    }
    if (at == space->tensors.end()) return infos;
    next = at->first;
  }
}

bool KeptTensors::Erase(NameSpace& space, uint64_t id, Dropped& dropped) {
  auto found = space.tensors.find(id);
  if (found == space.tensors.end()) return false;
  Kept& kept = found->second;
  dropped.push_back(kept.tensor);  // First: it may need memory.
  const uint64_t bytes = BytesOf(kept);
  space.bytes -= bytes;
  bytes_ -= bytes;
  --count_;
  if (kept.end != ends_.end()) ends_.erase(kept.end);
  space.tensors.erase(found);
  return true;
}

int64_t KeptTensors::Release(absl::string_view name_space, absl::Span<const uint64_t> ids) {
  int64_t released = 0;
  while (!ids.empty()) {
    Dropped dropped;
    absl::MutexLock lock(&mutex_);
    NameSpace* const space = Find(name_space);
    if (space == nullptr) break;
    for (uint64_t id : ids.subspan(0, kAtOnce)) released += Erase(*space, id, dropped);
    ForgetIfEmpty(*space);
    ids.remove_prefix(std::min(ids.size(), kAtOnce));
  }
  return released;
}

void KeptTensors::Clear(absl::string_view name_space) {
  uint64_t end;  // What is kept meanwhile stays.
  {
    absl::MutexLock lock(&mutex_);
    end = next_id_;
  }
  while (true) {
    Dropped dropped;
    absl::MutexLock lock(&mutex_);
    NameSpace* const space = Find(name_space);
    if (space == nullptr || space->tensors.begin()->first >= end) return;
    while (!space->tensors.empty() && dropped.size() < kAtOnce) {
      if (space->tensors.begin()->first >= end) break;
      Erase(*space, space->tensors.begin()->first, dropped);
    }
    ForgetIfEmpty(*space);
  }
}

absl::Time KeptTensors::Expire(absl::Time now, std::vector<Expired>* expired) {
  Dropped dropped;
  absl::MutexLock lock(&mutex_);
  for (size_t n = 0; n < kAtOnce && !ends_.empty(); ++n) {
    const auto [end, id, space] = *ends_.begin();
    if (now < end) return end;
    Kept& kept = space->tensors.find(id)->second;
    if (now < kept.expires) {  // It has been used.
      auto node = ends_.extract(kept.end);
      std::get<0>(node.value()) = kept.expires;
      kept.end = ends_.insert(std::move(node)).position;
      continue;
    }
    expired->push_back({std::string(space->name), InfoOf(id, kept)});
    Erase(*space, id, dropped);
    ForgetIfEmpty(*space);
    ++evictions_;
  }
  return ends_.empty() ? absl::InfiniteFuture() : std::get<0>(*ends_.begin());
}

uint64_t KeptTensors::next_id() const {
  absl::MutexLock lock(&mutex_);
  return next_id_;
}

int64_t KeptTensors::count() const {
  absl::MutexLock lock(&mutex_);
  return count_;
}

uint64_t KeptTensors::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

uint64_t KeptTensors::evictions() const {
  absl::MutexLock lock(&mutex_);
  return evictions_;
}

}  // namespace formwork
