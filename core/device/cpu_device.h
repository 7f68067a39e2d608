#pragma once

// The host as a Device. A stream has no thread of its own: with nothing pending, work runs on the
// thread that launches it, before Launch returns; else on the thread that makes the awaited event
// happen, or that is running the stream's earlier work.

#include <memory>

#include "core/device/device.h"

namespace formwork {

/// A device whose memory comes from `allocator`, which outlives the device and its buffers. Pending
/// work holds its buffers, so memory goes back when its last use has run, whatever the stream.
std::unique_ptr<Device> NewCpuDevice(Allocator& allocator);

}  // namespace formwork
