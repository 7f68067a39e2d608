from generate import case, error, tensor, uniform

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]

for op in ["Sum", "Prod", "Max", "Min"]:
  for dtype in INTS + FLOATS + (COMPLEX if op in ("Sum", "Prod") else []):
    case("UnsortedSegment" + op, uniform([5, 3], 0, 6, 3, dtype), [2, 0, 2, -1, 0], 4)
  # Ids of two dimensions, and of all of them.
  case("UnsortedSegment" + op, uniform([2, 3, 2], seed=4), [[0, 1, 0], [2, 2, 1]], 3)
  case("UnsortedSegment" + op, uniform([2, 3], seed=5), [[0, 1, 0], [2, 2, 1]], 3)
  case("UnsortedSegment" + op, tensor("float", [], [0, 3]), tensor("int32", []), 2)
  case("UnsortedSegment" + op, 5.0, 1, 3)
  case("UnsortedSegment" + op, tensor("float", [1, float("nan"), 3]), [0, 0, 1], 2)
  case("UnsortedSegment" + op, tensor("half", [float("nan"), 1, 3]), [0, 0, 1], 2)
  case("UnsortedSegment" + op, [1.0, 2.0], tensor("int64", [1, 1]), tensor("int64", 2))
  error("UnsortedSegment" + op, [1.0, 2.0], [0, 5], 3,
        text="segment_ids[1] = 5 is out of range [0, 3)")
  error("UnsortedSegment" + op, [1.0, 2.0], [0, 1, 2], 3,
        text="data.shape = [2] does not start with segment_ids.shape = [3]")
  error("UnsortedSegment" + op, [1.0, 2.0], [0, 1], -1,
        text="Input num_segments == -1 must not be negative.")
  error("UnsortedSegment" + op, [1.0, 2.0], [0, 1], [1, 2],
        text="num_segments should be a scalar, not shape [2]")
case("UnsortedSegmentSum", uniform([3, 4], seed=6), tensor("int16", [1, 0, 1]), 2)
case("UnsortedSegmentSum", uniform([2000, 16], seed=7), uniform([2000], -3, 40, 8, "int32"), 40)
case("UnsortedSegmentSum", uniform([4096], seed=9), uniform([4096], 0, 7, 10, "int64"), 7)

for dtype in INTS + FLOATS + COMPLEX:
  case("SegmentSum", uniform([5, 3], 0, 6, 3, dtype), [0, 0, 2, 2, 3])
case("SegmentSum", [1.0, 2.0], tensor("int64", [3, 3]))
case("SegmentSum", tensor("float", [], [0, 2]), tensor("int32", []))
error("SegmentSum", [1.0, 2.0], [1, 0], text="segment ids are not increasing")
error("SegmentSum", [1.0, 2.0], [0, -1], text="segment ids must be >= 0")
error("SegmentSum", [1.0, 2.0], [0], text="segment_ids should be the same size as dimension 0")
error("SegmentSum", [[1.0, 2.0]], [[0]], text="segment_ids should be a vector.")
error("SegmentSum", 1.0, [0], text="input must be at least rank 1")

for op in ["Prod", "Max", "Min", "Mean"]:
  for dtype in INTS + FLOATS + (COMPLEX if op in ("Prod", "Mean") else []):
    case("Segment" + op, uniform([5, 3], 1, 6, 3, dtype), [0, 0, 2, 2, 3])
  case("Segment" + op, [1.0, 2.0], tensor("int64", [3, 3]))
  case("Segment" + op, tensor("float", [], [0, 2]), tensor("int32", []))
  error("Segment" + op, [1.0, 2.0], [1, 0], text="segment ids are not increasing")
  error("Segment" + op, [1.0, 2.0], [0], text="segment_ids should be the same size as dimension 0")

for op in ["Sum", "Mean", "SqrtN"]:
  name = "SparseSegment" + op
  for dtype in FLOATS + (INTS if op == "Sum" else []):
    case(name, uniform([4, 3], 0, 6, 3, dtype), [3, 0, 3, 1], [0, 0, 2, 2])
  case(name, uniform([4, 3], seed=3), tensor("int64", [3, 0]), tensor("int64", [1, 1]))
  case(name, uniform([4], seed=3), tensor("int32", []), tensor("int32", []))
  case(name + "WithNumSegments", uniform([4, 3], seed=3), [3, 0, 3, 1], [0, 0, 2, 2], 5)
  case(name + "WithNumSegments", uniform([4, 3], seed=3), tensor("int32", []), tensor("int32", []),
       2)
  error(name, [1.0, 2.0], [0, 2], [0, 0], text="indices[1] == 2 out of range [0, 2)")
  error(name, [1.0, 2.0], [0, 1], [0], text="segment_ids and indices should have same size.")
  error(name, [1.0, 2.0], [[0]], [0], text="indices should be a vector.")
  error(name, [1.0, 2.0], [0], [[0]], text="segment_ids should be a vector.")
  error(name, [1.0, 2.0], [0, 1], [1, 0], text="segment ids are not increasing")
  error(name + "WithNumSegments", [1.0, 2.0], [0, 1], [0, 3], 3,
        text="segment ids must be < num_segments")
  for dtype in ["float", "double", "half", "bfloat16"]:
    case(name + "Grad", uniform([3, 2], 0, 6, 3, dtype), [3, 0, 3, 1], [0, 0, 2, 2], 5)
  case(name + "GradV2", uniform([3, 2], seed=3), [3, 0, 3, 1], [0, 0, 2, 2], 5)
  case(name + "Grad", uniform([3, 2], seed=3), tensor("int32", []), tensor("int32", []), 2)
  error(name + "Grad", [1.0], [2], [0], 2, text="Index 2 out of range [0, 2).")
  error(name + "Grad", [1.0], [0], [1], 2, text="Segment id 1 out of range [0, 1).")
