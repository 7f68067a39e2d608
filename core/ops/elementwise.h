#pragma once

// What the elementwise family is on every device beyond its table of functions.

#include "core/ops/attr.h"

namespace formwork {

/// Whether shapes that do not broadcast fail the call: attr incompatible_shape_error of Equal and
/// NotEqual, of which these are one answer where it is false. Ops without the attr refuse them.
bool RefusesShapes(const AttrMap& attrs);

}  // namespace formwork
