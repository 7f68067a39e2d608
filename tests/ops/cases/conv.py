from generate import case, error, ones, tensor, uniform, zeros

FLOATS = ["float", "double", "half", "bfloat16"]
MAX_TYPES = FLOATS + ["int8", "int16", "int32", "int64", "uint8", "uint16"]
ONE = [1, 1, 1, 1]
NAN = float("nan")
TOLERANCE = {"float": "rel 1e-4 abs 1e-5", "double": "rel 1e-10 abs 1e-11",
             "bfloat16": "rel 3e-2 abs 3e-2", "int32": None,
             # Where TensorFlow adds in half we add in float.
             "half": "rel 1e-2 abs 2e-2"}
LONG_SUMS = "rel 1e-4 abs 1e-4"
POOL_TOLERANCE = {"half": "rel 1e-2 abs 2e-3", "bfloat16": "rel 2e-2 abs 4e-2"}


def sliding(rows, cols, data_format="NHWC"):
  return [1, rows, cols, 1] if data_format == "NHWC" else [1, 1, rows, cols]


def image(data_format, batch, rows, cols, channels):
  return [batch, rows, cols, channels] if data_format == "NHWC" else [batch, channels, rows, cols]


def spatial(size, window, stride, dilation, padding, pads):
  effective = (window - 1) * dilation + 1
  if padding == "SAME":
    return -(-size // stride)
  return (size + sum(pads) - effective) // stride + 1


def convolutions(op, dtypes, in_shape, taps, groups_or_multiplier=1, out_channels=None,
                 strides=(1, 1), dilations=(1, 1), padding="SAME", pads=((0, 0), (0, 0)),
                 data_format="NHWC", gradients=True, tolerance=None):
  """Forward and both gradients of one geometry; in_shape is (batch, rows, cols, channels)."""
  batch, rows, cols, channels = in_shape
  depthwise = op == "DepthwiseConv2dNative"
  filter_shape = (list(taps) + [channels, groups_or_multiplier] if depthwise else
                  list(taps) + [channels // groups_or_multiplier, out_channels])
  out_depth = channels * groups_or_multiplier if depthwise else out_channels
  out_rows = spatial(rows, taps[0], strides[0], dilations[0], padding, pads[0])
  out_cols = spatial(cols, taps[1], strides[1], dilations[1], padding, pads[1])
  attrs = {"strides": sliding(*strides, data_format), "dilations": sliding(*dilations, data_format),
           "padding": padding, "data_format": data_format}
  if padding == "EXPLICIT":
    flat = [0, 0] + [p for side in pads for p in side] + [0, 0]
    attrs["explicit_paddings"] = flat if data_format == "NHWC" else [0, 0] + flat[:6]
  images = image(data_format, batch, rows, cols, channels)
  results = image(data_format, batch, out_rows, out_cols, out_depth)
  for dtype in dtypes:
    low, high = (-5, 6) if dtype == "int32" else (-1, 1)
    x = uniform(images, low, high, 1, dtype)
    f = uniform(filter_shape, low, high, 2, dtype)
    dy = uniform(results, low, high, 3, dtype)
    case(op, x, f, tolerance=tolerance or TOLERANCE[dtype], **attrs)
    if not gradients:
      continue
    case(op + "BackpropInput", images, f, dy, tolerance=tolerance or TOLERANCE[dtype], **attrs)
    if dtype != "int32":
      case(op + "BackpropFilter", x, filter_shape, dy,
           tolerance=tolerance or TOLERANCE[dtype], **attrs)


# Small ones go by matrix products, large ones by oneDNN.
for padding in ["SAME", "VALID"]:
  convolutions("Conv2D", FLOATS + ["int32"], (2, 5, 6, 3), (3, 2), out_channels=4, padding=padding)
  convolutions("Conv2D", FLOATS + ["int32"], (2, 7, 6, 3), (3, 3), out_channels=4, strides=(2, 3),
               padding=padding)
  convolutions("Conv2D", FLOATS, (2, 12, 13, 16), (3, 3), out_channels=24, padding=padding)
  convolutions("Conv2D", ["float"], (3, 17, 16, 8), (5, 3), out_channels=16, strides=(2, 2),
               padding=padding)
convolutions("Conv2D", FLOATS + ["int32"], (1, 4, 5, 3), (2, 3), out_channels=2, padding="EXPLICIT",
             pads=((1, 2), (0, 3)))
convolutions("Conv2D", ["float"], (1, 14, 15, 16), (3, 3), out_channels=16, padding="EXPLICIT",
             pads=((1, 2), (4, 0)))
convolutions("Conv2D", FLOATS, (2, 9, 8, 8), (1, 1), out_channels=12, padding="VALID")
convolutions("Conv2D", ["float"], (2, 16, 16, 32), (1, 1), out_channels=32, strides=(2, 2))
convolutions("Conv2D", ["float"], (1, 23, 24, 3), (7, 7), out_channels=16, strides=(2, 2))
# Tiles of four outputs that are cut at the border, channels that do not fill a panel.
convolutions("Conv2D", ["float"], (2, 31, 30, 40), (3, 3), out_channels=72, tolerance=LONG_SUMS)
convolutions("Conv2D", ["float"], (1, 17, 28, 64), (3, 3), out_channels=48, padding="VALID",
             tolerance=LONG_SUMS)
# Large enough to be split over threads: by images, by rows of one image.
convolutions("Conv2D", ["float"], (4, 32, 32, 16), (3, 3), out_channels=32, tolerance=LONG_SUMS)
convolutions("Conv2D", ["float"], (1, 63, 64, 32), (3, 3), out_channels=32, strides=(2, 1),
             tolerance=LONG_SUMS)
convolutions("Conv2D", ["float"], (1, 64, 61, 16), (5, 5), out_channels=32, padding="EXPLICIT",
             pads=((4, 3), (2, 0)), tolerance=LONG_SUMS)
# Dilation and groups; the plain kernels have no such gradients.
# More than 2^30 multiplications for an image: cut into rows.
for settings in (dict(), dict(strides=(2, 1)), dict(dilations=(3, 2), padding="VALID"),
                 dict(padding="EXPLICIT", pads=((2, 5), (1, 0))), dict(data_format="NCHW")):
  convolutions("Conv2D", ["float"], (2, 97, 83, 64), (7, 5), out_channels=128,
               tolerance="rel 1e-4 abs 1e-3", **settings)
convolutions("Conv2D", ["float", "bfloat16"], (2, 9, 8, 3), (3, 2), out_channels=4,
             dilations=(2, 3))
convolutions("Conv2D", ["float"], (1, 20, 20, 8), (3, 3), out_channels=8, dilations=(2, 2))
convolutions("Conv2D", ["double", "half", "int32"], (2, 9, 8, 3), (3, 2), out_channels=4,
             dilations=(2, 3), gradients=False)
convolutions("Conv2D", ["float", "bfloat16"], (2, 5, 5, 6), (3, 3), 3, out_channels=9)
convolutions("Conv2D", ["float"], (2, 12, 12, 32), (3, 3), 4, out_channels=16)
convolutions("Conv2D", ["double", "half", "int32"], (2, 5, 5, 6), (3, 3), 3, out_channels=9,
             gradients=False)
# Channels first, which TensorFlow's CPU takes for these dtypes alone.
convolutions("Conv2D", ["float", "bfloat16"], (2, 6, 5, 4), (3, 3), out_channels=3, strides=(2, 1),
             data_format="NCHW")
convolutions("Conv2D", ["float"], (2, 14, 13, 16), (3, 3), out_channels=8, data_format="NCHW",
             padding="EXPLICIT", pads=((1, 0), (2, 1)), gradients=False)
# The window is larger than the input, or jumps over it.
convolutions("Conv2D", ["float", "double"], (1, 2, 2, 3), (5, 5), out_channels=2)
convolutions("Conv2D", ["float", "double"], (1, 5, 5, 2), (2, 2), out_channels=2, strides=(7, 7))
# NaN reaches what it takes part in and nothing else.
case("Conv2D", tensor("float", [1, 2, NAN, 4, 5, 6, 7, 8, 9], [1, 3, 3, 1]),
     tensor("float", [1, 0, 2, 3], [2, 2, 1, 1]), strides=ONE, padding="VALID")
# Nothing to compute.
case("Conv2D", zeros([0, 5, 5, 3], "double"), ones([3, 3, 3, 2], "double"), strides=ONE,
     padding="VALID")
case("Conv2D", zeros([1, 2, 2, 3], "double"), ones([3, 3, 3, 2], "double"), strides=ONE,
     padding="VALID")
case("Conv2DBackpropFilter", zeros([0, 5, 5, 3], "double"), [3, 3, 3, 2],
     zeros([0, 3, 3, 2], "double"), strides=ONE, padding="VALID")
# input_sizes of rows and columns alone.
case("Conv2DBackpropInput", [5, 5], uniform([3, 3, 3, 2], seed=2), uniform([1, 3, 3, 2], seed=3),
     strides=ONE, padding="VALID", tolerance=TOLERANCE["float"])


def conv_error(x, f, text, code=None, **attrs):
  attrs = {"strides": ONE, "padding": "VALID", **attrs}
  error("Conv2D", zeros(x, "double"), zeros(f, "double"), text=text, code=code, **attrs)


conv_error([5, 5, 3], [3, 3, 3, 2], "convolution input must be 4-dimensional: [5,5,3]")
conv_error([1, 5, 5, 3], [3, 3, 3], "convolution filter must be 4-dimensional: [3,3,3]")
conv_error([1, 5, 5, 3], [3, 3, 2, 2],
           "input depth must be evenly divisible by filter depth: 3 vs 2")
conv_error([1, 5, 5, 4], [3, 3, 2, 3],
           "output depth must be evenly divisible by number of groups: 3 vs 2")
conv_error([1, 5, 5, 0], [3, 3, 0, 2], "filter depth must be stricly positive, got 0")
conv_error([1, 5, 5, 3], [0, 3, 3, 2], "filter must not have zero elements")
conv_error([1, 1, 2, 3], [3, 3, 3, 2], "Computed output size would be negative: -1")
for strides, dilations, text in [
    ([2, 1, 1, 1], ONE, "does not yet support strides in the batch and depth dimensions."),
    (ONE, [2, 1, 1, 1], "does not yet support dilations in the batch and depth dimensions.")]:
  conv_error([1, 5, 5, 3], [3, 3, 3, 2], text, strides=strides, dilations=dilations)


def gradient_errors(op, args, text):
  error(op, *args, text=text, strides=ONE, padding="VALID")


def doubles(*shapes):
  return [zeros(s, "double") for s in shapes]


F, G = doubles([3, 3, 3, 2], [1, 3, 3, 2])
X = zeros([1, 5, 5, 3], "double")
BI, BF = "Conv2DBackpropInput", "Conv2DBackpropFilter"
gradient_errors(BI, ([1, 5, 5, 3], F, doubles([1, 4, 3, 2])[0]),
                "Size of out_backprop doesn't match computed: actual = 4, computed = 3")
gradient_errors(BI, ([1, 5, 5, 3], F, doubles([1, 3, 3, 4])[0]),
                "filter and out_backprop must have the same out_depth")
gradient_errors(BI, ([2, 5, 5, 3], F, G), "input and out_backprop must have the same batch size")
gradient_errors(BI, ([1, 5, 5], F, G), "requires input_sizes to contain 4 values or 2 values")
gradient_errors(BI, ([[1, 5, 5, 3]], F, G), "input_sizes input must be 1-dim, not 2")
error(BI, [1, -5, 5, 3], F, G, text="-5", strides=ONE, padding="VALID")
gradient_errors(BF, (X, [3, 3, 3, 3], G), "filter and out_backprop must have the same out_depth")
gradient_errors(BF, (X, [3, 3, 3], G), "filter must be 4-dimensional")
gradient_errors(BF, (X, [[3, 3, 3, 2]], G), "filter_sizes input must be 1-dim, not 2")
error(BF, X, [3, -3, 3, 2], G, text="-3", strides=ONE, padding="VALID")

# Depthwise: channels that fill vectors and that do not, a multiplier, strides and edges.
for padding in ["SAME", "VALID"]:
  convolutions("DepthwiseConv2dNative", FLOATS, (2, 6, 7, 3), (3, 2), padding=padding)
  convolutions("DepthwiseConv2dNative", FLOATS, (1, 7, 6, 4), (3, 3), 2, strides=(2, 2),
               padding=padding)
convolutions("DepthwiseConv2dNative", ["float", "double"], (2, 11, 12, 37), (3, 3))
convolutions("DepthwiseConv2dNative", ["float"], (1, 12, 13, 16), (5, 4), strides=(2, 2))
convolutions("DepthwiseConv2dNative", ["float", "double"], (1, 5, 5, 3), (3, 3), padding="EXPLICIT",
             pads=((1, 2), (0, 1)))
convolutions("DepthwiseConv2dNative", ["float"], (1, 9, 8, 5), (3, 3), dilations=(2, 2),
             gradients=False)
convolutions("DepthwiseConv2dNative", ["float"], (2, 5, 6, 4), (3, 3), 2, data_format="NCHW")
convolutions("DepthwiseConv2dNative", ["double"], (1, 2, 2, 3), (5, 5))
convolutions("DepthwiseConv2dNative", ["float"], (3, 40, 41, 40), (3, 3), tolerance=LONG_SUMS)
convolutions("DepthwiseConv2dNative", ["float"], (3, 40, 41, 24), (5, 5), strides=(2, 2),
             tolerance=LONG_SUMS)
convolutions("DepthwiseConv2dNative", ["double"], (1, 5, 4, 2), (2, 2), padding="EXPLICIT",
             pads=((3, 1), (2, 4)))
DW = "DepthwiseConv2dNative"
case(DW, *doubles([0, 5, 5, 3], [3, 3, 3, 1]), strides=ONE, padding="VALID")
case(DW, *doubles([1, 5, 5, 3], [3, 3, 3, 0]), strides=ONE, padding="VALID")
# Zeros; TensorFlow leaves what is in the memory.
case(DW + "BackpropFilter", doubles([0, 5, 5, 3])[0], [3, 3, 3, 2], doubles([0, 3, 3, 6])[0],
     strides=ONE, padding="VALID", values=False)
error(DW, *doubles([1, 5, 5, 3], [3, 3, 2, 2]), strides=ONE, padding="VALID",
      text="input and filter must have the same depth: 3 vs 2")
error(DW, *doubles([1, 5, 5, 3], [3, 3, 3, 1]), strides=[1, 1, 2, 1], padding="VALID",
      text="only supports equal length strides")
gradient_errors(DW + "BackpropInput", ([1, 5, 5, 3], F, doubles([1, 3, 3, 5])[0]),
                "depth_multiplier * in_depth not equal to out_depth")
gradient_errors(DW + "BackpropInput", ([1, -5, 5, 3], F, doubles([1, 3, 3, 6])[0]),
                "Dimension 1 of input_sizes must be >= 0")
gradient_errors(DW + "BackpropFilter", (X, [3, 3, 2, 2], doubles([1, 3, 3, 6])[0]),
                "input and filter must have the same in_depth")
gradient_errors(DW + "BackpropFilter", (X, [3, 3, 3, 2], doubles([1, 2, 3, 6])[0]),
                "Number of rows of out_backprop doesn't match computed: actual = 2, computed = 3")

# Pooling.
GEOMETRIES = [((2, 5, 6, 3), (2, 2), (2, 2)), ((1, 5, 5, 4), (3, 2), (1, 2)),
              ((1, 4, 5, 2), (2, 3), (3, 1))]
for padding in ["SAME", "VALID"]:
  for shape, window, strides in GEOMETRIES:
    attrs = {"ksize": sliding(*window), "strides": sliding(*strides), "padding": padding}
    out = [shape[0], spatial(shape[1], window[0], strides[0], 1, padding, (0, 0)),
           spatial(shape[2], window[1], strides[1], 1, padding, (0, 0)), shape[3]]
    for dtype in MAX_TYPES:
      low = 0 if dtype.startswith("u") else -6
      x = uniform(list(shape), low, 7, 1, dtype)
      case("MaxPool", x, **attrs)
      # The output given does not matter: the places of maxima are looked for again.
      case("MaxPoolGrad", x, uniform(out, low, 7, 2, dtype), uniform(out, low, 7, 3, dtype),
           **attrs)
    for dtype in FLOATS:
      case("AvgPool", uniform(list(shape), -6, 7, 1, dtype), tolerance=POOL_TOLERANCE.get(dtype),
           **attrs)
      case("AvgPoolGrad", list(shape), uniform(out, -6, 7, 3, dtype),
           tolerance=POOL_TOLERANCE.get(dtype), **attrs)
case("MaxPool", uniform([2, 9, 8, 300]), ksize=sliding(3, 3), strides=sliding(2, 2), padding="SAME")
case("MaxPoolGrad", uniform([2, 9, 8, 300]), zeros([2, 5, 4, 300]), uniform([2, 5, 4, 300], seed=3),
     ksize=sliding(3, 3), strides=sliding(2, 2), padding="SAME")
case("MaxPool", uniform([1, 5, 5, 2]), ksize=sliding(3, 3), strides=sliding(2, 1),
     padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
case("MaxPoolGrad", uniform([1, 5, 5, 2], dtype="double"), zeros([1, 3, 4, 2], "double"),
     uniform([1, 3, 4, 2], seed=3, dtype="double"), ksize=sliding(3, 3), strides=sliding(2, 1),
     padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
for dtype in ["float", "double", "int32"]:
  case("MaxPool", uniform([1, 3, 2, 6], -9, 9, 1, dtype), ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3],
       padding="VALID")
for op in ["MaxPool", "AvgPool"]:
  case(op, uniform([2, 3, 5, 6]), ksize=[1, 1, 2, 3], strides=[1, 1, 2, 2], padding="SAME",
       data_format="NCHW", tolerance=TOLERANCE["float"])
  case(op, zeros([0, 4, 4, 3], "double"), ksize=sliding(2, 2), strides=ONE, padding="VALID")
  case(op, zeros([1, 4, 4, 3], "double"), ksize=sliding(5, 5), strides=ONE, padding="VALID")
  error(op, zeros([1, 3, 4, 3], "double"), ksize=sliding(5, 5), strides=ONE, padding="VALID",
        text="Computed output size would be negative: -1")
  error(op, zeros([1, 4, 4, 3], "double"), ksize=[2, 2, 2, 1], strides=ONE, padding="VALID",
        text="Pooling is not yet supported on the batch dimension.")
case("AvgPoolGrad", [2, 3, 5, 6], uniform([2, 3, 3, 3]), ksize=[1, 1, 2, 3], strides=[1, 1, 2, 2],
     padding="SAME", data_format="NCHW", tolerance=TOLERANCE["float"])
# NaN is passed over, unless it comes first where the gradient looks for a place.
for dtype in ["float", "half", "double"]:
  x = tensor(dtype, [1, NAN, 2, 3, NAN, NAN, 0, -1, 5], [1, 3, 3, 1])
  attrs = {"ksize": sliding(2, 2), "strides": ONE, "padding": "SAME"}
  case("MaxPool", x, **attrs)
  case("AvgPool", x, **attrs)
  case("MaxPoolGrad", x, ones([1, 3, 3, 1], dtype), ones([1, 3, 3, 1], dtype), **attrs)
  case("MaxPool", tensor(dtype, [NAN, float("-inf")] * 2, [1, 2, 2, 1]), ksize=sliding(1, 2),
       strides=ONE, padding="VALID")
error("MaxPool", zeros([1, 4, 4, 4], "double"), ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3],
      padding="VALID", text="requires the depth window to evenly divide the input depth")
error("MaxPool", zeros([1, 4, 4, 3], "double"), ksize=sliding(2, 2), strides=ONE,
      padding="EXPLICIT", explicit_paddings=[0, 0, 2, 2, 1, 1, 0, 0],
      text="padding 2 needs to be smaller than the window size 2")
error("MaxPoolGrad", *doubles([1, 4, 4, 3], [1, 2, 3, 3], [1, 3, 3, 3]), ksize=sliding(2, 2),
      strides=ONE, padding="VALID",
      text="Expected orig_output shape to be [1,3,3,3], but got [1,2,3,3]")
error("MaxPoolGrad", *doubles([1, 4, 4, 3], [1, 3, 3, 3], [1, 2, 3, 3]), ksize=sliding(2, 2),
      strides=ONE, padding="VALID", text="Expected grad shape to be [1,3,3,3], but got [1,2,3,3]")
error("AvgPoolGrad", [1, -4, 4, 3], zeros([1, 3, 3, 3], "double"), ksize=sliding(2, 2), strides=ONE,
      padding="VALID", text="Expected a non-negative size, got -4")
# One and a half of AVX-512's registers of channels; pixels of many channels that are left out.
convolutions("Conv2D", ["float"], (2, 9, 11, 48), (1, 1), out_channels=24, tolerance=LONG_SUMS)
convolutions("Conv2D", ["float"], (1, 9, 12, 16), (3, 3), out_channels=24, tolerance=LONG_SUMS)
convolutions("Conv2D", ["float"], (1, 7, 8, 512), (1, 1), out_channels=20, strides=(2, 2),
             tolerance=LONG_SUMS)
