"""Arithmetic with quantized values: of ranges, and of scales and zero points."""
import tensorflow as tf

from generate import case, error, tensor, uniform


def quint8(shape, seed=1):
  return uniform(shape, 0, 256, seed, "quint8")


def qint8(shape, seed=1):
  return uniform(shape, -128, 128, seed, "qint8")


RANGES = [(-1.0, 3.0, -2.0, 2.0), (1.0, 3.0, -2.0, 2.0), (-4.0, -1.0, 0.5, 0.75)]
WIDE = tensor("qint32", [-2**31, -70000, -1, 0, 5, 9999, 2**31 - 1])

# --- QuantizedMatMul
for r in RANGES:
  case("QuantizedMatMul", quint8([2, 3]), quint8([3, 4], 2), *r)
case("QuantizedMatMul", quint8([3, 2]), quint8([3, 4], 2), *RANGES[0], transpose_a=True)
case("QuantizedMatMul", quint8([2, 3]), quint8([4, 3], 2), *RANGES[0], transpose_b=True)
case("QuantizedMatMul", quint8([33, 70]), quint8([70, 50], 2), *RANGES[0])
case("QuantizedMatMul", tensor("quint8", [], [0, 3]), quint8([3, 2]), *RANGES[0])
error("QuantizedMatMul", quint8([2, 3]), quint8([2, 3]), *RANGES[0],
      text="Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]")
error("QuantizedMatMul", quint8([2, 3]), quint8([3, 3]), 3.0, 1.0, 1.0, 2.0,
      text="max_a must be larger than min_a.")
error("QuantizedMatMul", quint8([2, 3]), quint8([3, 3]), 1.0, 2.0, 1.0, 1.0,
      text="max_b must be larger than min_b.")
error("QuantizedMatMul", quint8([2, 3]), quint8([3, 3]), [1.0], 2.0, 1.0, 1.0, text="min_a")

# --- QuantizedAdd, QuantizedMul
for op in ["QuantizedAdd", "QuantizedMul"]:
  for r in RANGES:
    case(op, quint8([2, 3]), quint8([2, 3], 2), *r)
  case(op, quint8([2, 3]), tensor("quint8", 7), *RANGES[0])
  case(op, tensor("quint8", 7), quint8([2, 3]), *RANGES[0])
  case(op, quint8([2, 3]), quint8([3], 2), *RANGES[0])
  case(op, quint8([3]), quint8([2, 3], 2), *RANGES[0])
  case(op, quint8([40, 50]), quint8([50], 2), *RANGES[0])
  error(op, quint8([2, 3]), quint8([3, 2]), *RANGES[0],
        text="Incompatible shapes: [2,3] vs. [3,2]")
  error(op, quint8([3]), quint8([3]), 3.0, 3.0, 1.0, 2.0, text="max_x must be larger than min_")
  error(op, quint8([3]), quint8([3]), 1.0, 3.0, 2.0, 1.0, text="must be larger than min_")
  error(op, quint8([3]), quint8([3]), [1.0], 3.0, 2.0, 3.0, text="min_x")

# --- QuantizedBiasAdd
for values in [quint8, qint8]:
  for r in RANGES:
    case("QuantizedBiasAdd", values([2, 3]), values([3], 2), *r, out_type=tf.qint32)
  case("QuantizedBiasAdd", values([2, 2, 3]), values([3], 2), 3.0, 1.0, 2.0, 2.0,
       out_type=tf.qint32)
error("QuantizedBiasAdd", quint8([2, 3]), quint8([2, 3]), *RANGES[0], out_type=tf.qint32,
      text="Biases must be 1D: [2,3]")
error("QuantizedBiasAdd", quint8([3]), quint8([3]), *RANGES[0], out_type=tf.qint32,
      text="Input tensor must be at least 2D: [3]")
error("QuantizedBiasAdd", quint8([2, 3]), quint8([2]), *RANGES[0], out_type=tf.qint32,
      text="Must provide as many biases as the last dimension of the input tensor: [2] vs. [2,3]")
