#pragma once

// Singular values of small matrices, by Eigen: it takes long to compile.

#include <cstdint>

#include "core/kernels/linalg/decompose.h"

namespace formwork {

/// DecomposeSingular of a finite matrix, in double precision, on one thread and without a look at
/// the stop flag.
template <typename T>
bool DecomposeByJacobi(int64_t m, int64_t n, const T* a, bool full, RealOf<T>* values, T* u, T* v);

}  // namespace formwork
