#pragma once

// Tensors that calls left on the server.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/base/namespace_usage.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// One of them, as it is shown.
struct KeptTensorInfo {
  uint64_t id = 0;
  DType dtype = DType::kInvalid;
  Shape shape;
  uint64_t bytes = 0;         ///< What it is counted as: its elements and what keeping it takes.
  std::string owner;          ///< As CallSpec::owner had it.
  std::string function_name;  ///< Whose output it is.
  absl::Time created;
  absl::Time expires = absl::InfiniteFuture();  ///< Put off by each use.
};

/// By namespace and ID. Each has a time to live, which begins anew when it is used, and goes with
/// its client. Thread-safe: however many there are, no method holds the lock for long.
class KeptTensors {
 public:
  struct Options {
    size_t max_bytes = 0;         ///< Of one namespace; 0: no limit.
    size_t max_client_bytes = 0;  ///< Of one client in one namespace; 0: no limit.
    /// A client has gone when nothing of it has been Seen for so long, and what it has kept goes
    /// when nobody has used it for as long, either.
    absl::Duration client_ttl = absl::InfiniteDuration();
    /// Whether something of a client is under way: then it has not gone. Called with a lock held;
    /// null: nothing is.
    std::function<bool(absl::string_view name_space, absl::string_view owner)> is_busy = nullptr;
  };
  /// `first_id`: where IDs start. `usages`: where what it holds is counted, and limited; outlives
  /// it; may be null.
  KeptTensors(uint64_t first_id, Options options, NamespaceUsages* usages = nullptr)
      : options_(std::move(options)), usages_(usages), next_id_(first_id) {}

  /// Keeps it; its ID. `owner`: the client that it is kept for. `ttl` infinite: until it is
  /// released, or the client goes. Errors: kResourceExhausted if the namespace or the client would
  /// have more than they may.
  absl::StatusOr<uint64_t> Put(absl::string_view name_space, absl::string_view owner,
                               absl::string_view function_name, absl::Duration ttl, Tensor tensor);
  /// A request of that client has come, or has ended.
  void Seen(absl::string_view name_space, absl::string_view owner);
  /// Its value, for use. Errors: kNotFound.
  absl::StatusOr<Tensor> Use(absl::string_view name_space, uint64_t id);
  std::vector<KeptTensorInfo> List(absl::string_view name_space);  ///< By ID.
  /// How many went.
  int64_t Release(absl::string_view name_space, absl::Span<const uint64_t> ids);
  void Clear(absl::string_view name_space);
  struct Expired {
    std::string name_space;
    KeptTensorInfo info;
  };
  /// Removes those whose time has passed, or whose client has gone, a thousand at the most, and
  /// adds them to `expired`. When there may be more to do: not after `now` where it is to be called
  /// again at once.
  absl::Time Expire(absl::Time now, std::vector<Expired>* expired);

  int64_t count() const;
  uint64_t next_id() const;
  uint64_t bytes() const;
  int64_t leases() const;      ///< Those that have a time to live.
  uint64_t evictions() const;  ///< Those that Expire removed.

 private:
  struct NameSpace;
  // By the time at which to look whether it has been used meanwhile: to use one costs nothing here.
  using Ends = std::set<std::tuple<absl::Time, uint64_t, NameSpace*>>;
  // A client that has kept something.
  struct Owner {
    int64_t count = 0;
    uint64_t bytes = 0;
    absl::Time seen;
  };
  using Owners = HashMap<std::string, Owner>;
  struct Kept {
    Tensor tensor;
    Owners::value_type* owner;  // Of its NameSpace.
    std::string function_name;
    absl::Time created;
    absl::Duration ttl;
    absl::Time used;
    Ends::iterator end;  // ends_.end() where it stays until it is released.
    UsageItem counted;
  };
  struct NameSpace {
    absl::string_view name;
    std::map<uint64_t, Kept> tensors;
    Owners owners;
    uint64_t bytes = 0;
  };
  // What leaves under the lock, to be destroyed after it.
  using Dropped = std::vector<Tensor>;

  static uint64_t BytesOf(const Kept& kept);
  static KeptTensorInfo InfoOf(uint64_t id, const Kept& kept);
  // Null where nothing is kept in it.
  NameSpace* Find(absl::string_view name_space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const NameSpace& space, const Owners::value_type& owner,
                         uint64_t wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When it is to go, unless it is used, or its client seen.
  absl::Time EndOf(const Kept& kept) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Erase(NameSpace& space, uint64_t id, Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIfEmpty(NameSpace& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  NamespaceUsages* const usages_;
  mutable absl::Mutex mutex_;
  HashMap<std::string, NameSpace> name_spaces_ ABSL_GUARDED_BY(mutex_);
  Ends ends_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> count_{0};  // Is changed under the lock.
  int64_t leases_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace formwork