error("QuantizedBiasAdd", quint8([2, 3]), quint8([3]), [1.0], 2.0, 3.0, 4.0, out_type=tf.qint32,
      text="`min_input` must be rank 0 but is rank 1")

# --- QuantizedRelu, QuantizedRelu6
for op in ["QuantizedRelu", "QuantizedRelu6"]:
  for low, high in [(-1.0, 9.0), (1.0, 9.0), (-5.0, -1.0), (5.0, 1.0), (0.0, 0.0)]:
    case(op, quint8([2, 9]), low, high, out_type=tf.quint8)
    case(op, WIDE, low, high, out_type=tf.qint32)
  error(op, WIDE, [1.0], 2.0, out_type=tf.qint32, text="`min_input` must be rank 0 but is rank 1")

# --- Requantize, RequantizationRange, QuantizeDownAndShrinkRange
for to in [tf.quint8, tf.qint8]:
  for r in [(-1000.0, 1000.0, -2.0, 3.0), (-1000.0, 1000.0, 0.0, 0.0), (5.0, -3.0, -1.0, 2.0),
            (-1000.0, 1000.0, -800.0, 900.0), (0.0, 0.25, -0.25, 0.25)]:
    case("Requantize", WIDE, *r, out_type=to)
    case("Requantize", uniform([5, 9], -2**31, 2**31 - 1, 3, "qint32"), *r, out_type=to)
  error("Requantize", WIDE, 1.0, 2.0, 3.0, 4.0, out_type=to,
        text="requested_output_min must be <= 0, but got 3")
  error("Requantize", WIDE, 1.0, 2.0, -3.0, -4.0, out_type=to,
        text="requested_output_max must be >= requested_output_min, but got -4 and -3")
  error("Requantize", WIDE, [1.0], 2.0, 3.0, 4.0, out_type=to,
        text="must be rank 0 but is rank 1")
for values in [WIDE, tensor("qint32", [5, 99999]), tensor("qint32", [-5, -99999]),
               tensor("qint32", []), tensor("qint32", [3, 3])]:
  for low, high in [(-1000.0, 1000.0), (1000.0, -1000.0)]:
    case("RequantizationRange", values, low, high)
  case("QuantizeDownAndShrinkRange", values, -1000.0, 1000.0, out_type=tf.quint8)

# --- QuantizedConcat, QuantizedReshape
A, B = tensor("quint8", [[1, 2, 200]]), tensor("quint8", [[9, 100, 255]])
for ranges in [([-1.0, -2.0], [3.0, 4.0]), ([1.0, 2.0], [3.0, 4.0]), ([-1.0, -1.0], [3.0, 3.0]),
               ([-3.0, -2.0], [-1.0, -1.0]), ([0.0, 0.0], [0.0, 0.0]), ([1.0, 1.0], [-1.0, 0.0])]:
  for axis in [0, 1]:
    case("QuantizedConcat", axis, [A, B], *ranges)
# Behind an input without elements TensorFlow takes another's range.
case("QuantizedConcat", 0, [A, tensor("quint8", [], [0, 3])], [-3.0, -2.0], [1.0, 1.0])
case("QuantizedConcat", 0, [tensor("qint32", [[5, -7]]), tensor("qint32", [[100000, 2**31 - 1]])],
     [-1.0, -2.0], [3.0, 4.0])
case("QuantizedConcat", 1, [quint8([2, 3, 2]), quint8([2, 1, 2], 2), quint8([2, 2, 2], 3)],
     [-1.0, -2.0, 0.0], [3.0, 4.0, 1.0])
error("QuantizedConcat", -1, [A, B], [-1.0, -1.0], [3.0, 3.0],
      text="ConcatOp : Expected concatenating dimensions in the range [0, 2), but got -1")
error("QuantizedConcat", 5, [A, B], [-1.0, -1.0], [3.0, 3.0], text="but got 5")
error("QuantizedConcat", 0, [A, tensor("quint8", [[1, 2]])], [-1.0, -1.0], [3.0, 3.0],
      text="ConcatOp : Dimension")
