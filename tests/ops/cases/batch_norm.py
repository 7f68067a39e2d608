from generate import case, error, ones, tensor, uniform, zeros

TOLERANCE = {"float": "rel 1e-4 abs 1e-5", "half": "rel 4e-3 abs 4e-3",
             "bfloat16": "rel 2e-2 abs 2e-2"}
SHAPES = {"NHWC": [2, 4, 3, 5], "NCHW": [2, 5, 4, 3], "NDHWC": [2, 2, 3, 2, 5],
          "NCDHW": [2, 5, 2, 3, 2]}


def vector(seed, low=-1, high=1):
  return uniform([5], low, high, seed)


for data_format, shape in SHAPES.items():
  for dtype in ["float", "half", "bfloat16"]:
    x, dy = uniform(shape, -2, 3, 1, dtype), uniform(shape, -1, 1, 6, dtype)
    attrs = {"data_format": data_format, "epsilon": 0.01, "tolerance": TOLERANCE[dtype]}
    statistics = (vector(2), vector(3), vector(4), vector(5, 0.5, 2))
    for factor in [1.0, 0.25]:
      case("FusedBatchNormV3", x, *statistics, is_training=True,
           exponential_avg_factor=factor, **attrs)
    case("FusedBatchNormGradV3", dy, x, vector(2), vector(3), vector(5, 0.5, 2), zeros([1]),
         is_training=True, **attrs)
    # Elsewhere TensorFlow leaves the reserve spaces as they happen to be.
    if len(shape) == 4 and dtype != "half":
      case("FusedBatchNormV3", x, *statistics, is_training=False, **attrs)
    if data_format == "NHWC" or dtype != "half" and data_format == "NCHW":
      case("FusedBatchNormGradV3", dy, x, vector(2), vector(3), vector(5, 0.5, 2), zeros([1]),
           is_training=False, **attrs)

# More channels than a vector, more rows than one sum in float.
case("FusedBatchNormV3", uniform([4, 9, 8, 70], 5, 9), uniform([70], seed=2), uniform([70], seed=3),
     zeros([0]), zeros([0]), is_training=True, tolerance=TOLERANCE["float"])
case("FusedBatchNormGradV3", uniform([4, 9, 8, 70], seed=6), uniform([4, 9, 8, 70], 5, 9),
     uniform([70], seed=2), uniform([70], 6, 8, seed=3), uniform([70], 1, 2, seed=4), zeros([0]),
     is_training=True, tolerance="rel 1e-4 abs 1e-4")
case("FusedBatchNormV3", uniform([1, 1, 1, 5]), vector(2), vector(3), vector(4), vector(5, 0.5, 2),
     is_training=True, exponential_avg_factor=0.5, tolerance=TOLERANCE["float"])
case("FusedBatchNormV3", tensor("float", [1, float("nan"), 3, 4], [1, 2, 1, 2]), ones([2]),
     zeros([2]), zeros([0]), zeros([0]), is_training=True, tolerance=TOLERANCE["float"])
case("FusedBatchNormV3", zeros([0, 3, 3, 5]), vector(2), vector(3), vector(4), vector(5, 0.5, 2),
     is_training=True)
case("FusedBatchNormGradV3", zeros([0, 3, 3, 5]), zeros([0, 3, 3, 5]), vector(2), vector(3),
     vector(4), zeros([0]), is_training=True)

X = zeros([1, 2, 2, 5])
error("FusedBatchNormV3", X, zeros([3]), vector(3), vector(4), vector(5),
      text="scale must have the same number of elements as the channels of x, got 3 and 5")
error("FusedBatchNormV3", X, vector(2), vector(3), zeros([0]), zeros([0]), is_training=False,
      text="When is_training=false, mean must have the same number of elements as the channels of "
           "x, got 0 and 5")
error("FusedBatchNormV3", X, vector(2), vector(3), zeros([3]), vector(5), is_training=True,
      exponential_avg_factor=0.5, text="When exponential_avg_factor != 1, mean must have the same")
error("FusedBatchNormV3", zeros([2, 5]), vector(2), vector(3), vector(4), vector(5),
      text="input must be 4-dimensional")
error("FusedBatchNormGradV3", zeros([1, 2, 2, 3]), X, vector(2), vector(3), vector(4), zeros([0]),
      text="x and y_backprop must have same shape, but x has shape [1,2,2,5] and y_backprop has "
           "shape [1,2,2,3]")

for version, dtypes in [("", ["float"]), ("V2", ["float", "half", "bfloat16"])]:
  for dtype in dtypes:
    x, dy = uniform([2, 4, 3, 5], -2, 3, 1, dtype), uniform([2, 4, 3, 5], -1, 1, 6, dtype)
    attrs = {"epsilon": 0.01, "tolerance": TOLERANCE[dtype]}
    for factor in [1.0, 0.25]:
      case("FusedBatchNorm" + version, x, vector(2), vector(3), vector(4), vector(5, 0.5, 2),
           exponential_avg_factor=factor, **attrs)
    if dtype != "half":
      case("FusedBatchNorm" + version, x, vector(2), vector(3), vector(4), vector(5, 0.5, 2),
           is_training=False, **attrs)
    # With half the reserve spaces are as the machine has them.
    if dtype == "half":
      continue
    case("FusedBatchNormGrad" + version, dy, x, vector(2), vector(3), vector(5, 0.5, 2), **attrs)
    case("FusedBatchNormGrad" + version, dy, x, vector(2), vector(3), vector(5, 0.5, 2),
         is_training=False, **attrs)
  error("FusedBatchNorm" + version, zeros([2, 5]), vector(2), vector(3), vector(4), vector(5),
        text="input must be 4-dimensional")
