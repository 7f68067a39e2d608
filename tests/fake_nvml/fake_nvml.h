#pragma once

// A library with the functions of NVML that gpu/nvml.cc asks for, which do as a test says.

#include <atomic>
#include <string>

namespace formwork::testing {

/// What the functions do. The library has one, as the symbol "fake_nvml".
struct FakeNvml {
  std::atomic<int> init = 0, find = 0, utilization = 0, memory = 0, temperature = 0, power = 0;
  ///< The errors that they return.
  std::atomic<bool> hangs = false;    ///< Utilization is told once it does not any more.
  std::atomic<unsigned> percent = 0;  ///< Utilization; of memory 1 less.
  std::atomic<int> inits = 0, finds = 0, readings = 0;  ///< How often they were called.
  std::string bus_id;                                   ///< That was last asked for.
};

}  // namespace formwork::testing
