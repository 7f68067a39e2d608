#pragma once

// What NVML's functions are given, as NVIDIA's documentation declares it: its header is a part of
// CUDA that is not asked for. Private to gpu/, and the tests' stand-in for the library.

struct nvmlDevice_st;
struct nvmlUtilization_st {
  unsigned gpu, memory;  // Percent of the last sample's time.
};
struct nvmlMemory_st {
  unsigned long long total, free, used;  // Bytes.
};
