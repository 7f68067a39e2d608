#pragma once

// The house idioms around absl::Status. Errors are values: no code of ours throws.

#include <utility>
#include "absl/strings/string_view.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace formwork {

// Each maker joins its arguments as absl::StrCat does: fixed words first, values last.
template <typename... Args>
absl::Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}
template <typename... Args>
absl::Status NotFound(const Args&... args) {
  return absl::NotFoundError(absl::StrCat(args...));
}
template <typename... Args>
absl::Status Unimplemented(const Args&... args) {
  return absl::UnimplementedError(absl::StrCat(args...));
}
template <typename... Args>
absl::Status FailedPrecondition(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(args...));
}
template <typename... Args>
absl::Status ResourceExhausted(const Args&... args) {
  return absl::ResourceExhaustedError(absl::StrCat(args...));
}
template <typename... Args>
absl::Status Internal(const Args&... args) {
  return absl::InternalError(absl::StrCat(args...));
}

/// Returns `status` with "`where`: " put before its text; payloads and an OK status stay as they
/// are.
absl::Status Annotate(const absl::Status& status, absl::string_view where);

}  // namespace formwork

#define FORMWORK_CONCAT_INNER(a, b) a##b
#define FORMWORK_CONCAT(a, b) FORMWORK_CONCAT_INNER(a, b)

#define FORMWORK_RETURN_IF_ERROR(expr)                                  \
  do {                                                                  \
    if (absl::Status formwork_status = (expr); !formwork_status.ok()) { \
      return formwork_status;                                           \
    }                                                                   \
  } while (false)

#define FORMWORK_ASSIGN_OR_RETURN(lhs, expr) \
  FORMWORK_ASSIGN_OR_RETURN_IMPL(FORMWORK_CONCAT(formwork_or_, __LINE__), lhs, expr)
#define FORMWORK_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) return std::move(result).status();    \
  lhs = *std::move(result)