error("QuantizedConcat", [0], [A, B], [-1.0, -1.0], [3.0, 3.0],
      text="Concat dim tensor should be a scalar integer, but got shape [1]")
case("QuantizedReshape", A, [3], -1.0, 2.0)
case("QuantizedReshape", A, tensor("int64", [-1, 1]), -1.0, 2.0)
case("QuantizedReshape", WIDE, [1, -1], -1.0, 2.0)
error("QuantizedReshape", A, [5], -1.0, 2.0,
      text="Input to reshape is a tensor with 3 values, but the requested shape has 5")

# --- QuantizedMaxPool, QuantizedAvgPool
for op in ["QuantizedMaxPool", "QuantizedAvgPool"]:
  for values in [quint8, qint8]:
    for padding in ["SAME", "VALID"]:
      case(op, values([2, 5, 4, 2]), -1.0, 2.0, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
           padding=padding)
      case(op, values([1, 5, 4, 2]), -1.0, 2.0, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1],
           padding=padding)
  error(op, quint8([1, 4, 4, 2]), -1.0, 2.0, ksize=[2, 1, 1, 1], strides=[1, 1, 1, 1],
        padding="VALID", text="Pooling is not yet supported on the batch dimension.")
  error(op, quint8([1, 4, 4, 2]), [-1.0, 1.0], 2.0, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1],
        padding="VALID", text="must be rank 0 but is rank 1")
case("QuantizedMaxPool", quint8([1, 4, 4, 4]), -1.0, 2.0, ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2],
     padding="VALID")
error("QuantizedAvgPool", quint8([1, 4, 4, 4]), -1.0, 2.0, ksize=[1, 1, 1, 2],
      strides=[1, 1, 1, 2], padding="VALID", text="Non-spatial pooling is not yet supported.")

# --- QuantizedConv2D
for r in RANGES[:2]:
  for padding in ["SAME", "VALID"]:
    for stride in [1, 2]:
      case("QuantizedConv2D", quint8([2, 5, 4, 2]), quint8([2, 3, 2, 3], 2), *r, padding=padding,
           strides=[1, stride, stride, 1])
case("QuantizedConv2D", quint8([1, 9, 8, 5]), quint8([1, 1, 5, 7], 2), *RANGES[0], padding="SAME",
     strides=[1, 1, 1, 1])
error("QuantizedConv2D", quint8([1, 4, 4, 2]), quint8([2, 2, 1, 1]), *RANGES[0], padding="SAME",
      strides=[1, 1, 1, 1], text="depth")
error("QuantizedConv2D", quint8([1, 4, 4, 2]), quint8([2, 2, 2, 1]), *RANGES[0], padding="SAME",
      strides=[1, 2, 1, 1],
      text="Current implementation only supports equal length strides in the row and column")
error("QuantizedConv2D", quint8([1, 4, 4, 2]), quint8([2, 2, 2, 1]), *RANGES[0], padding="SAME",
      strides=[1, 1, 1, 1], dilations=[1, 2, 2, 1],
      text="Current implementation only supports dilated rate as 1 in the row and column")
error("QuantizedConv2D", quint8([1, 4, 4, 2]), quint8([2, 2, 2, 1]), [1.0], 2.0, 3.0, 4.0,
      padding="SAME", strides=[1, 1, 1, 1], text="min_input must be rank 0 but is rank 1")


# --- UniformQuantize, UniformDequantize, UniformRequantize
def limits(low, high, *prefixes):
  return {prefix + "quantization_" + name: value for prefix in prefixes
          for name, value in [("min_val", low), ("max_val", high)]}


