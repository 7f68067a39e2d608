#pragma once

// Staging areas and maps of sparse tensors: what their ops, on any device, have in common. The ops
// have a handle in front here, which the importer gives them (graph/lower_named_state.h).

#include "core/tensor/resource_type.h"

namespace formwork {

/// Tuples of tensors, by the order in which they come or by keys. They are of any dtypes, which the
/// types of these kinds do not tell.
inline constexpr ResourceKind kStagingAreaKind{"staging area"};
inline constexpr ResourceKind kStagingMapKind{"staging map"};
/// Sparse tensors, as SerializeSparse makes them, by numbers that they are given.
inline constexpr ResourceKind kTensorsMapKind{"map of sparse tensors"};

}  // namespace formwork
