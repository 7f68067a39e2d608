#pragma once

// The constants of a plan for a device (core/graph/placement.h says where its values are).

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/graph/placement.h"
#include "core/plan/plan.h"

namespace formwork {

/// Copies the constants that are wanted on the device to `memory`, which is its, enqueued on
/// `stream`, and drops those that nobody reads in host memory. `wanted`: where, of each.
absl::Status PlaceConstants(Plan& plan, absl::Span<const Memory> wanted, Allocator& memory,
                            Stream& stream, Allocator& host);

}  // namespace formwork
