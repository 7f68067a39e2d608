#pragma once

#include <vector>

#include "core/tensor/tensor.h"

namespace formwork {

/// An element of dtype variant: one ragged tensor.
class RaggedVariant final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "RaggedTensorVariant"; }
  std::vector<Tensor> splits;  ///< From outside in; one dtype.
  Tensor values;
};

}  // namespace formwork
