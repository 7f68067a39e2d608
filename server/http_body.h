#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/memory_budget.h"

namespace formwork::server {

/// Bytes that come piece by piece, in memory that is reserved of a budget before it is touched. It
/// is malloc's: operator new's would count as heap besides.
class HttpBody {
 public:
  HttpBody() = default;
  HttpBody(HttpBody&& other) noexcept { *this = std::move(other); }
  HttpBody& operator=(HttpBody&& other) noexcept {
    reservations_.swap(other.reservations_);
    bytes_.swap(other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  /// Takes memory by doubling, but not beyond the `expected` bytes in all that were announced (0:
  /// nothing was). `budget` may be null. Errors: kResourceExhausted; then nothing is added.
  absl::Status Append(absl::string_view piece, size_t expected, MemoryBudget* budget);

  absl::string_view text() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };

  std::vector<MemoryReservation> reservations_;  // One for each time that it grew. They outlive:
  std::unique_ptr<char, Free> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace formwork::server
