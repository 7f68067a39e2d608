import tensorflow as tf

from generate import case, error, tensor, uniform

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIGNED = INTS[:4]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
NAN = float("nan")
INF = float("inf")
# The special values, against each other below.
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, -INF, NAN]


def low(dtype, small=-6):
  return 1 if dtype.startswith("u") else small


def pairs(values):
  return ([[x for x in values for _ in values]], [[y for _ in values for y in values]])


# Every dtype, of one shape and with a scalar on either side.
def binary(op, dtypes, start=None, end=7, integer_y=(1, 5)):
  for dtype in dtypes:
    begin = low(dtype) if start is None else start
    y_range = (begin, end)
    if dtype in INTS:
      y_range = integer_y
    case(op, uniform([2, 9], begin, end, 1, dtype), uniform([2, 9], *y_range, 2, dtype))
    case(op, uniform([5], begin, end, 3, dtype), uniform([], *y_range, 4, dtype))
    case(op, uniform([], begin, end, 5, dtype), uniform([5], *y_range, 6, dtype))


for name in ["AddV2", "Sub", "Mul"]:
  binary(name, INTS + FLOATS + COMPLEX)
binary("Add", SIGNED + ["uint8"] + FLOATS + COMPLEX)
for name in ["Maximum", "Minimum"]:
  binary(name, INTS + FLOATS)
for name in ["Less", "LessEqual", "Greater", "GreaterEqual"]:
  binary(name, INTS + FLOATS)
for name in ["Equal", "NotEqual"]:
  binary(name, INTS + FLOATS + COMPLEX)
for name in ["FloorDiv", "FloorMod"]:
  binary(name, INTS + FLOATS)
binary("Div", INTS + FLOATS + COMPLEX)
binary("TruncateDiv", INTS + FLOATS)
binary("TruncateMod", ["int32", "int64", "float", "double"])
for name in ["RealDiv", "DivNoNan", "MulNoNan"]:
  binary(name, FLOATS + COMPLEX)
binary("SquaredDifference", ["int32", "int64"] + FLOATS + COMPLEX)
binary("Pow", SIGNED + FLOATS + COMPLEX, start=1, end=4)
for name in ["Xdivy", "Xlogy", "Xlog1py"]:
  binary(name, FLOATS + COMPLEX, start=0.25)
binary("Atan2", FLOATS)
for name in ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"]:
  binary(name, INTS)
for name in ["LogicalAnd", "LogicalOr"]:
  case(name, [True, False, True, False], [True, True, False, False])
  case(name, [[True], [False]], [True, False])
case("LogicalNot", [True, False])

# Special values. (TensorFlow's own kernels flush denormals: there are none here.)
SPECIAL_X, SPECIAL_Y = pairs(SPECIAL)
for name in ["AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "MulNoNan", "Maximum", "Minimum", "Less",
             "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "SquaredDifference",
             "Atan2", "Xdivy", "Xlogy", "Pow", "TruncateDiv"]:
  case(name, SPECIAL_X, SPECIAL_Y)
for name in ["FloorDiv", "FloorMod"]:
  for dtype in ["float", "double"]:
    case(name, tensor(dtype, [7, -7, 7, -7, 5, -5, 0, -0.0, 1, 0.5, -0.5]),
         tensor(dtype, [2, 2, -2, -2, INF, INF, -2, 2, 0.25, 0.3, 0.3]))
case("Pow", [-8.0, -2.0, -2.0, 0.0, 0.0, 1e30, 1e-30, -1e20, 2.0, 0.999],
     [1 / 3, 3.0, -3.0, 0.0, -1.0, 2.0, 2.0, 3.0, 127.5, 1e4])

