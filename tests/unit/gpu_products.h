#pragma once

// What a GPU's convolutions by patches are run by, on the host.

#include <cstdint>

#include "absl/status/status.h"
#include "gpu/conv_items.h"

namespace formwork::testing {

namespace element = formwork_element;

/// The items of a stage, in any order.
inline const auto kRun = [](ConvStage /*stage*/, const auto& item, uint64_t n) {
  for (uint64_t i = n; i-- > 0;) item(i);
  return absl::OkStatus();
};

/// As a matrix product does it, of elements E.
template <typename E>
auto Multiplying(bool transposes_x, bool transposes_y) {
  return [=](const PatchProduct& p) {
    const auto at = [](const char* of, int64_t i) {
      return static_cast<double>(element::Widen(reinterpret_cast<const E*>(of)[i]));
    };
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.residual == nullptr ? 0 : at(p.residual, i * p.n + j);
        for (int64_t k = 0; k < p.k; ++k) {
          sum += at(p.x, transposes_x ? k * p.m + i : i * p.k + k) *
                 at(p.y, transposes_y ? j * p.k + k : k * p.n + j);
        }
        reinterpret_cast<E*>(p.out)[i * p.n + j] =
            element::Narrow<E>::Of(static_cast<decltype(element::Widen(E()))>(sum));
      }
    }
    return absl::OkStatus();
  };
}

}  // namespace formwork::testing
