#pragma once

// NVIDIA GPUs. The one header of this folder that others include; no CUDA type is in it.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// The GPU that CUDA numbers `ordinal`, named "cuda:<ordinal>". Memory is stream-ordered and stays
/// with the process once taken. Work is called by Launch itself; it enqueues on the stream that
/// gpu/cuda_stream.h tells. Then's functions run on one thread of the device.
/// Errors: kUnavailable if there is no such GPU, or no driver that this build can use.
absl::StatusOr<std::unique_ptr<Device>> NewCudaDevice(int ordinal);

/// What a part of a graph must have to do, in EstimateWork's nanoseconds, which are a CPU's, to be
/// worth a stream of its own: some 10 us of a GPU's time, for its event and waits take the host 3
/// us beside what the launches do.
inline constexpr double kLeastGpuStreamWork = 20e6;

/// Whether products and convolutions of floats may multiply them as TF32, on tensor cores: with 10
/// bits behind the point instead of 23, and added as floats. Not at first; of products whose
/// algorithm is chosen from now on.
void AllowTf32(bool allow);

/// Whether each kernel has to give the same bits each time that it is given the same ones; not at
/// first. Ops whose kernels change one element from several threads, in no order, are the host's
/// then: of RegisterCudaKernels from now on, and of products whose algorithm is chosen from now on.
void RequireDeterminism(bool require);

/// Kernels that are compiled from now on are kept in `folder`, and found there (code_cache.h).
/// Once, before there are any.
void KeepCudaCode(const std::string& folder);

/// What GPUs compute; all else the host does for them. To be
/// EngineOptions::register_device_kernels.
void RegisterCudaKernels(KernelRegistry& registry);

}  // namespace formwork
