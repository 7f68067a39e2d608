#pragma once

// A stream in front of a call's own that writes to the call's timeline what runs there, and when.

#include <memory>

#include "core/base/timeline.h"
#include "core/device/device.h"

namespace formwork {

/// `stream` outlives it. Everything is known by the step that is at hand when it is enqueued
/// (TimelineRecorder::SetStep). `track`: the stream's name.
std::unique_ptr<Stream> RecordStream(Stream& stream, std::shared_ptr<TimelineRecorder> recorder,
                                     absl::string_view track);

}  // namespace formwork
