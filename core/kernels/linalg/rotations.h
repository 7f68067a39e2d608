#pragma once

// Plane rotations of neighbouring columns: what iterations towards eigenvectors and singular
// vectors are made of. They are collected, for a pass over the matrix costs more than its
// rotations.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace formwork {

/// Of real numbers R. Not thread-safe.
template <typename R>
class Rotations {
 public:
  /// Columns k and k + 1, x and y, become c x - s y and s x + c y.
  void Add(int64_t k, R c, R s) { list_.push_back({k, c, s}); }
  /// Whether it is time to apply them.
  bool full() const { return list_.size() >= kMost; }

  /// Applies them, in order, to a row-major matrix of real or complex numbers, T, and forgets them.
  /// Split over threads; can be stopped, and then leaves the matrix unfinished.
  template <typename T>
  void Apply(int64_t rows, int64_t cols, T* a, int64_t lda);

  struct Rotation {
    int64_t k;
    R c, s;
  };

 private:
  static constexpr size_t kMost = size_t{1} << 15;
  std::vector<Rotation> list_;
};

}  // namespace formwork
