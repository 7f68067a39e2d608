#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// The whole of a file of the folder that the server has for them, at most as long as other texts.
/// Errors: those of PathInFolder; kNotFound and the like name the file as `name` does,
/// kFailedPrecondition where it is no plain file, kResourceExhausted where it is too long; those of
/// a call that is to stop.
absl::StatusOr<std::string> WholeFile(CallScope& call, const std::string& name);

}  // namespace formwork