# Whole numbers at their ends.
MIN32 = -2147483648
case("FloorDiv", [MIN32, MIN32, 7, -7, -7], [-1, 2, -2, 2, -2])
case("FloorMod", [MIN32, MIN32, 7, -7, -7], [-1, 3, -2, 2, -2])
case("Div", tensor("int8", [-128, 7, -7]), tensor("int8", [-1, 2, 2]))
case("TruncateMod", [MIN32, 7, -7], [-1, 2, 2])
case("Abs", tensor("int8", [-128, -1, 0, 127]))
case("Neg", tensor("int32", [MIN32, 1, 0]))
case("AddV2", tensor("uint8", [200, 255]), tensor("uint8", [100, 1]))
case("Mul", tensor("uint16", [65535, 256]), tensor("uint16", [65535, 256]))
case("Mul", [2147483647, -65536], [2, 65536])
case("Pow", [2, 3, -3, 0, 2], [31, 40, 3, 0, 33])
case("Pow", tensor("int8", [2, 3, -2]), tensor("int8", [9, 7, 7]))
case("LeftShift", [1, -1, 5], [40, -3, 2])
case("RightShift", [1, -9, 1024], [40, 40, -2])
case("RightShift", tensor("uint8", [200, 7]), tensor("uint8", [9, 1]))
case("FloorDiv", tensor("int32", [], [0]), [0])
case("FloorMod", tensor("int32", [], [2, 0]), tensor("int32", 0), comment="nothing is divided")
for name in ["FloorDiv", "FloorMod", "Div", "TruncateDiv"]:
  for dtype in ["int32", "int64", "uint8", "int16"]:
    error(name, tensor(dtype, [7, 6]), tensor(dtype, [2, 0]), text="Integer division by zero",
          code="INVALID_ARGUMENT")
  error(name, [7, 6], tensor("int32", 0), text="Integer division by zero",
        code="INVALID_ARGUMENT")
error("TruncateMod", [1], [0], text="Integer division by zero", code="INVALID_ARGUMENT")
for dtype in SIGNED:
  error("Pow", tensor(dtype, [2, 3]), tensor(dtype, [1, -1]),
        text="Integers to negative integer powers are not allowed")

# Broadcasting.
for a, b in [([1], [4]), ([3, 1], [1, 4]), ([2, 3, 4], [4]), ([2, 3, 4], [3, 1]),
             ([2, 3, 4], [2, 1, 1]), ([4], [2, 3, 4]), ([2, 1, 4], [3, 1]),
             ([5, 1, 3, 1], [1, 4, 1, 2]), ([1, 1], [3]), ([], [1, 1]), ([0], [1]),
             ([2, 0], [2, 1]), ([1, 0], []), ([0, 3], [3]), ([2, 1, 2, 1, 2], [1, 3, 2, 3, 1]),
             ([1, 1, 1], []), ([7, 1, 1], [1, 1, 5])]:
  case("Sub", uniform(a, seed=1), uniform(b, seed=2))
  case("Less", uniform(a, 0, 3, 3, "int32"), uniform(b, 0, 3, 4, "int32"))
# Longer than a block of the loop, so that runs begin in the middle of a row.
case("Sub", uniform([3, 1500]), uniform([1500], seed=2))
case("Sub", uniform([1500]), uniform([3, 1500], seed=2))
case("Sub", uniform([1500, 3]), uniform([1500, 1], seed=2))
case("Sub", uniform([40, 1, 70]), uniform([40, 1], seed=2))
case("Sub", uniform([4000]), uniform([], seed=2))
case("AddV2", uniform([70000]), uniform([70000], seed=2))
case("Mul", uniform([7, 13, 77], dtype="half"), uniform([13, 1], seed=2, dtype="half"))
error("AddV2", [1.0, 2.0], [1.0, 2.0, 3.0], text="Incompatible shapes: [2] vs. [3]")
error("Mul", [[1.0, 2.0]], [[1.0, 2.0, 3.0]], text="Incompatible shapes: [1,2] vs. [1,3]")
error("Less", [1, 2], [1, 2, 3], text="Incompatible shapes: [2] vs. [3]")
error("Equal", [1, 2], [1, 2, 3], text="Incompatible shapes: [2] vs. [3]")
case("Equal", [1.0, 2.0], [1.0, 2.0, 3.0], incompatible_shape_error=False)
case("NotEqual", [1.0, 2.0], [1.0, 2.0, 3.0], incompatible_shape_error=False)
case("Equal", [[1.0], [2.0]], [1.0, 2.0, 3.0], incompatible_shape_error=False)
for name in ["Equal", "NotEqual"]:
  case(name, [True, False], [True, True])
  case(name, ["a", "b", ""], ["a", "c", ""])
  case(name, [["a"], ["b"]], ["b", "a"])
  case(name, ["a", "b"], ["a"])
  case(name, tensor("string", "x"), ["x", "y"])
  case(name, ["a", "b"], ["a", "b", "c"], incompatible_shape_error=False)
  for dtype in ["qint8", "quint8", "qint32"]:
    case(name, tensor(dtype, [1, 2, 3]), tensor(dtype, [1, 5, 3]))
