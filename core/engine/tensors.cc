// Kept tensors: what calls leave on the server until it is released, or nobody has used it for
// long.

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "core/base/name.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/engine/engine_impl.h"

namespace formwork {
namespace {

// How late a kept tensor may go, at the most.
constexpr absl::Duration kKeptWatchPeriod = absl::Seconds(1);

}  // namespace

absl::StatusOr<uint64_t> EngineImpl::KeepTensor(absl::string_view name_space,
                                                absl::string_view owner, absl::Duration ttl,
                                                Tensor tensor) {
  name_space = NamespaceOf(name_space);
  FORMWORK_RETURN_IF_ERROR(InField(CheckName("namespace", name_space), "namespace"));
  return Keep(name_space, owner, "", ttl, std::move(tensor));
}

absl::StatusOr<uint64_t> EngineImpl::Keep(absl::string_view name_space, absl::string_view owner,
                                          absl::string_view function_name, absl::Duration ttl,
                                          Tensor tensor) {
  if (ttl <= absl::ZeroDuration()) ttl = options_.kept_tensor_ttl;
  // The ID is gone after a crash.
  if (GroupCommit* const log = LogOf(name_space)) log->AppendMore();
  // First: it may find no memory, and then nothing has been kept.
  if (std::min(ttl, options_.client_ttl) != absl::InfiniteDuration()) WatchKept(kKeptWatchPeriod);
  return kept_.Put(name_space, owner, function_name, ttl, std::move(tensor));
}

void EngineImpl::WatchKept(absl::Duration in) {
  if (watches_kept_.exchange(true)) return;
  absl::Cleanup unwatched = [this] { watches_kept_.store(false); };
  deadlines_.Watch(absl::Now() + in, watch_owner_, [this] { ExpireKept(); });
  std::move(unwatched).Cancel();
}

void EngineImpl::ExpireKept() {
  watches_kept_.store(false);
  const absl::Status expires = CatchOutOfMemory([this] {
    const absl::Time now = absl::Now();
    std::vector<KeptTensors::Expired> expired;
    const absl::Time next = kept_.Expire(now, &expired);
    if (next != absl::InfiniteFuture()) {
      WatchKept(next > now ? kKeptWatchPeriod : absl::ZeroDuration());
    }
    if (!options_.on_eviction) return absl::OkStatus();
    for (const auto& [name_space, info] : expired) {
      options_.on_eviction(
          {Eviction::Kind::kKeptTensor, name_space, info.owner, info.id, info.bytes});
    }
    return absl::OkStatus();
  });
  if (expires.ok()) return;
  (void)CatchOutOfMemory([this] {
    WatchKept(kKeptWatchPeriod);  // Else the next one that is kept brings it back.
    return absl::OkStatus();
  });
}

absl::StatusOr<Tensor> EngineImpl::ReadTensor(absl::string_view name_space, uint64_t kept_id) {
  return kept_.Use(NamespaceOf(name_space), kept_id);
}

int64_t EngineImpl::ReleaseTensors(absl::string_view name_space, absl::Span<const uint64_t> ids) {
  return kept_.Release(NamespaceOf(name_space), ids);
}

std::vector<KeptTensorInfo> EngineImpl::ListTensors(absl::string_view name_space) {
  const HeapScope held(&memory_);
  return kept_.List(NamespaceOf(name_space));
}

}  // namespace formwork
