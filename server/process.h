#pragma once

// formwork-server as a process: reads its settings, serves until SIGTERM or SIGINT, drains, ends.

#include "core/engine.h"

namespace formwork::server {

/// What main does; returns the exit code. `engine`: its options before the settings change them.
int RunProcess(int argc, const char* const* argv, const EngineOptions& engine);

}  // namespace formwork::server
