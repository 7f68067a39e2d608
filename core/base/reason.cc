#include "core/base/reason.h"

#include <string>

#include "absl/strings/cord.h"

namespace formwork {
namespace {

constexpr char kPayload[] = "formwork.Reason";

}  // namespace

absl::Status WithReason(absl::Status status, Reason reason) {
  status.SetPayload(kPayload, absl::Cord(std::string(1, static_cast<char>(reason))));
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload || payload->size() != 1) return Reason::kNone;
  return static_cast<Reason>(*payload->char_begin());
}

}  // namespace formwork
