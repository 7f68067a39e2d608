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
  return sizeof(Kept) + 128 + kept.owner->first.size() + kept.function_name.size() +
         kept.tensor.bytes();
}

KeptTensorInfo KeptTensors::InfoOf(uint64_t id, const Kept& kept) {
  return {id,
          kept.tensor.dtype(),
          kept.tensor.shape(),
          BytesOf(kept),
          kept.owner->first,
          kept.function_name,
          kept.created,
          kept.used + kept.ttl};
}

absl::Time KeptTensors::EndOf(const Kept& kept) const {
  const absl::Time last = std::max(kept.used, kept.owner->second.seen);
  return std::min(kept.used + kept.ttl, last + options_.client_ttl);
}

KeptTensors::NameSpace* KeptTensors::Find(absl::string_view name_space) {
  auto found = name_spaces_.find(name_space);
  return found == name_spaces_.end() ? nullptr : &found->second;
}

void KeptTensors::ForgetIfEmpty(NameSpace& space) {
  if (space.tensors.empty()) name_spaces_.erase(name_spaces_.find(space.name));
}

absl::Status KeptTensors::CheckRoom(const NameSpace& space, const Owners::value_type& owner,
                                    uint64_t wanted) const {
  const auto fits = [wanted](uint64_t used, uint64_t limit) {
    return limit == 0 || wanted <= limit - std::min(limit, used);
  };
  if (!fits(space.bytes, options_.max_bytes)) {
    return WithReason(ResourceExhausted("the kept tensors of namespace '", space.name,
                                        "' take too much memory: wanted=", wanted,
                                        " used=", space.bytes, " limit=", options_.max_bytes),
                      Reason::kQuota,
                      {{"namespace", space.name},
                       {"wantedBytes", wanted},
                       {"usedBytes", space.bytes},
                       {"limitBytes", options_.max_bytes}});
  }
  const auto& [name, used] = owner;
  if (!fits(used.bytes, options_.max_client_bytes)) {
    return WithReason(ResourceExhausted("the kept tensors of client '", name, "' in namespace '",
                                        space.name, "' take too much memory: wanted=", wanted,
                                        " used=", used.bytes, " limit=", options_.max_client_bytes),
                      Reason::kQuota,
                      {{"namespace", space.name},
                       {"client", name},
                       {"wantedBytes", wanted},
                       {"usedBytes", used.bytes},
                       {"limitBytes", options_.max_client_bytes}});
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> KeptTensors::Put(absl::string_view name_space, absl::string_view owner,
                                          absl::string_view function_name, absl::Duration ttl,
                                          Tensor tensor) {
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mutex_);
  auto [named, inserted] = name_spaces_.try_emplace(std::string(name_space));
  NameSpace& space = named->second;
  if (inserted) space.name = named->first;
  // Where it is refused, or there is no memory for it.
  absl::Cleanup forget = [&] {
    mutex_.AssertHeld();
    ForgetIfEmpty(space);
  };
  Owners::value_type& of = *space.owners.try_emplace(std::string(owner)).first;
  absl::Cleanup forget_owner = [&] {
    if (of.second.count == 0) space.owners.erase(space.owners.find(of.first));
  };
  of.second.seen = now;
  Kept kept{std::move(tensor), &of, std::string(function_name), now, ttl, now, ends_.end(), {}};
  const uint64_t wanted = BytesOf(kept);
  FORMWORK_RETURN_IF_ERROR(CheckRoom(space, of, wanted));
  if (usages_ != nullptr) {
    FORMWORK_RETURN_IF_ERROR(
        kept.counted.Begin(usages_->Of(name_space), Held::kKeptTensor, wanted));
  }
  const uint64_t id = next_id_++;
  const auto at = space.tensors.emplace_hint(space.tensors.end(), id, std::move(kept));
  if (const absl::Time end = EndOf(at->second); end != absl::InfiniteFuture()) {
    absl::Cleanup undo = [&] { space.tensors.erase(at); };
    at->second.end = ends_.insert({end, id, &space}).first;
    std::move(undo).Cancel();
  }
  of.second.bytes += wanted;
  ++of.second.count;
  space.bytes += wanted;
  bytes_ += wanted;
  leases_ += ttl != absl::InfiniteDuration();
  count_.fetch_add(1, std::memory_order_relaxed);
  return id;
}

void KeptTensors::Seen(absl::string_view name_space, absl::string_view owner) {
  if (options_.client_ttl == absl::InfiniteDuration()) return;
  if (count_.load(std::memory_order_relaxed) == 0) return;
  absl::MutexLock lock(&mutex_);
  NameSpace* const space = Find(name_space);
  if (space == nullptr) return;
  const auto found = space->owners.find(owner);
  if (found != space->owners.end()) found->second.seen = absl::Now();
}

absl::StatusOr<Tensor> KeptTensors::Use(absl::string_view name_space, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  NameSpace* const space = Find(name_space);
  if (space == nullptr) return NoTensor(id);
  auto found = space->tensors.find(id);
  if (found == space->tensors.end()) return NoTensor(id);
  Kept& kept = found->second;
  if (kept.end != ends_.end()) {
    const absl::Time now = absl::Now();
    if (now >= kept.used + kept.ttl) return NoTensor(id);
    kept.used = now;
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
  Owners::value_type& owner = *kept.owner;
  owner.second.bytes -= bytes;
  --owner.second.count;
  space.bytes -= bytes;
  bytes_ -= bytes;
  leases_ -= kept.ttl != absl::InfiniteDuration();
  count_.fetch_sub(1, std::memory_order_relaxed);
  if (kept.end != ends_.end()) ends_.erase(kept.end);
  space.tensors.erase(found);
  if (owner.second.count == 0) space.owners.erase(space.owners.find(owner.first));
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
    auto& [owner, of] = *kept.owner;
    // Asked where it is the client's time that has passed.
    if (now < kept.used + kept.ttl && EndOf(kept) <= now && options_.is_busy != nullptr &&
        options_.is_busy(space->name, owner)) {
      of.seen = now;
    }
    if (const absl::Time later = EndOf(kept);
        now < later) {  // It has been used, or its client seen.
      auto node = ends_.extract(kept.end);
      std::get<0>(node.value()) = later;
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

int64_t KeptTensors::count() const { return count_.load(std::memory_order_relaxed); }

int64_t KeptTensors::leases() const {
  absl::MutexLock lock(&mutex_);
  return leases_;
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
