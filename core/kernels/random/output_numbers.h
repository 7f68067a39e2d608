#pragma once

// Numbers of which an output may want any number: each output has a part of the sequence of its
// own, so that none depends on how often another one was tried.

#include <cstdint>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/random/philox.h"
#include "core/kernels/random/random_fill.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/distribution.h"

namespace formwork {

template <typename T>
double ToDouble(T value) {
  if constexpr (std::is_same_v<T, half>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

template <typename T>
T FromDouble(double value) {
  if constexpr (std::is_same_v<T, half>) {
    return half(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Uniform and normal numbers of one output. A group gives two of them, of which TensorFlow takes
/// the second one first.
class OutputNumbers {
 public:
  OutputNumbers(const Philox& philox, int64_t output) : start_(philox), output_(output) {
    Reserve(kReservedGroups);
  }

  /// Before the first number: each output has so many groups, which is kReservedGroups unless said
  /// otherwise.
  void Reserve(uint64_t groups) {
    philox_ = start_;
    philox_.Skip(static_cast<uint64_t>(output_) * groups);
  }

  double Uniform() {
    if (uniforms_ == 0) {
      const Philox::Group x = philox_.Next();
      uniform_[0] = UnitDouble(x[0], x[1]);
      uniform_[1] = UnitDouble(x[2], x[3]);
      uniforms_ = 2;
    }
    return uniform_[--uniforms_];
  }
  double Normal() {
    if (normals_ == 0) {
      const Philox::Group x = philox_.Next();
      NormalPair(x[0], x[1], x[2], x[3], normal_);
      normals_ = 2;
    }
    return normal_[--normals_];
  }

 private:
  const Philox start_;
  const int64_t output_;
  Philox philox_;
  double uniform_[2];
  double normal_[2];
  int uniforms_ = 0;
  int normals_ = 0;
};

/// Calls draw(parameter, numbers, element) for each output; parameters are drawn one after the
/// other.
template <typename Draw>
void ForOutputs(const DistributionGeometry& geometry, const Philox& philox, const Draw& draw) {
  const int64_t n = geometry.samples * geometry.parameters;
  ParallelFor(n, kDearItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      OutputNumbers numbers(philox, i);
      const int64_t parameter = i / geometry.samples;
      const int64_t sample = i % geometry.samples;
      draw(parameter, numbers, sample * geometry.parameters + parameter);
    }
  });
}

}  // namespace formwork
