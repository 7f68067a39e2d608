#pragma once

#include "core/ops/attr.h"
#include "core/ops/op_def.h"

namespace formwork {

/// The attrs of a node of `op` of which nothing is said: those that the op's line has defaults for.
/// Who makes a node begins with these, for kernels and shape functions rely on them.
AttrMap DefaultAttrs(const OpDef& op);

}  // namespace formwork
