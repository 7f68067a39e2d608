#pragma once

// Convolutions on a GPU (conv_functions.h): how a call's sizes become the items' numbers, and in
// which stages they are run. Needs no CUDA itself.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/ops/conv.h"
#include "core/tensor/dtype.h"
#include "gpu/conv_functions.h"
#include "gpu/moves.h"

namespace formwork {

/// Each runs one kind of item.
enum class ConvStage : uint8_t { kPatches, kUnpatch, kForward, kInput, kFilter, kFilterSums };
inline constexpr int kConvStages = static_cast<int>(ConvStage::kFilterSums) + 1;

/// Such as "ConvItem<half>"; of kPatches "PatchItem<", by units of bytes (ItemKernel's).
std::string ConvItemName(ConvStage stage, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& ConvText();

formwork_element::ConvSizes ConvSizesOf(const ConvShape& shape);

/// A convolution of images, channels last, as a product of patches [rows, columns] by the filter
/// [columns, out_channels]; so many of the patches are in memory at once.
struct PatchPlan {
  int64_t rows, columns, out_channels;
  int64_t rows_of_image;
  int64_t chunk;    ///< Rows: of some images, or a part of one.
  bool are_images;  ///< The images are the matrix of patches already.
  size_t element_bytes;

  /// None where items do it one by one: of groups, of channels first, and of no elements.
  static std::optional<PatchPlan> Of(const ConvShape& shape, size_t element_bytes);
  /// In chunks, unless the images are the patches.
  static PatchPlan Of(int64_t batch, int64_t rows_of_image, int64_t columns, int64_t out_channels,
                      bool are_images, size_t element_bytes);

  size_t MemoryBytes() const { return are_images ? 0 : BytesOf(chunk * columns); }
  size_t BytesOf(int64_t elements) const { return static_cast<size_t>(elements) * element_bytes; }
};

/// One of the products that a convolution is: `out` [m, n] is x [m, k] by y [k, n], of which one
/// may lie transposed, and where there is a residual [m, n] the sum of both.
struct PatchProduct {
  int64_t m, n, k;
  const char* x;
  const char* y;
  const char* residual;
  char* out;
};

/// `make(first, rows)` of each chunk.
template <typename Make>
absl::Status ForChunks(const PatchPlan& plan, Make make) {
  for (int64_t first = 0; first < plan.rows;) {
    int64_t rows = std::min(plan.chunk, plan.rows - first);
    if (plan.chunk < plan.rows_of_image) {
      rows = std::min(rows, plan.rows_of_image - first % plan.rows_of_image);
    }
    FORMWORK_RETURN_IF_ERROR(make(first, rows));
    first += rows;
  }
  return absl::OkStatus();
}

/// Makes patches of a chunk in `memory`. `run(stage, item, n)`: n items after what was run before.
/// Errors: its.
template <typename Run>
absl::Status MakePatches(const ConvShape& shape, const PatchPlan& plan, const char* in,
                         char* memory, int64_t first, int64_t rows, Run& run) {
  const formwork_element::ConvSizes sizes = ConvSizesOf(shape);
  const size_t bytes = plan.BytesOf(shape.in_channels);
  return WithUnit(UnitOf(bytes), [&](auto unit) {
    using Unit = decltype(unit);
    const uint64_t units = bytes / sizeof(Unit);
    const auto taps = static_cast<uint64_t>(shape.rows.taps * shape.cols.taps);
    return run(ConvStage::kPatches,
               formwork_element::PatchItem<Unit>{
                   reinterpret_cast<const Unit*>(in), reinterpret_cast<Unit*>(memory), units,
                   static_cast<uint64_t>(first), sizes.rows, sizes.cols},
               static_cast<uint64_t>(rows) * taps * units);
  });
}

/// The gradient of that: what the patches in `memory` say of `out`, the input's gradient. Elements
/// are of type E.
template <typename E, typename Run>
absl::Status TakePatches(const ConvShape& shape, const PatchPlan& plan, const char* memory,
                         char* out, int64_t first, int64_t rows, Run& run) {
  const int64_t image = first / plan.rows_of_image;
  const int64_t images = (first + rows - 1) / plan.rows_of_image - image + 1;
  const int64_t elements = shape.rows.input * shape.cols.input * shape.in_channels;
  char* const to = out + plan.BytesOf(image * elements);
  return run(ConvStage::kUnpatch,
             formwork_element::UnpatchItem<E>{reinterpret_cast<const E*>(memory),
                                              reinterpret_cast<E*>(to), first, rows, image,
                                              ConvSizesOf(shape), first % plan.rows_of_image != 0},
             static_cast<uint64_t>(images * elements));
}

/// Conv2D; here and below of any shape that patches are made and taken of. `memory`:
/// plan.MemoryBytes(); `multiply(PatchProduct)`: after what was run before. Errors: theirs.
template <typename Of, typename Run, typename Multiply>
absl::Status RunConvByPatches(const Of& shape, const PatchPlan& plan, const char* in,
                              const char* filter, const char* residual, char* out, char* memory,
                              Run run, Multiply multiply) {
  return ForChunks(plan, [&](int64_t first, int64_t rows) -> absl::Status {
    const size_t of_out = plan.BytesOf(first * plan.out_channels);
    if (!plan.are_images) {
      FORMWORK_RETURN_IF_ERROR(MakePatches(shape, plan, in, memory, first, rows, run));
    }
    return multiply({rows, plan.out_channels, plan.columns, plan.are_images ? in : memory, filter,
                     residual == nullptr ? nullptr : residual + of_out, out + of_out});
  });
}

/// Conv2DBackpropInput, of elements E: `multiply` by the filter transposed.
template <typename E, typename Of, typename Run, typename Multiply>
absl::Status RunConvInputByPatches(const Of& shape, const PatchPlan& plan, const char* filter,
                                   const char* dy, char* out, char* memory, Run run,
                                   Multiply multiply) {
  return ForChunks(plan, [&](int64_t first, int64_t rows) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(multiply({rows, plan.columns, plan.out_channels,
                                       dy + plan.BytesOf(first * plan.out_channels), filter,
                                       nullptr, plan.are_images ? out : memory}));
    if (plan.are_images) return absl::OkStatus();
    return TakePatches<E>(shape, plan, memory, out, first, rows, run);
  });
}

/// Conv2DBackpropFilter: `multiply` of the patches transposed.
template <typename Of, typename Run, typename Multiply>
absl::Status RunConvFilterByPatches(const Of& shape, const PatchPlan& plan, const char* in,
                                    const char* dy, char* out, char* memory, Run run,
                                    Multiply multiply) {
  return ForChunks(plan, [&](int64_t first, int64_t rows) -> absl::Status {
    if (!plan.are_images) {
      FORMWORK_RETURN_IF_ERROR(MakePatches(shape, plan, in, memory, first, rows, run));
    }
    return multiply({plan.columns, plan.out_channels, rows, plan.are_images ? in : memory,
                     dy + plan.BytesOf(first * plan.out_channels), first == 0 ? nullptr : out,
                     out});
  });
}

/// The parts that each element of a filter's gradient is summed in.
int64_t FilterParts(const ConvShape& shape);

/// The same item by item. `sums`: FilterParts for each element.
template <typename E, typename Run>
absl::Status RunConvFilterByItems(const ConvShape& shape, const E* in, const E* dy, E* out,
                                  double* sums, Run run) {
  const auto elements = static_cast<uint64_t>(shape.filter_elements());
  const int64_t parts = FilterParts(shape);
  FORMWORK_RETURN_IF_ERROR(
      run(ConvStage::kFilter,
          formwork_element::ConvFilterItem<E>{in, dy, sums,
                                              shape.batch * shape.rows.output * shape.cols.output,
                                              parts, ConvSizesOf(shape)},
          elements * static_cast<uint64_t>(parts)));
  return run(ConvStage::kFilterSums,
             formwork_element::ConvFilterSumItem<E>{sums, out, elements, parts}, elements);
}

}  // namespace formwork
