#include "core/tensor/bools.h"

namespace formwork {

void NormaliseBools(Tensor& tensor) {
  auto* const bytes = static_cast<uint8_t*>(tensor.mutable_raw());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) bytes[i] = bytes[i] != 0;
}

}  // namespace formwork
