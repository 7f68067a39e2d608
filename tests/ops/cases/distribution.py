from generate import case, error, tensor, variable

KEY = tensor("uint64", [123456789012345])
COUNTER = tensor("uint64", [5, 7])
SEEDS = dict(seed=3, seed2=7)
EXACT = {"half": "rel 1e-3 abs 0", "float": "rel 2e-7 abs 0", "double": "rel 1e-14 abs 0"}
INTEGERS = ["int32", "int64"]
NAN, INF = float("nan"), float("inf")

ALPHAS = [0.1, 0.5, 1., 1.5, 20., 1000.]
for dtype in ["half", "float", "double"]:
  alphas, row = tensor(dtype, ALPHAS), tensor(dtype, [[0.5], [3.]])
  exact = dict(tolerance=EXACT[dtype])
  case("RandomGamma", [40], alphas, **SEEDS, **exact)
  case("RandomGamma", tensor("int64", [2, 30]), row, seed=-1, **exact)
  case("StatelessRandomGammaV2", [40, 6], tensor("int64", [1, 2**40]), alphas, **exact)
  case("StatelessRandomGammaV2", tensor("int64", [30, 2, 1]), [-1, 2], row, **exact)
  case("StatelessRandomGammaV3", [40, 6], KEY, COUNTER, 1, alphas, **exact)
  case("StatelessRandomGammaV3", [1003], KEY, COUNTER, 3, tensor(dtype, 1.), **exact)
  case("StatelessRandomGammaV3", [3], KEY, COUNTER, 1, tensor(dtype, 0.), **exact)
  for alpha in [-1., NAN, INF]:
    case("StatelessRandomGammaV3", [3], KEY, COUNTER, 1, tensor(dtype, alpha), **exact)
for shape, alphas in [([0], []), ([2], []), ([], [0.5])]:
  case("RandomGamma", tensor("int32", shape), tensor("float", alphas), **SEEDS,
       tolerance=EXACT["float"])
case("StatelessRandomGammaV3", [2, 0], KEY, COUNTER, 1, tensor("float", []))
case("StatelessRandomGammaV3", tensor("int32", []), KEY, COUNTER, 1, 2.5,
     tolerance=EXACT["float"])

RATES = [0., 0.3, 1., 9.99, 10., 55.5, 3000.]
for dtype in ["half", "float", "double"] + INTEGERS:
  for rates in ["half", "float", "double"] + INTEGERS:
    case("RandomPoissonV2", [30], tensor(rates, RATES), **SEEDS, dtype=dtype)
    case("StatelessRandomPoisson", [30, 7], tensor("int64", [1, -2]), tensor(rates, RATES),
         dtype=dtype)
  case("StatelessRandomPoisson", [3], [1, 2], -1., dtype=dtype)
case("StatelessRandomPoisson", tensor("int64", [5, 2, 1]), [1, 2], [[3.], [1e9]], dtype="double")
case("RandomPoissonV2", tensor("int64", [0, 3]), [3., 4.], **SEEDS, dtype="double")

ENDS = "Shape passed in must end with broadcasted shape."
for shape, alphas in [([3], [0.5, 3.]), ([2, 2], [[0.5], [1.]]), ([2, 2], [0.5]), ([2], [[1., 2.]]),
                      ([2], [])]:
  alphas = tensor("float", alphas)
  error("StatelessRandomGammaV2", shape, [1, 2], alphas, text=ENDS)
  error("StatelessRandomGammaV3", shape, KEY, COUNTER, 1, alphas, text=ENDS)
  error("StatelessRandomPoisson", shape, [1, 2], alphas, dtype="float", text=ENDS)
for dims in [[-2], [2**30, 2**30, 2**30]]:
  shape = tensor("int64", dims)
  text = "must be >= 0" if dims[0] < 0 else ""
  error("RandomGamma", shape, 1., text=text)
  error("RandomPoissonV2", shape, 1., text=text)
  error("StatelessRandomGammaV2", shape, [1, 2], 1., text=text)
  error("StatelessRandomGammaV3", shape, KEY, COUNTER, 1, 1., text=text)
  error("StatelessRandomPoisson", shape, [1, 2], 1., dtype="float", text=text)
