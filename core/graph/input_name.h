#pragma once

// The texts by which nodes of a GraphDef say where their inputs come from.

#include "absl/strings/string_view.h"

namespace formwork {

/// "^node", "node", "node:2", or of functions' inner edges "node:out:1": output 1 of the op's
/// output arg `out`.
struct InputName {
  bool control = false;
  absl::string_view node;
  absl::string_view out;
  int index = 0;
  bool valid = true;
};

/// Refers to `text`.
InputName ParseInput(absl::string_view text);

}  // namespace formwork