case("Add", ["a", "b"], ["c"])
case("Add", tensor("string", "a"), [["c", ""]])


# One operand.
def unary(op, dtypes, start=-3, end=3, special=True, tolerance=None):
  for dtype in dtypes:
    begin = 0 if dtype.startswith("u") else start
    case(op, uniform([3, 7], begin, end, 1, dtype), tolerance=tolerance)
    case(op, uniform([], begin, end, 2, dtype), tolerance=tolerance)
    case(op, tensor(dtype, [], [0, 2]), tolerance=tolerance)
  if special and "float" in dtypes:
    case(op, SPECIAL, tolerance=tolerance)
    if "half" in dtypes:
      case(op, tensor("half", SPECIAL), tolerance=tolerance)
    case(op, uniform([3000], start, end, 7), tolerance=tolerance)


for name in ["Neg", "Abs"]:
  unary(name, SIGNED + FLOATS + (COMPLEX if name == "Neg" else []))
unary("Sign", SIGNED + FLOATS + COMPLEX)
unary("Square", INTS + FLOATS + COMPLEX)
unary("Invert", INTS)
for name in ["Ceil", "Floor"]:
  unary(name, FLOATS)
unary("Round", FLOATS)
unary("Rint", ["float", "double"])
case("Round", [0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, 1e30])
case("Rint", [0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, 1e30])
for name in ["Exp", "Expm1", "Sin", "Cos", "Tanh", "Sinh", "Cosh", "Atan"]:
  unary(name, FLOATS + COMPLEX)
unary("Tan", FLOATS + COMPLEX, -1.4, 1.4)
for name in ["Sqrt", "Rsqrt", "Log", "Reciprocal"]:
  unary(name, FLOATS + COMPLEX, 0.1, 9)
unary("Log1p", FLOATS + COMPLEX, -0.9, 5)
unary("Sigmoid", FLOATS + COMPLEX, -9, 9)
for name in ["Asin", "Acos", "Atanh"]:
  unary(name, FLOATS + COMPLEX, -0.95, 0.95)
unary("Asinh", FLOATS + COMPLEX)
unary("Acosh", FLOATS + COMPLEX, 1.1, 9)
for name in ["Erf", "Erfc"]:
  unary(name, FLOATS)
for name in ["Softplus", "Elu", "Selu", "Softsign"]:
  unary(name, FLOATS, -9, 9, special=name != "Softsign")
unary("Lgamma", ["float", "double", "half"], 0.3, 9, special=False)
unary("Digamma", ["float", "double", "half"], 0.3, 9, special=False, tolerance="rel 1e-2 abs 1e-3")
case("Lgamma", [-0.5, -1.5, 0.0, -1.0, 3.0, 100.0, INF])
case("Digamma", [-0.5, -1.5, -0.25, 3.0, 100.0, 1e-3, -3.7], tolerance="rel 1e-5 abs 1e-5")
for name in ["IsFinite", "IsNan", "IsInf"]:
  unary(name, FLOATS)
for name in ["Relu", "Relu6"]:
  unary(name, INTS + FLOATS, -3, 9)
