from generate import case, error, tensor, uniform, zeros


def indices(values):
  return tensor("int64", values, [-1, 2])


LABELS = indices([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 3]])
# Of the logarithms of sums TensorFlow has those of float alone.
TOLERANCE = {"float": "rel 1e-4 abs 1e-5", "double": "rel 1e-6 abs 1e-6"}
for dtype in ["float", "double"]:
  inputs = uniform([7, 3, 5], -2, 2, 3, dtype)
  for attrs in [{}, {"preprocess_collapse_repeated": True}, {"ctc_merge_repeated": False},
                {"preprocess_collapse_repeated": True, "ctc_merge_repeated": False}]:
    for values in [[0, 1, 2, 3, 1, 1], [2, 2, 2, 0, 3, 3], [1, 4, 4, 0, 0, 4]]:
      for lengths in [[7, 7, 7], [7, 1, 4]]:
        case("CTCLoss", inputs, LABELS, values, lengths, tolerance=TOLERANCE[dtype], **attrs)
  case("CTCLoss", inputs, LABELS, [0, 1, 2, 3, 1, 1], [2, 0, 7], tolerance=TOLERANCE[dtype],
       ignore_longer_outputs_than_inputs=True)
  # No path: three times the same takes five steps.
  case("CTCLoss", inputs, LABELS, [2, 2, 2, 0, 3, 3], [4, 7, 7], tolerance=TOLERANCE[dtype])
