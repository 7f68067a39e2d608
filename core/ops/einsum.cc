#include "core/ops/einsum.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::StatusOr<std::vector<int>> ParseLabels(absl::string_view text, absl::string_view side) {
  std::vector<int> labels;
  const auto periods = std::count(text.begin(), text.end(), '.');
  const size_t ellipsis = text.find("...");
  if (periods != 0 && (periods != 3 || ellipsis == absl::string_view::npos)) {
    return InvalidArgument("Expected at most one ellipsis (...), but found ", periods,
                           " periods (.) in the ", side, " subscript: ", text);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      labels.push_back(kEllipsis);
      i += 2;
    } else if (text[i] != ' ') {
      labels.push_back(static_cast<unsigned char>(text[i]));
    }
  }
  return labels;
}

// Replaces the ellipsis by the last `count` of `total` broadcast labels.
void Expand(std::vector<int>& labels, int count, int total) {
  auto at = std::find(labels.begin(), labels.end(), kEllipsis);
  if (at == labels.end()) return;
  std::vector<int> broadcast;
  for (int i = total - count; i < total; ++i) broadcast.push_back(kFirstBroadcastLabel + i);
  at = labels.erase(at);
  labels.insert(at, broadcast.begin(), broadcast.end());
}

}  // namespace

absl::StatusOr<EinsumEquation> EinsumEquation::FromAttrs(const AttrMap& attrs, int num_inputs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string equation, attrs.Get<std::string>("equation"));
  const std::vector<absl::string_view> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) {
    return InvalidArgument("Expecting exactly one '->' in einsum equation: ", equation);
  }
  const std::vector<absl::string_view> terms = absl::StrSplit(sides[0], ',');
  if (terms.size() != 1 && terms.size() != 2) {
    return InvalidArgument("Expecting 1 or 2 input subscripts in equation '", equation,
                           "' but got: ", terms.size());
  }
  if (static_cast<int>(terms.size()) != num_inputs) {
    return InvalidArgument("Expected ", terms.size(), " inputs for equation ", equation,
                           " but got: ", num_inputs);
  }
  EinsumEquation parsed;
  for (absl::string_view term : terms) {
    FORMWORK_ASSIGN_OR_RETURN(std::vector<int> labels, ParseLabels(term, "input"));
    parsed.inputs.push_back(std::move(labels));
  }
  FORMWORK_ASSIGN_OR_RETURN(parsed.output, ParseLabels(sides[1], "output"));
  for (int label : parsed.output) {
    if (label == kEllipsis) continue;
    bool found = false;
    for (const std::vector<int>& labels : parsed.inputs) found = found || HasLabel(labels, label);
    if (!found) {
      return InvalidArgument("Einsum output subscripts for equation '", equation, "' has label '",
                             std::string(1, static_cast<char>(label)),
                             "' which is not present in the input subscripts");
    }
  }
  return parsed;
}

absl::Status ExpandEllipses(EinsumEquation& equation, absl::Span<const int> ranks) {
  std::vector<int> counts(ranks.size(), 0);
  int total = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool ellipsis = HasLabel(equation.inputs[i], kEllipsis);
    const int named = static_cast<int>(equation.inputs[i].size()) - (ellipsis ? 1 : 0);
    if (ellipsis ? ranks[i] < named : ranks[i] != named) {
      return InvalidArgument("Expected input ", i, " to have rank ", ellipsis ? "at least " : "",
                             named, " but got: ", ranks[i]);
    }
    counts[i] = ranks[i] - named;
    total = std::max(total, counts[i]);
  }
  if (total > 0 && !HasLabel(equation.output, kEllipsis)) {
    return InvalidArgument("Output contains ", total,
                           " broadcasting dimension(s) but no ellipsis (...) was found in the ",
                           "output subscripts.");
  }
  for (size_t i = 0; i < ranks.size(); ++i) Expand(equation.inputs[i], counts[i], total);
  Expand(equation.output, total, total);
  return absl::OkStatus();
}

}  // namespace formwork
