#pragma once

// Problems found while a graph is imported: reported together, not one at a time.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace formwork {

/// A name of the graph as texts show it: the beginning of one that is very long.
std::string Shown(absl::string_view name);

class ImportProblems {
 public:
  /// A mistake of the graph, or what is asked for and cannot be had.
  void Wrong(std::string text, absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  /// An op that is reached and that nobody implements. `where`: "node 'x'".
  void MissingOp(absl::string_view op, absl::string_view where);

  bool empty() const { return wrong_.count == 0 && missing_.count == 0; }
  /// The code is that of what is wrong, kInvalidArgument where there are several; kUnimplemented
  /// where ops are missing and nothing is wrong; OK where nothing is the matter. The text names the
  /// first 20 and counts the rest.
  absl::Status ToStatus() const;
  /// All of them; beyond some thousands, how many more there are.
  std::vector<std::string> All() const;

 private:
  // A graph of a few megabytes can have millions of mistakes.
  struct Texts {
    void Add(std::string text);

    std::vector<std::string> kept;
    size_t count = 0;
  };

  Texts wrong_;
  absl::StatusCode code_ = absl::StatusCode::kUnimplemented;
  Texts missing_;
};

}  // namespace formwork
