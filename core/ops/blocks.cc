#include "core/ops/blocks.h"

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// Without the output. `name` and `title`: of the margins, in errors.
absl::StatusOr<BlocksGeometry> ReadBlocks(absl::Span<const int64_t> input,
                                          const Tensor& block_shape, const Tensor& margins,
                                          absl::string_view name, absl::string_view title) {
  if (block_shape.rank() != 1) {
    return InvalidArgument("block_shape rank should be 1 instead of ", block_shape.rank());
  }
  const int64_t n = block_shape.num_elements();
  if (static_cast<int64_t>(input.size()) < 1 + n) {
    return InvalidArgument("input rank should be >= ", 1 + n, " instead of ", input.size());
  }
  if (margins.rank() != 2 || margins.dim(0) != n || margins.dim(1) != 2) {
    return InvalidArgument(name, " should have shape [", n, ", 2] instead of ",
                           margins.shape().ToString());
  }
  BlocksGeometry blocks;
  FORMWORK_ASSIGN_OR_RETURN(blocks.size, IntegersOf(block_shape, "block_shape"));
  FORMWORK_ASSIGN_OR_RETURN(const Dims flat, IntegersOf(margins, name));
  for (int64_t i = 0; i < n; ++i) {
    if (blocks.size[i] < 1) {
      return InvalidArgument("All values in block_shape must be positive, got value, ",
                             blocks.size[i], " at index ", i, ".");
    }
    if (flat[2 * i] < 0 || flat[2 * i + 1] < 0) {
      return InvalidArgument(title, " must be non-negative");
    }
    const std::optional<int64_t> product = CheckedMul(blocks.product, blocks.size[i]);
    if (!product) return InvalidArgument("Product of block sizes overflows");
    blocks.product = *product;
    blocks.before.push_back(flat[2 * i]);
    blocks.after.push_back(flat[2 * i + 1]);
  }
  blocks.output.assign(input.begin(), input.end());
  return blocks;
}

// False where it is known to leave a remainder.
int64_t Divided(int64_t dim, int64_t by) { return dim < 0 ? -1 : dim / by; }

}  // namespace

absl::Status CheckImages(absl::Span<const int64_t> input) {
  if (input.size() == 4) return absl::OkStatus();
  return InvalidArgument("Input rank should be: 4 instead of: ", input.size());
}

absl::StatusOr<Tensor> SquareBlock(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, attrs.Get<int64_t>("block_size"));
  Tensor block;
  block.ResetInside(DType::kInt64, Shape{2});
  for (int64_t& each : block.mutable_span<int64_t>()) each = size;
  return block;
}

absl::StatusOr<BlocksGeometry> PrepareSpaceToBatch(absl::Span<const int64_t> input,
                                                   const Tensor& block_shape,
                                                   const Tensor& paddings) {
  FORMWORK_ASSIGN_OR_RETURN(BlocksGeometry blocks,
                            ReadBlocks(input, block_shape, paddings, "paddings", "Paddings"));
  const std::optional<int64_t> batch = MultiplyDims(input[0], blocks.product);
  if (!batch) return InvalidArgument("SpaceToBatchND: the batch overflows");
  blocks.output[0] = *batch;
  for (size_t d = 0; d < blocks.size.size(); ++d) {
    int64_t dim = input[d + 1];
    if (dim < 0) continue;
    if (__builtin_add_overflow(dim, blocks.before[d], &dim) ||
        __builtin_add_overflow(dim, blocks.after[d], &dim)) {
      return InvalidArgument("SpaceToBatchND: paddings overflow dimension ", d + 1);
    }
    if (dim % blocks.size[d] != 0) {
      return InvalidArgument("padded_shape[", d, "]=", dim, " is not divisible by block_shape[", d,
                             "]=", blocks.size[d]);
    }
    blocks.output[d + 1] = dim / blocks.size[d];
  }
  return blocks;
}

absl::StatusOr<BlocksGeometry> PrepareBatchToSpace(absl::Span<const int64_t> input,
                                                   const Tensor& block_shape, const Tensor& crops) {
  FORMWORK_ASSIGN_OR_RETURN(BlocksGeometry blocks,
                            ReadBlocks(input, block_shape, crops, "crops", "Crops"));
  if (!MayDivide(input[0], blocks.product)) {
    return InvalidArgument("Input batch dimension (", input[0],
                           ") is not divisible by product of block sizes (", blocks.product, ")");
  }
  blocks.output[0] = Divided(input[0], blocks.product);
  for (size_t d = 0; d < blocks.size.size(); ++d) {
    if (input[d + 1] < 0) continue;
    const std::optional<int64_t> dim = CheckedMul(input[d + 1], blocks.size[d]);
    if (!dim) return InvalidArgument("BatchToSpaceND: dimension ", d + 1, " overflows");
    int64_t cropped = *dim;
    if (__builtin_sub_overflow(cropped, blocks.before[d], &cropped) ||
        __builtin_sub_overflow(cropped, blocks.after[d], &cropped) || cropped < 0) {
      return InvalidArgument("cropped_shape[", d, "]=", cropped, " must be non-negative");
    }
    blocks.output[d + 1] = cropped;
  }
  return blocks;
}

absl::StatusOr<DepthAttrs> DepthAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t block, attrs.Get<int64_t>("block_size"));
  FORMWORK_ASSIGN_OR_RETURN(const std::string format, attrs.Get<std::string>("data_format"));
  if (block < 2 || block > (int64_t{1} << 30)) {
    return InvalidArgument("Block size should be > 1, but was: ", block);
  }
  if (format != "NHWC" && format != "NCHW") {
    return Unimplemented("data_format ", format, " is not supported");
  }
  return DepthAttrs{.block = block, .channels_first = format == "NCHW"};
}

absl::StatusOr<Dims> PrepareSpaceToDepth(const DepthAttrs& attrs, absl::Span<const int64_t> input) {
  FORMWORK_RETURN_IF_ERROR(CheckImages(input));
  const int64_t height = input[attrs.rows()], width = input[attrs.cols()];
  if (!MayDivide(height, attrs.block) || !MayDivide(width, attrs.block)) {
    return InvalidArgument("Image width ", width, " and height ", height,
                           " should be divisible by block_size: ", attrs.block);
  }
  const std::optional<int64_t> depth =
      MultiplyDims(input[attrs.channels()], attrs.block * attrs.block);
  if (!depth) return InvalidArgument("SpaceToDepth: the depth overflows");
  Dims output(input.begin(), input.end());
  output[attrs.rows()] = Divided(height, attrs.block);
  output[attrs.cols()] = Divided(width, attrs.block);
  output[attrs.channels()] = *depth;
  return output;
}

absl::StatusOr<Dims> PrepareDepthToSpace(const DepthAttrs& attrs, absl::Span<const int64_t> input) {
  FORMWORK_RETURN_IF_ERROR(CheckImages(input));
  const int64_t square = attrs.block * attrs.block;
  if (!MayDivide(input[attrs.channels()], square)) {
    return InvalidArgument("Input depth dimension ", input[attrs.channels()],
                           " should be divisible by: ", square);
  }
  Dims output(input.begin(), input.end());
  for (int d = attrs.rows(); d <= attrs.cols(); ++d) {
    const std::optional<int64_t> dim = MultiplyDims(input[d], attrs.block);
    if (!dim) return InvalidArgument("DepthToSpace: dimension ", d, " overflows");
    output[d] = *dim;
  }
  output[attrs.channels()] = Divided(input[attrs.channels()], square);
  return output;
}

}  // namespace formwork
