#pragma once

// Eigenvalues and singular values of row-major matrices of float, double and complex numbers of
// both, in Eigen's order and with its signs, which are TensorFlow's.

#include <complex>
#include <cstdint>
#include <type_traits>

namespace formwork {

template <typename T>
using RealOf = decltype(std::abs(T()));
template <typename T>
using ComplexOf = std::complex<RealOf<T>>;

/// Eigenvalues, ascending, of the self-adjoint n x n matrix whose lower triangle `a` has. `vectors`
/// is null or becomes the eigenvectors in columns, and may be `a`. False where the iteration does
/// not converge. Large ones are split over threads and can be stopped; results are then unfinished.
template <typename T>
bool DecomposeSelfAdjoint(int64_t n, const T* a, RealOf<T>* values, T* vectors);

/// a = u diag(values) v^H of an m x n matrix, values descending. u and v, both or neither null,
/// have `full` ? all columns : min(m, n). False where a is not finite.
template <typename T>
bool DecomposeSingular(int64_t m, int64_t n, const T* a, bool full, RealOf<T>* values, T* u, T* v);

/// The largest n of DecomposeGeneral: what it calls in Eigen cannot be stopped.
inline constexpr int64_t kLargestGeneral = 256;

/// Eigenvalues of an n x n matrix, and, where `vectors` is not null, eigenvectors in its columns.
/// False where the iteration does not converge.
template <typename T>
bool DecomposeGeneral(int64_t n, const T* a, ComplexOf<T>* values, ComplexOf<T>* vectors);

}  // namespace formwork
