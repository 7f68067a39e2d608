#pragma once

// The text of CUDA kernels that do one item after the other. Needs no CUDA itself.

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace formwork {

/// Items that keep a GPU busy: work is split no further.
inline constexpr int64_t kBusyItems = 1 << 16;

/// The text of a kernel `items(ITEM item, uint64 n, FailureWord* word, uint64 step)`, which does
/// nothing where a step other than `step` has failed by the word, unless that is null. `item`: such
/// as "FillItem<uint32_t>", of item_functions.h or of the text `more` behind that.
std::string ItemSource(absl::string_view item, absl::string_view more = "");

}  // namespace formwork
