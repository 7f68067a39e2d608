#include "core/base/status.h"

#include <string>

namespace formwork {

absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(where, ": ", std::string(status.message())));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace formwork
