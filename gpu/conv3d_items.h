#pragma once

// Convolutions of volumes on a GPU (conv3d_functions.h), as products of patches by the filter: what
// RunConvByPatches and its like (conv_items.h) need of them. Needs no CUDA itself.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/ops/conv3d.h"
#include "core/tensor/dtype.h"
#include "gpu/conv3d_functions.h"
#include "gpu/conv_items.h"

namespace formwork {

formwork_element::ConvVolume ConvVolumeOf(const Conv3dShape& shape);
/// None where there are no elements.
std::optional<PatchPlan> PlanConv3d(const Conv3dShape& shape, size_t element_bytes);

template <typename Run>
absl::Status MakePatches(const Conv3dShape& shape, const PatchPlan& plan, const char* in,
                         char* memory, int64_t first, int64_t rows, Run& run) {
  const formwork_element::ConvVolume volume = ConvVolumeOf(shape);
  const size_t bytes = plan.BytesOf(shape.in_channels);
  return WithUnit(UnitOf(bytes), [&](auto unit) {
    using Unit = decltype(unit);
    const uint64_t units = bytes / sizeof(Unit);
    return run(ConvStage::kPatches,
               formwork_element::Patch3dItem<Unit>{reinterpret_cast<const Unit*>(in),
                                                   reinterpret_cast<Unit*>(memory), units,
                                                   static_cast<uint64_t>(first), volume},
               static_cast<uint64_t>(rows) * volume.Taps() * units);
  });
}

template <typename E, typename Run>
absl::Status TakePatches(const Conv3dShape& shape, const PatchPlan& plan, const char* memory,
                         char* out, int64_t first, int64_t rows, Run& run) {
  const int64_t image = first / plan.rows_of_image;
  const int64_t images = (first + rows - 1) / plan.rows_of_image - image + 1;
  const int64_t elements =
      shape.axes[0].input * shape.axes[1].input * shape.axes[2].input * shape.in_channels;
  char* const to = out + plan.BytesOf(image * elements);
  return run(ConvStage::kUnpatch,
             formwork_element::Unpatch3dItem<E>{
                 reinterpret_cast<const E*>(memory), reinterpret_cast<E*>(to), first, rows, image,
                 shape.in_channels, ConvVolumeOf(shape), first % plan.rows_of_image != 0},
             static_cast<uint64_t>(images * elements));
}

/// "Unpatch3dItem<...>"; of patches it is "Patch3dItem<" by units of bytes (ItemKernel's).
std::string Unpatch3dItemName(DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& Conv3dText();

}  // namespace formwork
