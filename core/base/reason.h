#pragma once

// What a failed request says to programs beside its code: why, what a client can act on, and which
// field of the request is meant. All of it travels in the status, so that it passes every layer
// between who knows it and who answers.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

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
  kAnswerForgotten = 14,
  kDeviceLost = 15,
};

/// An entry of google.rpc.ErrorInfo's metadata: a key in lowerCamelCase, as "functionId", and the
/// value as text.
struct ErrorFact {
  absl::string_view key;
  absl::AlphaNum value;
};

/// `status`, which is an error, with `reason` in place of any that it had, and with `facts`.
absl::Status WithReason(absl::Status status, Reason reason,
                        std::initializer_list<ErrorFact> facts = {});

/// kNone where none was given.
Reason ReasonOf(const absl::Status& status);

/// The facts of `status`, by key.
std::vector<std::pair<std::string, std::string>> FactsOf(const absl::Status& status);

/// `status` with `field` as the request's field that it is about, in formwork.v1's words:
/// "inputs[3]". Where a field is known already, that one is within `field`: "id" becomes
/// "variable.id". An OK status stays as it is.
absl::Status InField(absl::Status status, absl::string_view field);

/// Empty where none was given.
std::string FieldOf(const absl::Status& status);

}  // namespace formwork
