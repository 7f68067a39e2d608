#pragma once

// Which ops a device may run on any stream of a call, as far as their errors go.

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// Whether `op`, which makes outputs of these dtypes, is pure and succeeds whatever the elements of
/// its inputs are, once its shape function and its kernel's factory have taken it: nobody has to
/// know in which order such steps have run. An op that is not known may fail.
bool CannotFailByValue(absl::string_view op, absl::Span<const DType> outputs);

}  // namespace formwork
