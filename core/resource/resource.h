#pragma once

// A resource: state that outlives calls, such as a variable or a table.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/namespace_usage.h"
#include "core/resource/used_resources.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

class AccessTicket;
class Event;

/// Stable ID -> current value. Owned by the ResourceStore and by the calls that use it; the value
/// is read and written through an AccessTicket alone, which keeps the order. What is public may be
/// read by any thread.
///
/// The value of every kind is a Tensor: a variable's own, else a scalar variant whose object is
/// never changed. So whoever reads holds a snapshot by holding a Tensor, and nothing here depends
/// on the kind.
class Resource {
 public:
  Resource(uint64_t id, std::string name_space, std::string name, ResourceType type)
      : id(id), name_space(std::move(name_space)), name(std::move(name)), type(std::move(type)) {}
  ~Resource();  ///< Waits for what streams still do with the value.
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;

  const uint64_t id;  ///< Never changes, never used again.
  const std::string name_space;
  const std::string name;
  const ResourceType type;  ///< As declared; every value fits it.

  // Of a variable.
  DType dtype() const { return type.parts[0].dtype; }
  const PartialShape& shape() const { return type.parts[0].shape; }

  uint64_t version() const { return version_.load(std::memory_order_relaxed); }  ///< Counts writes.
  /// Whose call wrote last (AccessTicket::set_writer); 0: nobody's, or nobody has said.
  uint64_t last_writer() const { return last_writer_.load(std::memory_order_relaxed); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool initialized() const { return initialized_.load(std::memory_order_relaxed); }
  bool destroyed() const { return destroyed_.load(std::memory_order_relaxed); }
  /// Those of its state, of the last one that was set; null: none.
  std::shared_ptr<const UsedResources> uses() const {
    if (!has_uses_.load(std::memory_order_acquire)) return nullptr;
    const absl::MutexLock lock(&uses_mutex_);
    return uses_;
  }
  /// Whether its changes go to the store's CommitLog.
  bool logged() const { return logged_; }
  /// Of its last change there; 0: none.
  uint64_t log_position() const { return log_position_.load(std::memory_order_relaxed); }

 private:
  friend class AccessTicket;
  friend class ResourceStore;

  // One ticket's place in line. Readers leave it as soon as nobody who writes is before them: what
  // they read is pinned then.
  struct Place {
    AccessTicket* ticket;
    uint32_t entry;  // Of the ticket.
    bool write;
  };

  // Counts it as what it is to have, before that is Set. Errors: kResourceExhausted if its
  // namespace may not hold so much; then nothing has changed.
  absl::Status Resize(size_t bytes) { return counted_.Resize(bytes); }
  void Set(Tensor value) {
    const size_t bytes = value.has_value() ? value.bytes() : 0;
    Set(std::move(value), bytes);
  }
  void Set(Tensor value, size_t bytes) {
    counted_.ResizeAnyway(bytes);
    if (value.dtype() == DType::kVariant && value.rank() == 0) NoteUses(value);
    value_ = std::move(value);
    version_.fetch_add(1, std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
    initialized_.store(value_.has_value(), std::memory_order_relaxed);
  }

  // `state` is to be the next one.
  void NoteUses(const Tensor& state);

  Tensor value_;            // By the writer at the head of the line, or under the store's lock.
  std::deque<Place> line_;  // Under the store's lock.
  // Who waits for another state, outside of the line; the same lock.
  std::deque<AccessTicket*> state_waits_;
  // Of a value on a device, under the store's lock: its memory holds it once this has happened, and
  // these are the ends of the calls that read it since. No event for what is there.
  std::shared_ptr<Event> defined_;
  bool defined_was_pinned_ = false;  // By a reader.
  std::vector<std::shared_ptr<Event>> reads_;
  std::atomic<uint64_t> version_{0};
  std::atomic<uint64_t> last_writer_{0};
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> initialized_{false};
  std::atomic<bool> destroyed_{false};
  bool logged_ = false;  // Set before others know it.
  std::atomic<uint64_t> log_position_{0};
  UsageItem counted_;  // Until it is removed.
  std::atomic<bool> has_uses_{false};
  mutable absl::Mutex uses_mutex_;
  std::shared_ptr<const UsedResources> uses_ ABSL_GUARDED_BY(uses_mutex_);
};

/// "variable 'w'".
std::string Described(const Resource& resource);

}  // namespace formwork
