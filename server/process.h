#pragma once

// formwork-server as a process: reads its settings, serves until SIGTERM or SIGINT, drains, ends.

namespace formwork {

class Device;

namespace server {

/// What main does; returns the exit code. `device`: EngineOptions::device.
int RunProcess(int argc, const char* const* argv, Device* device);

}  // namespace server
}  // namespace formwork
