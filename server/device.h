#pragma once

// The device that --device names.

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/device.h"
#include "core/engine.h"

namespace formwork::server {

/// "cuda:N": that GPU. "auto": the first one, or null where there is none that can be used, which
/// is logged. "cpu": null. Errors: kInvalidArgument for another name, or a GPU in a build without
/// gpu/; kUnavailable if there is no such GPU.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(absl::string_view name);
/// Has the engine run plans on `device`, one that OpenDevice gave, which outlives it, with most of
/// its memory unless the options have a limit. Where there is a data directory, what is compiled
/// for the device is kept there.
void UseDevice(Device& device, EngineOptions* options);

/// Has GPUs multiply floats as TF32 (gpu/gpu.h). Before functions are compiled.
void UseTf32();
/// Has GPUs give the same bits each time (gpu/gpu.h). Before there is an engine.
void UseDeterminism();

}  // namespace formwork::server
