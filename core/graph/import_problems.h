#pragma once

// Problems found while a graph is imported: reported together, not one at a time.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace formwork {

class ImportProblems {
 public:
  /// A mistake of the graph.
  void Wrong(std::string text) { wrong_.push_back(std::move(text)); }
  /// An op that is reached and that nobody implements.
  void MissingOp(absl::string_view op, absl::string_view node);

  bool empty() const { return wrong_.empty() && missing_.empty(); }
  /// kInvalidArgument where anything is wrong, else kUnimplemented where ops are missing, else OK.
  absl::Status ToStatus() const;
  std::vector<std::string> All() const;

 private:
  std::vector<std::string> wrong_;
  std::vector<std::string> missing_;
};

}  // namespace formwork
