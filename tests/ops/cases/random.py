from generate import case, error, tensor, uniform, variable

KEY = tensor("uint64", [123456789012345])
COUNTER = tensor("uint64", [5, 7])
WRAPS = tensor("uint64", [2**64 - 3, 2**64 - 1])  # The counter's carry.
EXACT = "rel 2e-7 abs 0"
FLOATS = ["float", "double", "half", "bfloat16"]

case("StatelessRandomGetKeyCounter", tensor("int64", [1, 2]))
case("StatelessRandomGetKeyCounter", [-1, 2])
error("StatelessRandomGetKeyCounter", [1, 2, 3], text="seed must have shape [2], not [3]")

for op in ["StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"]:
  for dtype in FLOATS:
    for shape in [[7], [3, 1001]]:
      case(op, shape, KEY, COUNTER, 1, dtype=dtype, tolerance=EXACT)
    case(op, [70], KEY, WRAPS, 3, dtype=dtype, tolerance=EXACT)
  case(op, tensor("int64", [0, 3]), KEY, COUNTER, 1)
  case(op, tensor("int32", [], [0]), KEY, COUNTER, 1, tolerance=EXACT)
  error(op, [3], KEY, COUNTER, 2, text="Unsupported algorithm id: 2")
  error(op, [-3], KEY, COUNTER, 1, text="Dimension -3 must be >= 0")
  error(op, [[3]], KEY, COUNTER, 1, text="shape must be a vector of {int32,int64}, got shape [1,1]")
  error(op, [3], tensor("uint64", [1, 2]), COUNTER, 1, text="key must have shape [1], not [2]")
  error(op, [3], KEY, tensor("uint64", 1), 1, text="counter must be a vector with length at least")
for dtype in ["int32", "int64", "uint32", "uint64"]:
  case("StatelessRandomUniformFullIntV2", [1003], KEY, COUNTER, 1, dtype=dtype)
case("StatelessRandomUniformIntV2", [1003], KEY, COUNTER, 1, -5, 2147483647)
case("StatelessRandomUniformIntV2", [1003], KEY, COUNTER, 1, tensor("int64", -5),
     tensor("int64", 2**60))
case("StatelessRandomUniformIntV2", [0], KEY, COUNTER, 1, 5, 5)
error("StatelessRandomUniformIntV2", [3], KEY, COUNTER, 1, 5, 5,
      text="Need minval < maxval, got 5 >= 5")
error("StatelessRandomUniformIntV2", [3], KEY, COUNTER, 1, [5], 7,
      text="minval must be 0-D, got shape [1]")

for dtype in FLOATS:
  for op in ["RandomUniform", "RandomStandardNormal", "TruncatedNormal"]:
    case(op, [23], seed=1, seed2=2, dtype=dtype, tolerance=EXACT)
case("RandomUniform", [3], seed=-7, seed2=0, dtype="float", tolerance=EXACT)
case("RandomUniformInt", [23], -7, 100, seed=5, seed2=6)
case("RandomUniformInt", tensor("int64", [5]), tensor("int64", -7), tensor("int64", 100), seed=5,
     seed2=6)
error("RandomUniformInt", [3], 5, 4, text="Need minval < maxval, got 5 >= 4")
case("RandomShuffle", [0, 1, 2, 3, 4, 5], seed=3, seed2=4)
case("RandomShuffle", [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]], seed=3, seed2=4)
case("RandomShuffle", ["a", "b", "c"], seed=3, seed2=4)
case("RandomShuffle", list(range(70)), seed=3, seed2=4)
case("RandomShuffle", 5.0, seed=3, seed2=4)
case("RandomShuffle", tensor("float", [], [0, 2]), seed=3, seed2=4)
for value in [list(range(70)), [[0, 1], [2, 3], [4, 5]], ["a", "b", "c"], 5.0,
              tensor("float", [], [0, 2])]:
  case("StatelessShuffle", value, KEY, COUNTER, 1)
case("StatelessShuffle", list(range(9)), KEY, WRAPS, 3)
error("StatelessShuffle", [1, 2], KEY, COUNTER, 2, text="Unsupported algorithm id: 2")
error("StatelessShuffle", [1, 2], tensor("uint64", [1, 2]), COUNTER, 1, text="key must have shape [1]")

