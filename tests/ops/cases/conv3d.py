"""Convolutions of volumes, which share core/ops/conv.h with those of images."""
from generate import case, error, ones, tensor, uniform, zeros

TOLERANCE = {"float": "rel 1e-4 abs 1e-5", "double": "rel 1e-10 abs 1e-11",
             "bfloat16": "rel 3e-2 abs 3e-2",
             # Where TensorFlow adds in half we add in float.
             "half": "rel 1e-2 abs 2e-2"}
LONG_SUMS = "rel 1e-4 abs 1e-4"


def spatial(size, window, stride, padding):
  return -(-size // stride) if padding == "SAME" else (size + stride - window) // stride


def volume_convolutions(dtypes, in_shape, taps, out_channels, strides=(1, 1, 1), padding="SAME",
                        tolerance=None):
  """Forward and both gradients; in_shape is (batch, planes, rows, cols, channels)."""
  in_shape = list(in_shape)
  filter_shape = list(taps) + [in_shape[4], out_channels]
  results = [in_shape[0]] + [spatial(size, window, stride, padding) for
                             size, window, stride in zip(in_shape[1:4], taps, strides)]
  results.append(out_channels)
  attrs = {"strides": [1] + list(strides) + [1], "padding": padding}
  for dtype in dtypes:
    tolerated = tolerance or TOLERANCE[dtype]
    x = uniform(in_shape, -1, 1, 1, dtype)
    f = uniform(filter_shape, -1, 1, 2, dtype)
    dy = uniform(results, -1, 1, 3, dtype)
    case("Conv3D", x, f, tolerance=tolerated, **attrs)
    case("Conv3DBackpropInputV2", in_shape, f, dy, tolerance=tolerated, **attrs)
    # TensorFlow adds up in half and bfloat16: its sums over all windows are not those of floats.
    if dtype not in ("half", "bfloat16"):
      case("Conv3DBackpropFilterV2", x, filter_shape, dy, tolerance=tolerated, **attrs)


for padding in ["SAME", "VALID"]:
  volume_convolutions(["float", "double"], (2, 4, 5, 6, 3), (2, 3, 3), 4, padding=padding)
  volume_convolutions(["float", "double"], (2, 5, 4, 7, 2), (3, 2, 3), 3, (2, 1, 3),
                      padding=padding)
  volume_convolutions(["half", "bfloat16"], (1, 3, 4, 3, 2), (2, 2, 2), 3, padding=padding)
  volume_convolutions(["float"], (2, 3, 2, 4, 5), (1, 1, 1), 6, padding=padding)
  volume_convolutions(["float"], (1, 3, 4, 4, 2), (1, 1, 1), 3, (2, 3, 1), padding=padding)
volume_convolutions(["float"], (1, 2, 2, 2, 3), (5, 4, 7), 2)   # A filter beyond the volume.
volume_convolutions(["float"], (1, 6, 6, 6, 40), (3, 3, 3), 24, tolerance=LONG_SUMS)
volume_convolutions(["float"], (1, 12, 12, 12, 17), (3, 3, 3), 8, (2, 2, 1), tolerance=LONG_SUMS)
V = {"strides": [1] * 5, "padding": "SAME"}
case("Conv3D", zeros([0, 2, 3, 4, 2]), zeros([1, 2, 1, 2, 5]), **V)
case("Conv3D", zeros([1, 0, 3, 4, 2]), zeros([1, 2, 1, 2, 5]), **V)
case("Conv3DBackpropInputV2", tensor("int64", [1, 2, 2, 2, 2]), uniform([1, 2, 1, 2, 3]),
     uniform([1, 2, 2, 2, 3]), tolerance=TOLERANCE["float"], **V)
case("Conv3DBackpropInputV2", [0, 2, 2, 2, 2], ones([1, 2, 1, 2, 3]), zeros([0, 2, 2, 2, 3]), **V)
case("Conv3DBackpropFilterV2", zeros([0, 2, 2, 2, 2]), [1, 2, 1, 2, 3], zeros([0, 2, 2, 2, 3]), **V)
error("Conv3D", zeros([2, 2, 2, 2]), zeros([1, 1, 1, 2, 2]), text="input must be 5-dimensional", **V)
error("Conv3D", zeros([1, 2, 2, 2, 2]), zeros([1, 1, 2, 2]), text="filter must be 5-dimensional", **V)
error("Conv3D", zeros([1, 2, 2, 2, 4]), zeros([1, 1, 1, 2, 2]),
      text="Number of channels in filter (2) must match last dimension of input (4)", **V)
error("Conv3D", zeros([1, 2, 2, 2, 2]), zeros([1, 0, 1, 2, 2]),
      text="filter must not have zero elements", **V)
error("Conv3D", zeros([1, 2, 2, 2, 2]), zeros([4, 1, 1, 2, 2]), strides=[1] * 5, padding="VALID",
      text="Computed output size would be negative")
error("Conv3D", zeros([1, 2, 2, 2, 2]), zeros([1, 1, 1, 2, 2]), dilations=[1, 2, 1, 1, 1],
      text="only supports dilated rates of 1.", **V)
error("Conv3D", zeros([1, 2, 2, 2, 2]), zeros([1, 1, 1, 2, 2]), strides=[1, 1, 1, 1, 2],
      padding="SAME", text="does not yet support strides in the batch and depth dimensions.")
error("Conv3D", zeros([1, 2, 2, 2, 2]), zeros([1, 1, 1, 2, 2]), data_format="NCDHW", text="", **V)
G = "Conv3DBackpropInputV2"
error(G, [1, 2, 2, 2], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 2, 3]), text="5", **V)
error(G, [[1, 2, 2, 2, 2]], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 2, 3]), text="", **V)
error(G, [1, 2, 2, 2, -2], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 2, 3]), text="", **V)
error(G, tensor("int64", [1 << 40, 1 << 40, 2, 2, 2]), zeros([1, 1, 1, 2, 3]),
      zeros([1, 2, 2, 2, 3]), text="", **V)
