#pragma once

// Allocations that are refused, one by one: this program has an operator new of its own.

#include <cstdint>

namespace formwork::testing {

/// While one lives, the `first` allocation to come (1: the next one) is refused, and those after it
/// until `count` have been; on whatever thread they are. One at a time.
class Refusing {
 public:
  Refusing(int64_t first, int64_t count);
  ~Refusing();
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;

  /// Whether there were so many.
  bool refused() const;

 private:
  const int64_t first_;
};

}  // namespace formwork::testing
