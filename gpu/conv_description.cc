#include "gpu/conv_description.h"

#include <utility>

namespace formwork {
namespace {

// Of dimensions in the order [outer, channels, rows, columns].
ConvDescription::Operand Images(int64_t outer, int64_t channels, int64_t rows, int64_t columns,
                                bool channels_first) {
  const int64_t image = channels * rows * columns;
  if (channels_first) {
    return {{outer, channels, rows, columns}, {image, rows * columns, columns, 1}};
  }
  return {{outer, channels, rows, columns}, {image, 1, columns * channels, channels}};
}

// Where the outputs are as many as padding and window give.
bool Covers(const ConvAxis& axis) {
  const int64_t window = (axis.taps - 1) * axis.dilation + 1;
  const int64_t room = axis.input + axis.pad_before + axis.pad_after - window;
  return axis.pad_before >= 0 && axis.pad_after >= 0 && room >= 0 &&
         room / axis.stride + 1 == axis.output;
}

}  // namespace

std::optional<ConvDescription> ConvDescription::Of(const ConvShape& shape) {
  if (shape.input_elements() == 0 || shape.output_elements() == 0 || shape.filter_elements() == 0) {
    return std::nullopt;
  }
  if (shape.groups > 1 && shape.in_group() == 1) return std::nullopt;
  const ConvAxis& rows = shape.rows;
  const ConvAxis& cols = shape.cols;
  if (!Covers(rows) || !Covers(cols)) return std::nullopt;
  const bool first = shape.channels_first;
  return ConvDescription{Images(shape.batch, shape.in_channels, rows.input, cols.input, first),
                         Images(shape.out_channels, shape.in_group(), rows.taps, cols.taps, first),
                         Images(shape.batch, shape.out_channels, rows.output, cols.output, first),
                         {rows.pad_before, cols.pad_before},
                         {rows.pad_after, cols.pad_after},
                         {rows.stride, cols.stride},
                         {rows.dilation, cols.dilation}};
}

Move FilterMove(const ConvShape& shape, bool back) {
  const int64_t taps = shape.rows.taps * shape.cols.taps;
  const int64_t in = shape.in_group(), out = shape.out_channels;
  const int64_t of_tap = shape.channels_first ? 1 : in;
  const int64_t of_channel = shape.channels_first ? taps : 1;
  // Of sizes, steps in the op's order, and steps in the other.
  Move move;
  move.dims = {{taps, in * out, of_tap}, {in, out, of_channel}, {out, 1, taps * in}};
  if (back) {
    for (auto& dim : move.dims) std::swap(dim.src, dim.dst);
  }
  return move;
}

ElementProgram EpilogueProgram(const Epilogue& epilogue, DType dtype) {
  ElementProgram program;
  program.inputs.assign(static_cast<size_t>(1 + epilogue.num_operands()), dtype);
  uint16_t value = 0, next = 1;
  const auto step = [&](absl::string_view op, absl::InlinedVector<uint16_t, 3> operands) {
    program.instructions.push_back({FindElementOp(op), std::move(operands), dtype});
    value = static_cast<uint16_t>(program.inputs.size() + program.instructions.size() - 1);
  };
  if (epilogue.scale) step("Mul", {value, next++});
  if (epilogue.bias) step("AddV2", {value, next++});
  if (epilogue.residual) step("AddV2", {value, next++});
  switch (epilogue.activation) {
    case Activation::kNone:
      break;
    case Activation::kRelu:
      step("Relu", {value});
      break;
    case Activation::kRelu6:
      step("Relu6", {value});
      break;
    case Activation::kGelu:
      step("_Gelu", {value});
      break;
  }
  program.outputs = {value};
  program.keeps = {false};
  return program;
}

}  // namespace formwork
