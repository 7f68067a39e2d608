#pragma once

// A call's timeline as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open.

#include <string>

#include "absl/status/status.h"
#include "formwork/v1/timelines.pb.h"

namespace formwork::command {

/// Chrome's trace format: a track is a thread of the process `name`; times are in microseconds
/// from the call's arrival on. Indices that stand for nothing are shown as empty texts.
std::string ChromeTrace(const v1::Timeline& timeline, const std::string& name);

/// Errors: kUnavailable if the file cannot be written.
absl::Status WriteChromeTrace(const v1::Timeline& timeline, const std::string& name,
                              const std::string& path);

}  // namespace formwork::command
