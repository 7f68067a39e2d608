#include "core/base/reason.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/strip.h"

namespace formwork {
namespace {

// The status' payloads.
constexpr char kReason[] = "formwork.Reason";
constexpr char kField[] = "formwork.Field";
constexpr char kFact[] = "formwork.Fact/";  // And its key.

}  // namespace

absl::Status WithReason(absl::Status status, Reason reason,
                        std::initializer_list<ErrorFact> facts) {
  status.SetPayload(kReason, absl::Cord(std::string(1, static_cast<char>(reason))));
  for (const ErrorFact& fact : facts) {
    status.SetPayload(absl::StrCat(kFact, fact.key), absl::Cord(fact.value.Piece()));
  }
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReason);
  if (!payload || payload->size() != 1) return Reason::kNone;
  return static_cast<Reason>(*payload->char_begin());
}

std::vector<std::pair<std::string, std::string>> FactsOf(const absl::Status& status) {
  std::vector<std::pair<std::string, std::string>> facts;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (absl::ConsumePrefix(&url, kFact)) facts.emplace_back(url, payload);
  });
  std::sort(facts.begin(), facts.end());
  return facts;
}

absl::Status InField(absl::Status status, absl::string_view field) {
  if (status.ok()) return status;
  const std::string within = FieldOf(status);
  status.SetPayload(kField, absl::Cord(absl::StrCat(field, within.empty() ? "" : ".", within)));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kField);
  return payload ? std::string(*payload) : "";
}

}  // namespace formwork
