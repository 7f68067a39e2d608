#pragma once

#include <cstddef>

namespace formwork::server {

/// What the system says of this process, as /proc has it; 0 where it cannot be read.
struct ProcessStats {
  double cpu_seconds = 0;         ///< User and system.
  double start_time_seconds = 0;  ///< Since 1970.
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double threads = 0;
  double open_fds = 0;
  double max_fds = 0;
};

ProcessStats ReadProcessStats();

}  // namespace formwork::server