unary("LeakyRelu", FLOATS)
case("LeakyRelu", [-1.0, 2.0, NAN, -0.0], alpha=0.5)
case("Exp", [-104.5, -86.0, 88.7, 88.8, 1e-8, 700.0, -700.0])
case("Tanh", [1e-5, -1e-3, 0.3, 5.0, 9.0, 20.0, -20.0])
case("Erfc", [0.01, 0.4, 0.6, 2.0, 5.0, 8.7, 9.1, -0.3, -6.0, 30.0])
case("Log1p", [-1.0, -2.0, 1e-7, -1e-7, 1e10, 0.5, -0.5])
case("Expm1", [1e-7, -1e-7, 0.3, -0.3, -20.0, 80.0, 90.0])
case("Sin", [100.0, 1000.0, 1e5, -1e5, 3.14159274, 1.57079637], tolerance="rel 1e-5 abs 1e-6")
case("Cos", [100.0, 1000.0, 1e5, -1e5, 3.14159274, 1.57079637], tolerance="rel 1e-5 abs 1e-6")
case("Softplus", [-90.0, -20.0, -15.0, -13.0, 0.0, 13.0, 14.0, 15.0, 20.0])

# Parts of complex numbers.
for dtype, part in [("complex64", "float"), ("complex128", "double")]:
  for name in ["Real", "Imag", "ComplexAbs", "Angle"]:
    case(name, uniform([2, 3], -3, 3, 1, dtype), Tout=tf.as_dtype(part))
  case("Conj", uniform([2, 3], -3, 3, 1, dtype))
  case("Complex", uniform([2, 3], -3, 3, 1, part), uniform([3], -3, 3, 2, part),
       Tout=tf.as_dtype(dtype))

# Gradients.
for name in ["TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad"]:
  for dtype in FLOATS + COMPLEX:
    case(name, uniform([2, 5], 0.2, 0.9, 1, dtype), uniform([2, 5], -1, 1, 2, dtype))
  case(name, uniform([], 0.2, 0.9, 1), uniform([], -1, 1, 2))
  error(name, [1.0, 2.0], [1.0, 2.0, 3.0], text="must have")
for name in ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad"]:  # No gradient is none.
  for dtype in FLOATS:
    case(name, tensor(dtype, [0.0, INF, NAN, 2.0] * 5), tensor(dtype, [0.0, -0.0] * 10))
    case(name, tensor(dtype, 0.0), tensor(dtype, 0.0))
  for dtype in COMPLEX:
    case(name, tensor(dtype, [0.0, 2.0j]), tensor(dtype, [0.0, 0.0]))
for name in ["ReluGrad", "Relu6Grad"]:
  for dtype in INTS + FLOATS:
    begin = 0 if dtype.startswith("u") else -2
    case(name, uniform([2, 5], begin, 9, 1, dtype), uniform([2, 5], begin, 9, 2, dtype))
  case(name, [NAN, 1.0, 1.0, 1.0, INF, -1.0], [-1.0, NAN, 0.0, 2.0, -1.0, 6.0])
for name in ["EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad"]:
  for dtype in FLOATS:
    case(name, uniform([2, 5], -2, 2, 1, dtype), uniform([2, 5], -0.9, 2, 2, dtype))
case("LeakyReluGrad", [1.0, 1.0, 1.0, 1.0], [NAN, -1.0, -0.0, 9.0], alpha=0.25)
error("ReluGrad", [1.0, 2.0], [1.0], text="must have the same size and shape")
case("TanhGrad", uniform([2, 3], -1, 1), uniform([3, 2], -1, 1, 2),
     comment="as many elements will do")

# Choices.
for dtype in INTS + FLOATS + COMPLEX:
  case("SelectV2", [True, False, True], uniform([3], low(dtype), 7, 1, dtype),
       uniform([3], low(dtype), 7, 2, dtype))