error(G, [1, 2, 2, 2, 4], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 2, 3]),
      text="input and filter_sizes must have the same number of channels. Got 4 for input and 2", **V)
error(G, [1, 2, 2, 2, 2], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 2, 4]),
      text="out_backprop and filter_sizes must have the same number of channels. Got 4", **V)
error(G, [3, 2, 2, 2, 2], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 2, 3]),
      text="input and out_backprop must have the same batch size. Input batch: 3", **V)
error(G, [1, 2, 2, 2, 2], zeros([1, 1, 1, 2, 3]), zeros([1, 2, 2, 1, 3]),
      text="Conv3DBackpropInputOp: Size of out_backprop doesn't match computed: actual = 1, "
      "computed = 2 spatial_dim: 3 input: 2", **V)
error(G, [1, 2, 2, 2, 2], zeros([1, 1, 1, 2, 3]), zeros([2, 2, 2, 3]),
      text="out_backprop tensor must have 5 dimensions", **V)
error("Conv3DBackpropFilterV2", zeros([1, 2, 2, 2, 2]), [1, 1, 1, 2, 3], zeros([1, 2, 1, 2, 3]),
      text="Conv3DBackpropFilterOp: Size of out_backprop doesn't match computed: actual = 1, "
      "computed = 2 spatial_dim: 2", **V)
error("Conv3DBackpropFilterV2", zeros([1, 2, 2, 2, 2]), [1, 1, 1, 2], zeros([1, 2, 2, 2, 3]),
      text="filter_sizes tensor must have 5 dimensions", **V)
error("Conv3DBackpropFilterV2", zeros([1, 2, 2, 2, 2]), [1, 1, 1, 0, 3], zeros([1, 2, 2, 2, 3]),
      text="Got 2 for input and 0 for filter_sizes", **V)