# --- Multinomial
for dtype in ["float", "double", "half", "bfloat16"]:
  case("Multinomial", uniform([3, 5], -2, 3, 1, dtype), 7, seed=3, seed2=8)
  case("StatelessMultinomial", uniform([3, 5], -2, 3, 1, dtype), 7, tensor("int64", [3, 8]))
case("Multinomial", [[float("-inf"), 1.0, float("-inf"), 2.0]], 9, seed=3, output_dtype="int32")
case("StatelessMultinomial", [[0.0, 1.0, 2.0]], 0, [1, 2], output_dtype="int32")
case("StatelessMultinomial", tensor("float", [], [0, 3]), 4, [1, 2])
error("Multinomial", [1.0], 7, text="")
error("Multinomial", [[1.0]], -1, text="num_samples should be non-negative, got -1")
error("Multinomial", [[1.0]], [1], text="")
error("Multinomial", tensor("float", [], [2, 0]), 1, text="num_classes should be positive, got 0")

# The first versions, which take the seed itself.
for op in ["StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"]:
  for dtype in FLOATS:
    case(op, [3, 101], [12, -34], dtype=dtype, tolerance=EXACT)
  case(op, tensor("int64", [7]), tensor("int64", [2**40, -5]), tolerance=EXACT)
  error(op, [3], [1, 2, 3], text="seed must have shape [2], not [3]")
for dtype in ["int32", "int64", "uint32", "uint64"]:
  case("StatelessRandomUniformFullInt", [70], tensor("int64", [3, 4]), dtype=dtype)
error("StatelessRandomUniformFullInt", [5], tensor("uint32", [2**32 - 1, 2**31]), dtype="uint64", text="seed")
for dtype in ["int32", "int64"]:
  case("StatelessRandomUniformInt", [70], [3, 4], tensor(dtype, -5), tensor(dtype, 1000))
  error("StatelessRandomUniformInt", [7], [3, 4], tensor(dtype, 5), tensor(dtype, 5), text="Need minval < maxval")

# --- Generators: counter and key in a variable.
PHILOX = tensor("int64", 1)
STATE = [5, 7, 123456789012345]


def generator(state=STATE, dtype="int64"):
  return variable(tensor(dtype, state))


for op in ["StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"]:
  for dtype in FLOATS:
    case(op, generator(), PHILOX, tensor("int64", [3, 7]), dtype=dtype, tolerance=EXACT)
  case(op, generator([-1, -1, 3]), PHILOX, [70], tolerance=EXACT)
  case(op, generator(), PHILOX, [0, 2])
for dtype in ["int32", "int64", "uint32", "uint64"]:
  case("StatefulUniformFullInt", generator(), PHILOX, [103], dtype=dtype)
for dtype in ["int32", "int64"]:
  case("StatefulUniformInt", generator(), PHILOX, [103], tensor(dtype, 3), tensor(dtype, 100))
case("StatefulUniformInt", generator(), PHILOX, [5], tensor("int64", -2**62),
     tensor("int64", 2**62))
error("StatefulUniformInt", generator(), PHILOX, [3], 5, 5,
      text="Need minval < maxval, got 5 >= 5")
error("StatefulUniformInt", generator(), PHILOX, [3], [5], 7,
      text="minval must be 0-D, got shape [1]")
for op in ["StatefulUniform", "StatefulUniformFullInt"]:
  error(op, generator(), PHILOX, [-3], text="Dimension -3 must be >= 0")
  error(op, generator(), tensor("int64", [1]), [3],
        text="input 1 (0-based) must have shape [], not [1]")
  error(op, generator(), tensor("int64", 7), [3], text="Unsupported algorithm id: 7")
  error(op, generator([1, 2]), PHILOX, [3],
        text="For the Philox algorithm, the size of state must be at least 3; got 2")
  error(op, generator(dtype="int32", state=[1, 2, 3]), PHILOX, [3],
        text="dtype of RNG state variable must be int64, not int32")

for dtype in ["int32", "int64", "uint32", "uint64"]:
  case("NonDeterministicInts", tensor("int64", [2, 3]), dtype=dtype, values=False)
error("NonDeterministicInts", tensor("int64", [-2]), text="")
error("NonDeterministicInts", tensor("int64", 2), text="")