case("SelectV2", [True, False], [True, True], [False, False])
case("SelectV2", True, uniform([2, 3]), uniform([3], seed=2))
case("SelectV2", [[True], [False]], uniform([1, 3]), uniform([2, 1], seed=2))
case("SelectV2", [True, False, True], uniform([2, 1]), 5.0)
case("SelectV2", [[True, False], [False, True]], "a", ["b", "c"])
case("SelectV2", True, 1.0, 2.0)
case("SelectV2", tensor("bool", [], [0]), 1.0, [2.0])
error("SelectV2", [True, False], [1.0, 2.0, 3.0], 1.0, text="must be broadcastable")
case("Select", [True, False], [1.0, 2.0], [3.0, 4.0])
case("Select", True, [1.0, 2.0], [3.0, 4.0])
case("Select", [True, False, True], uniform([3, 4]), uniform([3, 4], seed=2))
case("Select", [True, False], ["a", "b"], ["c", "d"])
case("Select", [False, True], [["a", "x"], ["b", "y"]], [["c", "z"], ["d", "w"]])
error("Select", [True, False], [1.0, 2.0], [3.0, 4.0, 5.0], text="must have the same size")
error("Select", [True, False, True], [1.0, 2.0], [3.0, 4.0], text="")
for dtype in ["int8", "int16", "int32", "int64", "uint8", "uint16"] + FLOATS:
  case("ClipByValue", uniform([6], low(dtype), 9, 1, dtype), tensor(dtype, 2), tensor(dtype, 5))
for dtype in COMPLEX:
  case("ClipByValue", tensor(dtype, [1 + 2j, -3 + 1j, 0.5 - 4j, 2, -1 - 1j]), tensor(dtype, -1),
       tensor(dtype, 1 + 1j))
case("ClipByValue", [1.0, NAN, -3.0, 9.0], 5.0, 2.0)
case("ClipByValue", [1.0, NAN, -3.0, 9.0], NAN, 2.0)
case("ClipByValue", [1.0, 4.0, -3.0], [0.0, 0.0, -1.0], [0.5, 9.0, 2.0])
error("ClipByValue", [1.0, 2.0, 3.0], [1.0, 2.0], 2.0, text="must be either of the same shape")

# Sums.
for dtype in INTS + FLOATS + COMPLEX:
  case("AddN", [uniform([2, 3], low(dtype), 7, seed, dtype) for seed in (1, 2, 3)])
case("AddN", [[1.0, 2.0]])
case("AddN", [uniform([3000], seed=seed) for seed in range(1, 10)])
case("AddN", [1.0, 2.0])
error("AddN", [[1.0, 2.0], [1.0]], text="must have the same size and shape")

for dtype in ["float", "double"]:
  case("NextAfter", tensor(dtype, [[1, 0, -0.0, 3.5, float("nan"), float("inf")]]),
       tensor(dtype, [[2], [-2], [1], [3.5], [float("nan")], [0]]))

# --- Special functions
for op in ["BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0",
           "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1"]:
  for dtype in ["float", "double", "half"]:
    case(op, uniform([20], 0.1, 12, 3, dtype),
         tolerance={"half": "rel 2e-3 abs 1e-3",
                    "double": "rel 1e-9 abs 1e-12"}.get(dtype, "rel 2e-5 abs 1e-6"))
  case(op, [0.0, 1.5, float("nan")], tolerance="rel 2e-5 abs 1e-6")
for dtype, tolerance in [("float", "rel 1e-4 abs 1e-5"), ("double", "rel 1e-8 abs 1e-10")]:
  case("Ndtri", uniform([20], 0, 1, 3, dtype), tolerance=tolerance)
  case("Ndtri", tensor(dtype, [-0.1, 0, 1, 1.1, float("nan")]), tolerance=tolerance)
  case("Erfinv", uniform([20], -1, 1, 3, dtype), tolerance=tolerance)
  case("Erfinv", tensor(dtype, [-1.5, -1, 1, 1.5, float("nan")]), tolerance=tolerance)
  case("Polygamma", tensor(dtype, [[0], [1], [2], [3]]), uniform([1, 6], 0.5, 9, 4, dtype),
       tolerance=tolerance)
  case("Zeta", uniform([4, 1], 1.5, 9, 3, dtype), uniform([1, 6], 0.5, 9, 4, dtype),
       tolerance=tolerance)
  for op in ["Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad"]:
    case(op, uniform([4, 1], 0.2, 9, 3, dtype), uniform([1, 6], 0.1, 12, 4, dtype),
         tolerance=tolerance)
