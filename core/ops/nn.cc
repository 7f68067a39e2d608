#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterNnOps(OpRegistry& registry) {
  registry.Add(
      "BiasAdd(value: T, bias: T) -> (output: T); T: {float, double, int32, uint8, int16, "
      "int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
      "complex128, half, uint32, uint64}; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"",
      {});
  registry.Add(
      "BiasAddGrad(out_backprop: T) -> (output: T); T: {float, double, int32, uint8, int16,"
      " int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, "
      "complex128, half, uint32, uint64}; data_format: {\"NHWC\", \"NCHW\"} = \"NHWC\"",
      {});
  registry.Add("Softmax(logits: T) -> (softmax: T); T: {half, bfloat16, float, double}", {});
  registry.Add("LogSoftmax(logits: T) -> (logsoftmax: T); T: {half, bfloat16, float, double}", {});
  registry.Add(
      "SparseSoftmaxCrossEntropyWithLogits(features: T, labels: Tlabels) -> (loss: T, "
      "backprop: T); T: {half, bfloat16, float, double}; Tlabels: {int32, int64} = int64",
      {});
  registry.Add(
      "SoftmaxCrossEntropyWithLogits(features: T, labels: T) -> (loss: T, backprop: T); T: "
      "{half, bfloat16, float, double}",
      {});
  registry.Add(
      "TopKV2(input: T, k: Tk) -> (values: T, indices: index_type); sorted: bool = true; T:"
      " {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
      "uint64}; Tk: {int16, int32, int64} = int32; index_type: {int16, int32, int64} = "
      "int32",
      {});
}

}  // namespace formwork
