#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/device/buffer.h"
#include "core/ops/table.h"

namespace formwork {

struct TableEntries {
  Tensor keys, values;
};

/// The entries that the lines of `text` give a table of that type: vectors of the same length, at
/// least 1. A line ends with "\n" or "\r\n", the last one also with the text. `file` is its name in
/// errors. The type and the attrs have passed CheckTableText.
/// Errors: kInvalidArgument names the line that is empty, has too few columns or is no number,
/// kOutOfRange where there is none; those of allocating, and of a call that is to stop.
absl::StatusOr<TableEntries> TableEntriesOf(const std::string& text, const ResourceType& type,
                                            const TableTextAttrs& attrs, absl::string_view file,
                                            Allocator& allocator);

}  // namespace formwork
