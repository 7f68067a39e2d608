from generate import case, error, tensor


def classes(values, shape=None):
  return tensor("int64", values, shape)


SEEDS = dict(seed=3, seed2=7)
RANGES = ["LogUniformCandidateSampler", "UniformCandidateSampler",
          "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"]
for op in RANGES:
  for unique in [False, True]:
    for range_max in [64, 100, 1000, 65536, 1000000]:
      case(op, classes([[1, 2], [3, 63]]), num_true=2, num_sampled=50, unique=unique,
           range_max=range_max, **SEEDS)
    case(op, classes([[1], [0]]), num_true=1, num_sampled=5, unique=unique, range_max=5,
         seed=-1, seed2=2**40)
    case(op, classes([[0]]), num_true=1, num_sampled=1, unique=unique, range_max=1, **SEEDS)
  case(op, classes([[0], [9]]), num_true=1, num_sampled=900, unique=True, range_max=1000, **SEEDS)
  case(op, classes([], [0, 1]), num_true=1, num_sampled=3, unique=False, range_max=4, **SEEDS)
for op in RANGES[:2]:
  case(op, classes([[0]]), num_true=1, num_sampled=100, unique=True, range_max=2**40 + 3, **SEEDS)
  case(op, classes([[0]]), num_true=1, num_sampled=100, unique=False, range_max=2**62 + 1, **SEEDS)

WEIGHTS = [[1., 2., 3., 4.], [0.3, 1e-3, 17., 2., 2., 0., 5.5], [1.], [1., 1., 1., 1.],
           [3., -1., 2.], [float((i * 7919) % 101) + 0.1 for i in range(100)]]
FIXED = "FixedUnigramCandidateSampler"
for weights in WEIGHTS:
  for distortion in [1.0, 0.75, 0.0]:
    case(FIXED, classes([[0], [len(weights) - 1]]), num_true=1, num_sampled=40, unique=False,
         range_max=len(weights), unigrams=weights, distortion=distortion, **SEEDS)
case(FIXED, classes([[0], [5]]), num_true=1, num_sampled=40, unique=True, range_max=100,
     unigrams=WEIGHTS[-1], **SEEDS)
for shard, range_max in [(0, 3), (1, 2)]:
  case(FIXED, classes([[0], [1]]), num_true=1, num_sampled=10, unique=False, range_max=range_max,
       unigrams=WEIGHTS[0], num_reserved_ids=1, num_shards=2, shard=shard, **SEEDS)
case(FIXED, classes([[0], [5]]), num_true=1, num_sampled=10, unique=False, range_max=6,
     unigrams=WEIGHTS[0], num_reserved_ids=2, **SEEDS)
ONE = dict(num_true=1, num_sampled=3, unique=False, range_max=4, **SEEDS)
for more, text in [
    ({}, "Must provide either vocab_file or unigrams."),
    (dict(unigrams=[1., 2.]), "range is 4 must be equal to weights size  2"),
    (dict(unigrams=WEIGHTS[0], num_shards=2, shard=2),
     "range is 4 must be equal to weights size  0"),
    (dict(unigrams=WEIGHTS[0], vocab_file="x"),
     "Must only provide one of vocab_file and unigrams."),
    (dict(unigrams=WEIGHTS[0], num_reserved_ids=5), "range is 4 must be equal to weights size  ")]:
  error(FIXED, classes([[0]]), text=text, **ONE, **more)

for unique in [False, True]:
  case("AllCandidateSampler", classes([[1, 0], [3, 4]]), num_true=2, num_sampled=5, unique=unique)
error("AllCandidateSampler", classes([[5]]), num_true=1, num_sampled=5, unique=True,
      text="`true_candidate` out of range [0, 5), received 5")

for op in RANGES + [FIXED, "AllCandidateSampler"]:
  given = {FIXED: dict(unigrams=WEIGHTS[0])}.get(op, {})
  one = {k: v for k, v in ONE.items() if op != "AllCandidateSampler" or k != "range_max"}
  for value in [-1, 4]:
    error(op, classes([[0], [value]]), **one, **given, text="`true_candidate` out of range [0, ")
  error(op, classes([[0, 1]]), **one, **given,
        text="true_classes must have num_true columns, expected: 2 was: 1")
  for wrong in [classes(0), classes([1]), classes([[[1]]])]:
    error(op, wrong, **one, **given, text="true_classes must be a matrix")
  if op != "AllCandidateSampler":
    error(op, classes([[1]]), **dict(one, num_sampled=5, unique=True), **given,
          text="Sampler's range is too small.")

HITS = "ComputeAccidentalHits"
case(HITS, classes([[1, 2], [3, 3]]), classes([3, 1, 1, 5]), num_true=2)
case(HITS, classes([[5, 5, 5]]), classes([5, 5, 6, 5]), num_true=3)
case(HITS, classes([[-7], [2**62]]), classes([2**62, -7]), num_true=1, **SEEDS)
case(HITS, classes([], [0, 1]), classes([1]), num_true=1)
case(HITS, classes([], [2, 0]), classes([1]), num_true=0)
case(HITS, classes([[1]]), classes([], [0]), num_true=1)
for wrong, num_true in [(classes([[1]]), 2), (classes([1]), 1), (classes([[1]]), -1)]:
  error(HITS, wrong, classes([1]), num_true=num_true,
        text="true_candidates must be a batch_size * num_true matrix")
error(HITS, classes([[1]]), classes([[1]]), num_true=1,
      text="sampled_candidates must be a vector, which is typically an output from")
