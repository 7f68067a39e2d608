#include "server/http_body.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/status.h"

namespace formwork::server {
namespace {

constexpr size_t kFirstBodyBytes = 4096;

}  // namespace

absl::Status HttpBody::Append(absl::string_view piece, size_t expected, MemoryBudget* budget) {
  const size_t needed = size_ + piece.size();
  if (needed > capacity_) {
    size_t capacity = std::max(2 * capacity_, kFirstBodyBytes);
    if (expected >= needed) capacity = std::min(capacity, expected);
    capacity = std::max(capacity, needed);
    MemoryReservation more;
    if (budget != nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(more, MemoryReservation::Take(*budget, capacity - capacity_));
    }
    return CatchOutOfMemory([&] {
      reservations_.push_back(std::move(more));
      // Large blocks move without being copied.
      auto* grown = static_cast<char*>(std::realloc(bytes_.get(), capacity));
      if (grown == nullptr) {
        reservations_.pop_back();
        throw std::bad_alloc();
      }
      static_cast<void>(bytes_.release());
      bytes_.reset(grown);
      capacity_ = capacity;
      return Append(piece, expected, budget);
    });
  }
  std::memcpy(bytes_.get() + size_, piece.data(), piece.size());
  size_ = needed;
  return absl::OkStatus();
}

}  // namespace formwork::server
