"""Values as small integers, and back."""
import tensorflow as tf

from generate import case, error, tensor, uniform

FLOATS = ["float", "double"]
X = [-1.5, -0.3, 0.0, 0.3, 0.5, 2.0, 7.0]
QUANTIZED = [tf.qint8, tf.quint8, tf.qint16, tf.quint16]

for dtype in FLOATS:
  x = tensor(dtype, X)
  for given in [True, False]:
    for signed in [True, False]:
      for bits in [8, 4]:
        for narrow in [True, False]:
          case("QuantizeAndDequantizeV2", x, tensor(dtype, -1.25), tensor(dtype, 3.5), signed_input=signed, num_bits=bits,
               range_given=given, narrow_range=narrow)
  case("QuantizeAndDequantizeV4", x, tensor(dtype, -1.25), tensor(dtype, 3.5), round_mode="HALF_UP", range_given=True)
  case("QuantizeAndDequantizeV3", x, tensor(dtype, -1.25), tensor(dtype, 3.5), 5)
  case("QuantizeAndDequantizeV4Grad", uniform([7], dtype=dtype), x, tensor(dtype, -0.5), tensor(dtype, 2))
  for axis in [0, 1, 2]:
    n = [2, 3, 4][axis]
    ends = [tensor(dtype, [low - i for i in range(n)]) for low in (-0.5, 4.5)]
    # The second and fourth version of TensorFlow refuse a range for each channel, but for its shape.
    case("QuantizeAndDequantizeV2", uniform([2, 3, 4], -3, 4, 1, dtype), *ends, axis=axis)
    case("QuantizeAndDequantizeV3", uniform([2, 3, 4], -3, 4, 1, dtype), *ends, 8, axis=axis)
    case("QuantizeAndDequantizeV4Grad", uniform([2, 3, 4], dtype=dtype), uniform([2, 3, 4], -3, 4, 1, dtype), *ends, axis=axis)
case("QuantizeAndDequantizeV2", uniform([3, 1001], -9, 9), 0.0, 0.0)
case("QuantizeAndDequantizeV2", tensor("float", [0.0, 0.0]), 0.0, 0.0)
case("QuantizeAndDequantizeV2", tensor("float", [], [0, 3]), 0.0, 0.0)
case("QuantizeAndDequantizeV2", [[1.0, 2.0]], 0.0, 0.0, axis=1)
error("QuantizeAndDequantizeV2", X, 2.0, 1.0, range_given=True, text="Invalid range: input_min 2 > input_max 1")
error("QuantizeAndDequantizeV2", X, 2.0, 3.0, range_given=True, axis=0,
      text="Shape must be rank 1 for input_min_tensor when the axis is specified")
error("QuantizeAndDequantizeV2", X, [2.0, 2.0], [3.0, 3.0], range_given=True, text="input_min")
error("QuantizeAndDequantizeV2", X, [2.0], [3.0], range_given=True, axis=5, text="Shape must be at least rank 6 but is rank 1")
error("QuantizeAndDequantizeV3", X, 2.0, 3.0, 64, text="num_bits is out of range: 64 with signed_input_ 1")
error("QuantizeAndDequantizeV4Grad", [1.0], X, 0.0, 1.0, text="gradient and input must be the same size")

for dtype in QUANTIZED:
  for mode in ["MIN_COMBINED", "MIN_FIRST", "SCALED"]:
    case("QuantizeV2", X, -1.0, 6.0, T=dtype, mode=mode)
    case("QuantizeV2", uniform([2, 501], -3, 3), -2.0, 2.5, T=dtype, mode=mode)
    case("QuantizeV2", X, 0.0, 0.0, T=dtype, mode=mode)
    if mode != "SCALED" or dtype != tf.quint16:
      case("Dequantize", uniform([2, 9], 0, 100, 1, dtype.name), -1.0, 6.0, mode=mode)
  for narrow in [True, False]:
    case("QuantizeV2", uniform([2, 3, 4], -3, 3), [-1.0, -2.0, 0.5], [1.0, 3.0, 4.0], T=dtype, mode="SCALED", axis=1,
         narrow_range=narrow, round_mode="HALF_TO_EVEN")
    case("Dequantize", uniform([2, 3, 4], 0, 100, 1, dtype.name), [-1.0, -2.0, 0.5], [1.0, 3.0, 4.0], mode="SCALED",
         axis=1, narrow_range=narrow)
  case("QuantizeV2", uniform([2, 3], -3, 3), [-1.0, -2.0, 0.5], [1.0, 3.0, 4.0], T=dtype, axis=1)
case("QuantizeV2", X, [-1.0], [6.0], T=tf.quint8, ensure_minimum_range=0.5)
case("QuantizeV2", X, 0.0, 0.25, T=tf.quint8, ensure_minimum_range=0.5)
case("QuantizeV2", tensor("float", [], [0, 2]), -1.0, 1.0, T=tf.quint8)
case("Dequantize", tensor("qint8", [-128, 0, 127]), -1.0, 6.0, dtype=tf.bfloat16)
error("QuantizeV2", X, 6.0, -1.0, T=tf.qint8, text="input_max_range must be larger than input_min_range.")
