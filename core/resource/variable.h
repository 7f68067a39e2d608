#pragma once

// A variable: the state that outlives calls.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "core/tensor/tensor.h"

namespace formwork {

class AccessTicket;

/// How a call uses a variable.
enum class Access : uint8_t { kNone, kRead, kWrite };

/// Stable ID -> current value. Owned by the ResourceStore and by the calls that use it; the value
/// is read and written through an AccessTicket alone, which keeps the order. What is public may be
/// read by any thread.
class Variable {
 public:
  Variable(uint64_t id, std::string name_space, std::string name, DType dtype, PartialShape shape)
      : id(id),
        name_space(std::move(name_space)),
        name(std::move(name)),
        dtype(dtype),
        shape(std::move(shape)) {}

  const uint64_t id;  ///< Never changes, never used again.
  const std::string name_space;
  const std::string name;
  const DType dtype;
  const PartialShape shape;  ///< As declared; every value fits it.

  uint64_t version() const { return version_.load(std::memory_order_relaxed); }  ///< Counts writes.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool initialized() const { return initialized_.load(std::memory_order_relaxed); }
  bool destroyed() const { return destroyed_.load(std::memory_order_relaxed); }

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

  void Set(Tensor value) {
    value_ = std::move(value);
    version_.fetch_add(1, std::memory_order_relaxed);
    bytes_.store(value_.has_value() ? value_.bytes() : 0, std::memory_order_relaxed);
    initialized_.store(value_.has_value(), std::memory_order_relaxed);
  }

  Tensor value_;            // By the writer at the head of the line, or under the store's lock.
  std::deque<Place> line_;  // Under the store's lock.
  std::atomic<uint64_t> version_{0};
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> initialized_{false};
  std::atomic<bool> destroyed_{false};
};

}  // namespace formwork