SMALL, LARGE = (-128, 127), (-2**31, 2**31 - 1)
X = [[-3.3, 0.24, 0.5], [1.5, 100.0, -7.0]]
X8, X32 = tensor("qint8", [[-128, 0, 5], [127, -5, 1]]), tensor("qint32", [[1, -200, 3000], [7, 8, 9]])
SCALES, ZEROS = [0.5, 0.25, 1.0], [1, 2, 3]
for to, ends in [(tf.qint8, SMALL), (tf.quint8, (0, 255)), (tf.qint32, LARGE), (tf.qint8, (-9, 9)),
                 (tf.qint8, (5, 1))]:
  case("UniformQuantize", X, 0.5, 3, Tout=to, **limits(*ends, ""))
  case("UniformQuantize", [float("nan"), 3e38, float("-inf")], 0.5, 3, Tout=to,
       **limits(*ends, ""))
  case("UniformQuantize", X, SCALES[:2], ZEROS[:2], Tout=to, quantization_axis=0,
       **limits(*ends, ""))
  case("UniformQuantize", X, SCALES, ZEROS, Tout=to, quantization_axis=1, **limits(*ends, ""))
case("UniformQuantize", uniform([40, 70], -9, 9), 0.0625, -7, Tout=tf.qint8, **limits(*SMALL, ""))
case("UniformQuantize", X, -1.0, 3, Tout=tf.qint8, **limits(*SMALL, ""))
case("UniformQuantize", X, 0.0, 3, Tout=tf.qint8, **limits(*SMALL, ""))
for values in [X8, X32, tensor("quint8", [[0, 255, 7]]), tensor("qint32", [LARGE + (7,)])]:
  case("UniformDequantize", values, 0.5, 3, Tout=tf.float32, **limits(*LARGE, ""))
  case("UniformDequantize", values, SCALES, ZEROS, Tout=tf.float32, quantization_axis=1,
       **limits(*LARGE, ""))
for scales, zeros, axis, text in [
    (SCALES[:2], ZEROS[:2], 1, "scales and zero_points must be a tensor of rank 1 and the size"),
    (SCALES[:2], ZEROS[:1], 0, "scales and zero_points shape must be same, but given scales shape"),
    (SCALES[:2], ZEROS[:2], -1, "scales and zero_points must be scalar tensors, but given scales"),
    ([1.0], [1], 5, "quantization_axis must be -1 or in range [0, input.rank), but given 5"),
    ([1.0], [1], -2, "quantization_axis must be >= -1, given: -2")]:
  error("UniformQuantize", X, scales, zeros, Tout=tf.qint8, quantization_axis=axis,
        **limits(*SMALL, ""), text=text)
ENDS = dict(limits(*LARGE, "input_"), **limits(*SMALL, "output_"))
# Where a product does not fit int32 TensorFlow's results follow no rule.
for values in [X8, X32, tensor("qint32", [[-2**24, -70000, -7], [0, 9999, 2**24]])]:
  case("UniformRequantize", values, 0.5, 3, 0.3, -2, Tout=tf.qint8, **ENDS)
  case("UniformRequantize", values, 0.5, 3, 1e-2, -2, Tout=tf.qint8, **ENDS)
  case("UniformRequantize", values, 0.5, 3, 3e9, -2, Tout=tf.qint8, **ENDS)
  case("UniformRequantize", values, SCALES, ZEROS, 0.3, -2, Tout=tf.qint8,
       input_quantization_axis=1, **ENDS)
  case("UniformRequantize", values, 0.5, 3, SCALES, ZEROS, Tout=tf.qint8,
       output_quantization_axis=1, **ENDS)
  case("UniformRequantize", values, SCALES, ZEROS, [0.3, 0.2, 0.1], [4, 5, -6], Tout=tf.qint8,
       input_quantization_axis=1, output_quantization_axis=1, **ENDS)
error("UniformRequantize", X8, SCALES[:2], ZEROS[:2], SCALES, ZEROS, Tout=tf.qint8,
      input_quantization_axis=0, output_quantization_axis=1, **ENDS,
      text="If input and output is both per-axis quantized, the quantization axis must be same.")

# --- UniformQuantizedAdd, UniformQuantizedDot, UniformQuantizedClipByValue
ENDS = limits(*LARGE, "lhs_", "rhs_", "output_")
for other in [X32, tensor("qint32", [1, 2, 3]), tensor("qint32", 5), tensor("qint32", [[1], [2]])]:
  case("UniformQuantizedAdd", X32, other, 0.5, 3, 0.3, -1, 0.4, 2, **ENDS)
  case("UniformQuantizedAdd", other, X32, 0.5, 3, 0.3, -1, 0.4, 2, **ENDS)
