#include "core/resource/kept_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::Status NoTensor(uint64_t id) {
  return WithReason(NotFound("there is no kept tensor of id=", id), Reason::kTensorNotFound,
                    {{"tensorId", id}});
}

}  // namespace

uint64_t KeptTensors::BytesOf(const Kept& kept) {
  // Two pointers and the key in the tree are about 64 bytes.
  return sizeof(Kept) + 64 + kept.owner.size() + kept.function_name.size() + kept.tensor.bytes();
}

KeptTensorInfo KeptTensors::InfoOf(uint64_t id, const Kept& kept) {
  return {id,         kept.tensor.dtype(), kept.tensor.shape(), BytesOf(kept),
          kept.owner, kept.function_name,  kept.created,        kept.expires};
}

absl::StatusOr<uint64_t> KeptTensors::Put(absl::string_view name_space, absl::string_view owner,
                                          absl::string_view function_name, absl::Duration ttl,
                                          Tensor tensor) {
  const absl::Time now = absl::Now();
  Kept kept{std::move(tensor), std::string(owner), std::string(function_name), now, ttl, now + ttl};
  const uint64_t wanted = BytesOf(kept);
  absl::MutexLock lock(&mutex_);
  NameSpace& space = name_spaces_[std::string(name_space)];
  if (max_bytes_ != 0 && wanted > max_bytes_ - std::min<uint64_t>(max_bytes_, space.bytes)) {
    const uint64_t used = space.bytes;
    if (space.tensors.empty()) name_spaces_.erase(name_spaces_.find(name_space));
    return WithReason(ResourceExhausted("the kept tensors of namespace '", name_space,
                                        "' take too much memory: wanted=", wanted, " used=", used,
                                        " limit=", max_bytes_),
                      Reason::kQuota,
                      {{"namespace", name_space},
                       {"wantedBytes", wanted},
                       {"usedBytes", used},
                       {"limitBytes", max_bytes_}});
  }
  const uint64_t id = next_id_++;
  space.tensors.emplace_hint(space.tensors.end(), id, std::move(kept));
  space.bytes += wanted;
  bytes_ += wanted;
  ++count_;
  return id;
}

absl::StatusOr<Tensor> KeptTensors::Use(absl::string_view name_space, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return NoTensor(id);
  auto found = space->second.tensors.find(id);
  if (found == space->second.tensors.end()) return NoTensor(id);
  Kept& kept = found->second;
  if (kept.ttl != absl::InfiniteDuration()) {
    const absl::Time now = absl::Now();
    if (now >= kept.expires) return NoTensor(id);
    kept.expires = now + kept.ttl;
  }
  return kept.tensor;
}

std::vector<KeptTensorInfo> KeptTensors::List(absl::string_view name_space) const {
  std::vector<KeptTensorInfo> infos;
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return infos;
  infos.reserve(space->second.tensors.size());
  for (const auto& [id, kept] : space->second.tensors) {
    infos.push_back(InfoOf(id, kept));
  }
  return infos;
}

bool KeptTensors::Erase(NameSpace& space, uint64_t id, Dropped& dropped) {
  auto found = space.tensors.find(id);
  if (found == space.tensors.end()) return false;
  dropped.push_back(found->second.tensor);  // First: it may need memory.
  const uint64_t bytes = BytesOf(found->second);
  space.bytes -= bytes;
  bytes_ -= bytes;
  --count_;
  space.tensors.erase(found);
  return true;
}

int64_t KeptTensors::Release(absl::string_view name_space, absl::Span<const uint64_t> ids) {
  Dropped dropped;
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return 0;
  for (uint64_t id : ids) Erase(space->second, id, dropped);
  if (space->second.tensors.empty()) name_spaces_.erase(space);
  return static_cast<int64_t>(dropped.size());
}

void KeptTensors::Clear(absl::string_view name_space) {
  NameSpace dropped;
  absl::MutexLock lock(&mutex_);
  auto space = name_spaces_.find(name_space);
  if (space == name_spaces_.end()) return;
  dropped = std::move(space->second);
  name_spaces_.erase(space);
  bytes_ -= dropped.bytes;
  count_ -= static_cast<int64_t>(dropped.tensors.size());
}

absl::Time KeptTensors::Expire(absl::Time now, std::vector<Expired>* expired) {
  Dropped dropped;
  absl::Time next = absl::InfiniteFuture();
  absl::MutexLock lock(&mutex_);
  for (auto& [name, space] : name_spaces_) {
    std::vector<uint64_t> late;
    for (const auto& [id, kept] : space.tensors) {
      if (now >= kept.expires) {
        late.push_back(id);
      } else {
        next = std::min(next, kept.expires);
      }
    }
    for (uint64_t id : late) {
      expired->push_back({name, InfoOf(id, space.tensors.find(id)->second)});
      Erase(space, id, dropped);
      ++evictions_;
    }
  }
  std::erase_if(name_spaces_, [](const auto& space) { return space.second.tensors.empty(); });
  return next;
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