case("CTCLoss", uniform([60, 2, 8], -3, 3, 5), indices([[i // 9, i % 9] for i in range(18)]),
     [(i * 5) % 7 for i in range(18)], [60, 41], tolerance=TOLERANCE["float"])

X = zeros([4, 2, 3])
TWO = indices([[0, 0], [1, 0]])
error("CTCLoss", zeros([4, 2]), TWO, [0, 1], [4, 4], text="inputs is not a 3-Tensor")
error("CTCLoss", X, TWO, [0, 1], [[4, 4]], text="sequence_length is not a vector")
error("CTCLoss", X, tensor("int64", [0, 1]), [0, 1], [4, 4], text="labels_indices is not a matrix")
error("CTCLoss", X, tensor("int64", [[0], [1]]), [0, 1], [4, 4],
      text="labels_indices second dimension must be >")
error("CTCLoss", X, TWO, [[0, 1]], [4, 4], text="labels_values is not a vector")
error("CTCLoss", X, TWO, [0], [4, 4],
      text="labels_indices and labels_values must contain the same number of rows")
error("CTCLoss", X, TWO, [0, 1], [4], text="len(sequence_length) != batch_size.")
error("CTCLoss", X, TWO, [0, 1], [5, 4], text="sequence_length(0) <= 4")
error("CTCLoss", X, TWO, [0, 1], [4, -1], text="seq_len(1) < 0")
error("CTCLoss", X, TWO, [0, 1], [4, 0], text="Not enough time for target transition sequence")
error("CTCLoss", X, TWO, [0, -1], [4, 4], text="All labels must be nonnegative integers, batch: 1")
error("CTCLoss", X, indices([[0, 0]]), [0], [4, 4], text="Labels length is zero in batch 1")
error("CTCLoss", X, indices([[0, 0], [2, 0]]), [0, 1], [4, 4],
      text="label SparseTensor is not valid: indices[1] = [2,0] is out of bounds")
error("CTCLoss", X, indices([[0, 0], [1, -1]]), [0, 1], [4, 4],
      text="label SparseTensor is not valid: indices[1] = [1,-1] is out of bounds")
error("CTCLoss", X, indices([[1, 0], [0, 0]]), [0, 1], [4, 4],
      text="label SparseTensor is not valid: indices[1] = [0,0] is out of order")
error("CTCLoss", X, indices([[0, 0], [0, 0], [1, 0]]), [0, 1, 0], [4, 4],
      text="label SparseTensor is not valid: indices[1] = [0,0] is repeated")
error("CTCLoss", X, indices([[0, 0], [0, 1], [1, 0]]), [2, 1, 0], [4, 4],
      text="Saw a non-null label (index >= num_classes - 1) following a null label, batch: 0")
error("CTCLoss", zeros([0, 2, 3]), TWO, [0, 1], [0, 0],
      text="Max time or first dimension of input cannot be 0.")
error("CTCLoss", zeros([4, 0, 3]), TWO, [0, 1], tensor("int32", []),
      text="batch_size must not be 0")

for dtype in ["float", "double"]:
  inputs = uniform([9, 3, 4], -2, 2, 6, dtype)
  for lengths in [[9, 9, 9], [9, 0, -1]]:
    for merge in [False, True]:
      for blank in [-1, 0, 2, -4]:
        case("CTCGreedyDecoder", inputs, lengths, merge_repeated=merge, blank_index=blank,
             tolerance=TOLERANCE[dtype])
case("CTCGreedyDecoder", zeros([3, 1, 3]), [3], blank_index=1)
error("CTCGreedyDecoder", zeros([4, 2]), [4, 4], text="inputs is not a 3-Tensor")
error("CTCGreedyDecoder", X, [[4, 4]], text="sequence_length is not a vector")
error("CTCGreedyDecoder", X, [4], text="len(sequence_length) != batch_size.")
error("CTCGreedyDecoder", X, [4, 5], text="sequence_length(1) <= 4")
for blank in [3, -4]:
  error("CTCGreedyDecoder", X, [4, 4], blank_index=blank,
        text="blank_index expected to be between -3 and 2 but was %d" % blank)
for shape in [[0, 2, 3], [4, 2, 0]]:
  error("CTCGreedyDecoder", zeros(shape), [0, 0], text="inputs must not be empty")

error("CTCLoss", uniform([2, 1, 3]), tensor("int64", [[0, 0, 0]]), [1], [2], text="Order length must be SparseTensor rank.")

D = "CTCBeamSearchDecoder"
for dtype in ["float", "double"]:
  inputs = uniform([9, 3, 4], -2, 2, 7, dtype)
  for lengths in [[9, 9, 9], [9, 2, 5]]:
    for merge in [False, True]:
      for beam, paths in [(1, 1), (2, 2), (5, 3), (100, 10)]:
        case(D, inputs, lengths, beam_width=beam, top_paths=paths, merge_repeated=merge,
             tolerance=TOLERANCE[dtype])
  # All are as likely: which come first, and in which order, follows from how they are kept.
  for beam in [1, 2, 3, 4, 5]:
    for steps in [1, 2, 3, 5]:
      case(D, zeros([steps, 1, 4], dtype), [steps], beam_width=beam, top_paths=min(beam, 4),
           merge_repeated=False, tolerance=TOLERANCE[dtype])
for seed in range(8):
  case(D, uniform([30, 2, 6], -1, 1, 20 + seed), [30, 21], beam_width=12, top_paths=12,
       merge_repeated=False, tolerance=TOLERANCE["float"])
case(D, uniform([40, 1, 40], -3, 3, 9), [40], beam_width=25, top_paths=3, tolerance=TOLERANCE["float"])
NEVER = float("-inf")
case(D, [[[0., 1., NEVER]], [[NEVER, 1., 2.]], [[0., NEVER, NEVER]]], [3], beam_width=4, top_paths=1)
case(D, [[[NEVER, NEVER, 0.]], [[0., NEVER, NEVER]], [[NEVER, NEVER, 0.]], [[1., 0., NEVER]]], [4],
     beam_width=3, top_paths=1)
case(D, zeros([2, 1, 1]), [2], beam_width=3, top_paths=1)
case(D, zeros([2, 2, 3]), [0, -3], beam_width=3, top_paths=1)
error(D, zeros([4, 2]), [4, 4], beam_width=2, top_paths=1, text="inputs is not a 3-Tensor")
error(D, X, [[4, 4]], beam_width=2, top_paths=1, text="sequence_length is not a vector")
error(D, X, [4], beam_width=2, top_paths=1, text="len(sequence_length) != batch_size.")
error(D, X, [4, 5], beam_width=2, top_paths=1, text="sequence_length(1) <= 4")
error(D, X, [4, 4], beam_width=2, top_paths=3, text="requested more paths than the beam width.")
error(D, X, [4, 0], beam_width=2, top_paths=2, text="Less leaves in the beam search than requested.")
error(D, zeros([1, 1, 3]), [1], beam_width=9, top_paths=4,
      text="Less leaves in the beam search than requested.")
error(D, X, [4, 4], beam_width=2**31, top_paths=1,
      text="Attr beam_width has value 2147483648 out of range for an int32")
for shape in [[0, 2, 3], [4, 2, 0]]:
  error(D, zeros(shape), [0, 0], beam_width=2, top_paths=1, text="inputs must not be empty")
