#pragma once

// Images that are resized on a GPU (resize_functions.h): how a call's sizes become the items'
// numbers. Needs no CUDA itself.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/image.h"
#include "core/tensor/dtype.h"
#include "gpu/resize_functions.h"

namespace formwork {

/// `channels`: of units that are moved, or elements.
formwork_element::ResizeSizes ResizeSizesOf(const ResizeAttrs& attrs,
                                            const ResizeGeometry& geometry, int64_t channels);

/// "BilinearItem<...>" and its like, for the op and images of `dtype`. Not of
/// ResizeNearestNeighbor, which moves units: "NearestItem<" unit ">". Errors: kUnimplemented for
/// dtypes that the host has to compute.
absl::StatusOr<std::string> ResizeItemName(absl::string_view op, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& ResizeText();

}  // namespace formwork
