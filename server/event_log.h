#pragma once

// The log's lines of what happens to requests and to what the server keeps. Each kind is bounded
// (ten at once, then one a second), whatever clients do; names of clients' are shown escaped and
// cut. Thread-safe.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "server/call_metrics.h"

namespace formwork::server {

/// A call that took longer than --slow-call-ms.
void LogSlowCall(const FinishedCall& call);
/// A request that the server refused for its own sake; `cause`: as formwork_refusals_total names
/// it.
void LogRefusedCall(absl::string_view cause, const FinishedCall& call);
void LogRefusedRequest(absl::string_view cause, absl::string_view method,
                       const absl::Status& status);
void LogEviction(const Eviction& eviction);
/// A snapshot that was taken, at level debug, or could not be.
void LogSnapshot(const absl::StatusOr<SnapshotInfo>& taken);
/// A function of the last snapshot that cannot be registered any more.
void LogLostFunction(absl::string_view name, const absl::Status& status);
/// An iterator of the last snapshot that is not where it was.
void LogLostPosition(absl::string_view name, const absl::Status& status);
/// A device that a graph names and that is not here.
void LogMissingDevice(absl::string_view device);

}  // namespace formwork::server
