#pragma once

// Why a request failed, for programs, where the code alone does not say what to do next. It travels
// in the status, so that it passes every layer between who knows it and who answers.

#include <cstdint>

#include "absl/status/status.h"

namespace formwork {

/// The numbers are those of formwork.v1.Reason.
enum class Reason : uint8_t {
  kNone = 0,
  kEpochMismatch = 1,
  kFunctionNotFound = 2,
  kNoMatchingSignature = 3,
  kVariableNotFound = 4,
  kTensorNotFound = 5,
  kGraphNotFound = 6,
  kVariableDeleted = 7,
  kVariableUninitialized = 8,
  kMemoryLimit = 9,
  kQueueFull = 10,
  kQuota = 11,
  kOpNotSupported = 12,
  kDraining = 13,
};

/// `status`, which is an error, with `reason` in place of any that it had.
absl::Status WithReason(absl::Status status, Reason reason);

/// kNone where none was given.
Reason ReasonOf(const absl::Status& status);

}  // namespace formwork