case("UniformQuantizedAdd", X32, X32, 0.5, 3, 0.3, -1, 0.4, 2,
     **limits(-10, 10, "lhs_", "rhs_", "output_"))
case("UniformQuantizedAdd", X32, X32, SCALES, ZEROS, 0.3, -1, 0.4, 2, lhs_quantization_axis=1,
     **ENDS)
case("UniformQuantizedAdd", X32, X32, SCALES, ZEROS, SCALES[::-1], ZEROS[::-1], SCALES, ZEROS,
     lhs_quantization_axis=1, rhs_quantization_axis=1, output_quantization_axis=1, **ENDS)
case("UniformQuantizedAdd", uniform([40, 70], -999, 999, 1, "qint32"),
     uniform([70], -999, 999, 2, "qint32"), 0.5, 3, 0.3, -1, 0.4, 2, **ENDS)
error("UniformQuantizedAdd", X32, tensor("qint32", [1, 2]), 0.5, 3, 0.3, -1, 0.4, 2, **ENDS,
      text="Cannot Add tensors of shapes: [2,3][2]")
error("UniformQuantizedAdd", X32, X32, 0.5, 3, 0.3, -1, -0.4, 2, **ENDS,
      text="lhs/rhs/output scales elements must be all positive.")
DOT = dict(limits(*SMALL, "lhs_", "rhs_"), **limits(*LARGE, "output_"))
B8 = tensor("qint8", [[1, -2], [100, 4], [5, -6]])
case("UniformQuantizedDot", X8, B8, 0.5, 3, 0.3, -1, 0.4, 2, Tout=tf.qint32, **DOT)
case("UniformQuantizedDot", X8, B8, 0.5, 3, SCALES[:2], ZEROS[:2], 0.4, 2, Tout=tf.qint32,
     rhs_quantization_axis=1, **DOT)
case("UniformQuantizedDot", X8, B8, 0.5, 3, SCALES[:2], ZEROS[:2], [0.3, 0.4], [5, -6],
     Tout=tf.qint32, rhs_quantization_axis=1, output_quantization_axis=1, **DOT)
case("UniformQuantizedDot", qint8([20, 30]), qint8([30, 40], 2), 0.5, 3, 0.3, -1, 0.4, 2,
     Tout=tf.qint32, **DOT)
error("UniformQuantizedDot", X8, X8, 0.5, 3, 0.3, -1, 0.4, 2, Tout=tf.qint32, **DOT,
      text="lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape [2,3] and rhs")
error("UniformQuantizedDot", X8, B8, 0.5, 3, 0.3, -1, SCALES[:2], ZEROS[:2], Tout=tf.qint32,
      output_quantization_axis=1, **DOT,
      text="If rhs is per-tensor quantized, output must be also per-tensor quantized.")
error("UniformQuantizedDot", X8, B8, 0.5, 3, SCALES, ZEROS, 0.4, 2, Tout=tf.qint32,
      rhs_quantization_axis=0, **DOT, text="rhs_quantization_axis Attr must be 1 (per-channel)")
case("UniformQuantizedClipByValue", X32, tensor("qint32", -5), tensor("qint32", 8), 0.5, 3,
     **limits(*LARGE, ""))
case("UniformQuantizedClipByValue", X32, tensor("qint32", ZEROS), tensor("qint32", [8, 9, 1000]),
     SCALES, ZEROS, quantization_axis=1, **limits(*LARGE, ""))
case("UniformQuantizedClipByValue", X32, tensor("qint32", 9), tensor("qint32", 8), 0.5, 3,
     **limits(*LARGE, ""))
error("UniformQuantizedClipByValue", X32, tensor("qint32", [1]), tensor("qint32", 8), 0.5, 3,
      **limits(*LARGE, ""), text="Input min shape must be same as scales/zero_points. Given min of")
