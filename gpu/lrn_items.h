#pragma once

// Local response normalisation on a GPU (lrn_functions.h): which items do it. Needs no CUDA itself.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/lrn.h"
#include "core/tensor/dtype.h"
#include "gpu/lrn_functions.h"

namespace formwork {

/// Of `depth` channels.
formwork_element::LrnSizes LrnSizesOf(const LrnAttrs& attrs, int64_t depth);
/// Such as "LrnItem<half>". Errors: kUnimplemented for dtypes, and for numbers of neighbours, that
/// the host has to compute.
absl::StatusOr<std::string> LrnItemName(absl::string_view item, const LrnAttrs& attrs, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& LrnText();

}  // namespace formwork
