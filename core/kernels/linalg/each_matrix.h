#pragma once

// What the kernels of this family share: the dtypes, and the matrices of a batch side by side.

#include <algorithm>
#include <complex>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Runs `body(begin, end)` over the matrices [0, count) of a batch, each of about `work`
/// multiplications, side by side. Returns the error of the first range that has one.
template <typename Body>
absl::Status ForMatrices(int64_t count, double work, Body body) {
  constexpr double kTask = 1 << 16;
  absl::Mutex mutex;
  absl::Status first;
  int64_t first_begin = count;
  ParallelFor(count, static_cast<int64_t>(std::max(kTask / (work + 1), 1.0)),
              [&](int64_t begin, int64_t end) {
                absl::Status status = body(begin, end);
                if (status.ok()) return;
                absl::MutexLock lock(&mutex);
                if (begin >= first_begin) return;
                first_begin = begin;
                first = std::move(status);
              });
  return first;
}

/// The kernel that `make(T())` gives for the node's dtype: float, double, or complex numbers of
/// both. Errors: kUnimplemented for others.
template <typename Make>
absl::StatusOr<KernelFn> ByMatrixDType(KernelInit& init, Make make) {
  switch (init.input_dtypes()[0]) {
    FORMWORK_CASE(float, return make(T()))
    FORMWORK_CASE(double, return make(T()))
    FORMWORK_COMPLEX_CASES(return make(T()))
    default:
      return Unimplemented(init.op().name, ": dtype ", DTypeName(init.input_dtypes()[0]),
                           " is not supported");
  }
}

/// n^3, about what factorisations take.
inline double Cubed(int64_t n) {
  const double d = static_cast<double>(n);
  return d * d * d;
}

}  // namespace formwork