error("RandomGamma", [[2]], 1., text="shape must be a vector of {int32,int64}, got shape")
error("RandomPoissonV2", 2, 1., text="shape must be a vector of {int32,int64}, got shape")
error("StatelessRandomGammaV2", [2], [1, 2, 3], 1., text="seed must have shape [2], not [3]")
error("StatelessRandomPoisson", [2], [1, 2, 3], 1., dtype="float",
      text="seed must have shape [2], not [3]")
error("StatelessRandomGammaV3", [2], KEY, COUNTER, 2, 1., text="Unsupported algorithm id: 2")
error("StatelessRandomGammaV3", [2], COUNTER, COUNTER, 1, 1.,
      text="key must have shape [1], not [2]")

# Binomial numbers: few successes are counted one by one, many are drawn at once.
COUNTS, PROBS = [0., 1., 7., 19., 21., 40., 100., 1000., 60000.], [0.001, 0.2, 0.5, 0.7, 0.9999]
for dtype in ["half", "float", "double"] + INTEGERS:
  for parameters in ["half", "float", "double"]:
    case("StatelessRandomBinomial", [12, 5, 9], tensor("int64", [1, -2]), tensor(parameters, COUNTS),
         tensor(parameters, [[p] for p in PROBS]), dtype=dtype)
  for count, prob in [(NAN, 0.), (NAN, 1.), (NAN, 2.), (-1., NAN), (-INF, 0.5), (-3., 0.5),
                      (10., -INF), (10., INF), (10., -0.5), (10., 1.5), (10., NAN), (INF, 0.),
                      (INF, 1.), (INF, NAN), (1e20, 0.5), (1e30, 1e-30)]:
    if not (prob != prob and count > 0 and dtype in INTEGERS):  # TensorFlow's output has chance bits.
      case("StatelessRandomBinomial", [2], [1, 2], count, prob, dtype=dtype)
for shape, counts, probs in [([], 10., 0.5), ([400], 30., 0.4), ([2, 0], tensor("float", []), 0.5),
                             ([0, 3], [1., 2., 3.], 0.5), ([5, 1, 1], [[3.]], [[0.5]]),
                             ([3, 2, 4, 3], [[[9.]], [[99.]]], [[0.1, 0.2, 0.3]] * 4)]:
  case("StatelessRandomBinomial", tensor("int64", shape), [3, 4], counts, probs)
for op, before in [("StatelessRandomBinomial", lambda shape: (shape, [1, 2])),
                   ("StatefulRandomBinomial",
                    lambda shape: (variable(tensor("int64", [1, 2, 3])), tensor("int64", 1), shape))]:
  error(op, *before([3]), [1., 2., 3.], [0.5, 0.5],
        text="counts and probs must have compatible batch dimensions: [3] vs. [2]")
  error(op, *before([3]), [1., 2.], 0.5, text=ENDS)
  error(op, *before([3]), [[1.]], 0.5, text=ENDS)
  error(op, *before([-1]), 1., 0.5, text="Dimension -1 must be >= 0")
  error(op, *before([[2]]), 1., 0.5, text="Input shape should be a vector, got shape:")
  error(op, *before(2), 1., 0.5, text="Input shape should be a vector, got shape:")
  error(op, *before([2**30] * 3), 1., 0.5, text="")
error("StatelessRandomBinomial", [2], [1, 2, 3], 1., 0.5, text="seed must have shape [2], not [3]")
for algorithm, text in [(2, "Unsupported algorithm id: 2"), (3, "Unsupported algorithm id: 3"),
                        ([1], "algorithm must be of shape [], not [1]")]:
  error("StatefulRandomBinomial", variable(tensor("int64", [1, 2, 3])), tensor("int64", algorithm),
        [2], 1., 0.5, text=text)
error("StatefulRandomBinomial", variable([1, 2, 3]), tensor("int64", 1), [2], 1., 0.5,
      text="dtype of RNG state variable must be int64, not int32")
error("StatefulRandomBinomial", variable(tensor("int64", [1, 2])), tensor("int64", 1), [2], 1., 0.5,
      text="hilox algorithm, the size of state must be at least 3; got 2")

