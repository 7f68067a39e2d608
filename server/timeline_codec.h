#pragma once

#include <string>

#include "core/base/timeline.h"

namespace formwork::server {

/// formwork.v1.Timeline, serialized: below 2 MiB. Empty where there is no memory for it, for which
/// no call is to fail.
std::string EncodeTimeline(const Timeline& timeline);

}  // namespace formwork::server
