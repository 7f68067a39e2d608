#pragma once

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A tensor as an element of another, of dtype variant: what sparse tensors are in datasets.
class TensorPart final : public VariantObject {
 public:
  absl::string_view type_name() const override { return "tensorflow::Tensor"; }
  Tensor tensor;
};

/// Errors: CountNesting's.
absl::StatusOr<Variant> PartOf(Tensor tensor);

}  // namespace formwork