for dtype, tolerance in [("float", "rel 1e-4 abs 1e-6"), ("double", "rel 1e-8 abs 1e-12")]:
  a, b, x = uniform([20], 0.1, 9, 3, dtype), uniform([20], 0.1, 9, 4, dtype), uniform(
      [20], 0, 1, 5, dtype)
  case("Betainc", a, b, x, tolerance=tolerance)
  case("Betainc", a, tensor(dtype, 2), x, tolerance=tolerance)
  case("Betainc", tensor(dtype, 2), tensor(dtype, 0.5), x, tolerance=tolerance)
  case("Betainc", tensor(dtype, 2), tensor(dtype, 0.5), tensor(dtype, 0.3), tolerance=tolerance)
  case("Betainc", tensor(dtype, [1, -2, 0, 3, NAN, 2, 2, 2, 2]),
       tensor(dtype, [1, 2, 1, 0, 1, 2, 2, 2, 2]),
       tensor(dtype, [0.3, 0.3, 0.3, 0.3, 0.3, -0.1, 1.1, 0, 1]), tolerance=tolerance)
error("Betainc", [1., 2.], [1., 2., 3.], 0.5,
      text="Shapes of a and b are inconsistent: [2] vs. [3]")
error("Betainc", [[1., 2.]], 0.5, [1., 2.],
      text="Shapes of a and x are inconsistent: [1,2] vs. [2]")
error("Betainc", 0.5, [1.], [1., 2.], text="Shapes of b and x are inconsistent: [1] vs. [2]")
case("Igamma", [0.0, 1.0, -1.0, 2.0], [1.0, 0.0, 1.0, float("nan")])

for dtype in INTS:
  case("PopulationCount", tensor(dtype, [0, 1, 3, 100, 127] + ([-1, -128] if dtype in SIGNED else [255])))
for op in ["Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence"]:
  for dtype in ["float", "double"]:
    case(op, uniform([3, 40], -4 if op != "Expint" else 0, 12, 1, dtype))
    case(op, tensor(dtype, SPECIAL + [1e-5, 0.3, -0.3, 1.5, 1.7, 3, 10, 50, 1e5, 1e9]))
# One shape on both sides, for the functions of networks.
error("ReluGrad", [[1.0, 2.0]], [1.0, 2.0], text="must have the same size and shape")
error("SoftplusGrad", [[1.0, 2.0]], [1.0, 2.0], text="must have the same size and shape")
case("TanhGrad", [[1.0, 2.0]], [1.0, 2.0])

for dtype in ["half", "bfloat16", "float", "double", "complex64", "complex128"]:
  case("Inv", uniform([9], 1, 9, 3, dtype), tolerance="rel 1e-2" if dtype == "bfloat16" else None)
  case("InvGrad", uniform([9], 1, 9, 3, dtype), uniform([9], 1, 9, 4, dtype),
       tolerance="rel 2e-2" if dtype == "bfloat16" else None)
for dtype in ["float", "double", "int32", "int64"]:
  case("Mod", tensor(dtype, [7, -7, 7, -7, 0]), tensor(dtype, [3, 3, -3, -3, 5]))
case("Mod", [[7.5], [-1.25]], [2.0, 3.0])
error("Mod", [1], [0], text="Integer division by zero")
for dtype in ["float", "double"]:
  case("ApproximateEqual", tensor(dtype, [1, 2, float("nan"), float("inf"), 0]),
       tensor(dtype, [1.000001, 2.1, float("nan"), float("inf"), 1e-5]))
  case("ApproximateEqual", tensor(dtype, [[1, 2.5, 3]]), tensor(dtype, [[1.5, 2, 3.6]]), tolerance=0.5)
error("ApproximateEqual", [1.0], 1.0, text="x and y must be of the same shape. x shape: [1]. y shape: []")
