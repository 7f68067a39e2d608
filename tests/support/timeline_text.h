#pragma once

// A call's timeline as text, for tests: what is in it and in what, never when.

#include <string>

#include "core/base/timeline.h"

namespace formwork::testing {

/// A track's name, then its spans in the order of their beginnings, each two spaces further in than
/// the one that it is in:
///   call
///     phase find function
///     phase run
///       step 'y' MatMul: float32[2,2]
/// A span that is neither nested in another nor apart from it is marked "OVERLAPS", one that ends
/// before it begins "BACKWARDS".
std::string TimelineText(const Timeline& timeline);

}  // namespace formwork::testing
