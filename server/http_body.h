#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/memory_budget.h"

namespace formwork::server {

/// Bytes that come piece by piece, in memory that is reserved of a budget before it is touched. Not
/// of operator new's, which counts as heap besides.
class HttpBody {
 public:
  HttpBody() = default;
  HttpBody(HttpBody&& other) noexcept;
  HttpBody& operator=(HttpBody&& other) noexcept;

  /// Takes memory by doubling, up to `expected` bytes in all where so many were announced. `budget`
  /// may be null. Errors: kResourceExhausted; then nothing is added.
  absl::Status Append(absl::string_view piece, size_t expected, MemoryBudget* budget);

  absl::string_view text() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };

  // Outlives the memory.
  MemoryReservation reservation_;
  std::unique_ptr<char, Free> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace formwork::server
