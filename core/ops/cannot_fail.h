#pragma once

// Which ops a device may run on any stream of a call, as far as their errors go.

#include "absl/strings/string_view.h"

namespace formwork {

/// Whether `op` is pure and succeeds whatever the elements of its inputs are, once its shape
/// function and its kernel's factory have taken it: nobody has to know in which order such steps
/// have run. An op that is not known may fail.
bool CannotFailByValue(absl::string_view op);

}  // namespace formwork
