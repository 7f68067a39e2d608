#pragma once

#include <vector>

#include "core/tensor/tensor.h"

namespace formwork {

/// An element of dtype variant: tensors, or nothing. What a branch leaves for its gradient, whether
/// it was taken or not.
class Optional final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "tensorflow::data::Optional"; }
  bool has_value() const { return !components.empty(); }
  std::vector<Tensor> components;  ///< Empty: nothing.
};

}  // namespace formwork
