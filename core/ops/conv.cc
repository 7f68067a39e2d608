#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterConvOps(OpRegistry& registry) {
  registry.Add(
      "Conv2D(input: T, filter: T) -> (output: T); T: {half, bfloat16, float, double, "
      "int32}; strides: list(int); use_cudnn_on_gpu: bool = true; padding: {\"SAME\", "
      "\"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: {\"NHWC\", "
      "\"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {});
  registry.Add(
      "Conv2DBackpropInput(input_sizes: int32, filter: T, out_backprop: T) -> (output: T); "
      "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: "
      "bool = true; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = "
      "[]; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {});
  registry.Add(
      "Conv2DBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) -> (output: T);"
      " T: {half, bfloat16, float, double}; strides: list(int); use_cudnn_on_gpu: bool = "
      "true; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; "
      "data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {});
  registry.Add(
      "MaxPool(input: T) -> (output: T); T: {half, bfloat16, float, double, int32, int64, "
      "uint8, int16, int8, uint16, qint8} = float; ksize: list(int) >= 4; strides: "
      "list(int) >= 4; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int)"
      " = []; data_format: {\"NHWC\", \"NCHW\", \"NCHW_VECT_C\"} = \"NHWC\"",
      {});
  registry.Add(
      "DepthwiseConv2dNative(input: T, filter: T) -> (output: T); T: {half, bfloat16, "
      "float, double}; strides: list(int); padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; "
      "explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; "
      "dilations: list(int) = [1, 1, 1, 1]",
      {});
  registry.Add(
      "MaxPoolGrad(orig_input: T, orig_output: T, grad: T) -> (output: T); ksize: list(int)"
      " >= 4; strides: list(int) >= 4; padding: {\"SAME\", \"VALID\", \"EXPLICIT\"}; "
      "explicit_paddings: list(int) = []; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; T: "
      "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
      "uint64} = float",
      {});
  registry.Add(
      "AvgPool(value: T) -> (output: T); ksize: list(int) >= 4; strides: list(int) >= 4; "
      "padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"; T: {half, "
      "bfloat16, float, double}",
      {});
  registry.Add(
      "DepthwiseConv2dNativeBackpropFilter(input: T, filter_sizes: int32, out_backprop: T) "
      "-> (output: T); T: {half, bfloat16, float, double}; strides: list(int); padding: "
      "{\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: "
      "{\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {});
  registry.Add(
      "DepthwiseConv2dNativeBackpropInput(input_sizes: int32, filter: T, out_backprop: T) "
      "-> (output: T); T: {half, bfloat16, float, double}; strides: list(int); padding: "
      "{\"SAME\", \"VALID\", \"EXPLICIT\"}; explicit_paddings: list(int) = []; data_format: "
      "{\"NHWC\", \"NCHW\"} = \"NHWC\"; dilations: list(int) = [1, 1, 1, 1]",
      {});
  registry.Add(
      "AvgPoolGrad(orig_input_shape: int32, grad: T) -> (output: T); ksize: list(int) >= 4;"
      " strides: list(int) >= 4; padding: {\"SAME\", \"VALID\"}; data_format: {\"NHWC\", \"NCHW\"} "
      "= \"NHWC\"; T: {half, bfloat16, float, double}",
      {});
}

}  // namespace formwork