N = "StatelessParameterizedTruncatedNormal"
SEED = tensor("int64", [1, 2])
# Of half a number may fall on either side of what is accepted.
for dtype in ["float", "double", "half"]:
  def numbers(values):
    return tensor(dtype, values)

  # By uniform, normal and exponential numbers, and the same below the mean.
  for least, largest in [(-1, 1), (-2, 1.5), (-.5, 3), (0, INF), (1.5, INF), (5, 6), (4, 40),
                         (-INF, 1), (-INF, -2), (-6, -5), (-3, -.5)]:
    case(N, [20], SEED, numbers(0), numbers(1), numbers(least), numbers(largest))
  case(N, tensor("int64", [3, 4]), tensor("int32", [7, -1]), numbers(2), numbers(.5), numbers(1),
       numbers(4))
  case(N, [5, 2], SEED, numbers([0, 10]), numbers(2), numbers(-1), numbers([1, 12]))
  case(N, [3, 2, 3], SEED, numbers([[0], [4]]), numbers([1, 2, 3]), numbers(-5), numbers([[[9]]][0]))
  case(N, tensor("int32", []), SEED, numbers(0), numbers(1), numbers(-1), numbers(1))
  case(N, [0, 2], SEED, numbers(0), numbers(1), numbers([3, 0]), numbers(1))
V = [0.0, 1.0, -1.0, 1.0]
error(N, [2], SEED, [0., 0.], [1., 1., 1.], -1., 1.,
      text="means, stddevs, minvals, maxvals must have compatible batch dimensions: [2] vs. [3] vs. []")
error(N, [[2]], SEED, *V, text="Input shape should be a vector, got shape: [1,1]")
error(N, [-1], SEED, *V, text="Dimension -1 must be >= 0")
error(N, [2], tensor("int64", [1]), *V, text="seed must have shape [2], not [1]")
for shape, means in [([3], [0., 1.]), (tensor("int32", []), [1.]), ([2, 3], [[0.], [1.]]), ([3], [0.]),
                     ([0, 3], [0., 1.]), ([2, 3], tensor("float", []))]:
  error(N, shape, SEED, means, 1., -1., 1., text="Shape passed in must end with broadcasted shape.")
for bad in [(0., -1., -1., 1.), (0., 0., -1., 1.), (0., 1., 2., 1.), (0., 1., 1., 1.), (0., 1., -INF, INF),
            (0., 1., NAN, 1.), (0., NAN, -1., 1.), (0., 1., INF, INF)]:
  error(N, [2], SEED, *bad, text="Invalid parameters")
for far in [(INF, 1., -1., 1.), (1e30, 1., 0., 1.), (0., 1., 1e30, 2e30), (NAN, 1., -1., 1.)]:
  error(N, [2], SEED, *far,
        text="TruncatedNormal exponential distribution rejection sampler failed to accept a sample.",
        code="INVALID_ARGUMENT")
error(N, [2**31 - 1] * 3, SEED, *V, text="")
error(N, [2**31 - 1] * 2, SEED, *V, text="", code="RESOURCE_EXHAUSTED")

P = "ParameterizedTruncatedNormal"
for dtype in ["half", "float", "double"]:
  case(P, [3], *(tensor(dtype, x) for x in (0, 1, -1, 1)), seed=3, seed2=4)
case(P, [250], 0.5, 1.0, -2.0, 1.5, seed=3, seed2=4)
case(P, [2, 3], [0.0, 100.0], 1.0, [-1.0, 99.0], [1.0, 101.0], seed=3, seed2=4, values=False)
case(P, tensor("int64", [2, 0]), 0.0, [1.0], -1.0, 1.0, seed=3)
case(P, [0, 2], 0.0, 1.0, -1.0, 1.0, seed=3)
error(P, tensor("int32", []), 0.0, 1.0, -1.0, 1.0, text="Shape tensor must not be empty")
error(P, 3, 0.0, 1.0, -1.0, 1.0, text="Input shape should be a vector, got shape: []")
error(P, [2], [0.0] * 3, 1.0, -1.0, 1.0, text="Input means should have length 1 or shape[0], got shape: [3]")
error(P, [2], 0.0, [[1.0]], -1.0, 1.0, text="Input stddevs should be a scalar or vector, got shape: [1,1]")
error(P, [2], 0.0, 1.0, [-1.0] * 3, 1.0, text="Input minvals should have length 1 or shape[0]")
error(P, [2], 0.0, 1.0, -1.0, [1.0] * 3, text="Input maxvals should have length 1 or shape[0]")
error(P, [2], 0.0, -1.0, -1.0, 1.0, text="Invalid parameters")
error(P, [2], 0.0, 1.0, 1.0, -1.0, text="Invalid parameters")
error(P, [-2], 0.0, 1.0, -1.0, 1.0, text="")
