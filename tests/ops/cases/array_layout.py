from generate import case, error, tensor, uniform, zeros

WIDTHS = ["int8", "half", "float", "int64", "complex128", "bool"]
X23 = uniform([2, 3], seed=1)
X345 = uniform([3, 4, 5], 0, 100, 2, "int32")
NONE = tensor("int32", [])


def long(values):
  return tensor("int64", values)


def sample(dtype, shape, seed=1):
  return uniform(shape, 0, 2 if dtype == "bool" else 9, seed, dtype)


# Transposes: every order of three, the layouts of images, and sizes that tiles do not divide.
for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]:
  case("Transpose", X345, perm)
  case("Transpose", uniform([37, 41, 43], seed=3), perm)
for dtype in WIDTHS:
  case("Transpose", sample(dtype, [3, 5]), [1, 0])
  case("Transpose", sample(dtype, [67, 131]), [1, 0])
case("Transpose", uniform([2, 19, 23, 3]), [0, 3, 1, 2])
case("Transpose", uniform([2, 3, 19, 23]), [0, 2, 3, 1])
case("Transpose", uniform([2, 35, 37, 33], dtype="half"), [0, 3, 1, 2])
case("Transpose", uniform([2, 3, 4, 5, 6]), long([-1, 0, 2, 1, 3]))
case("Transpose", uniform([700, 600]), [1, 0])
case("Transpose", tensor("string", [[b"a", b"b", b"c"]]), [1, 0])
case("Transpose", zeros([0, 3]), [1, 0])
case("Transpose", 5.0, NONE)
case("Transpose", zeros([1, 7, 1]), [2, 1, 0])
error("Transpose", X23, [0],
      text="transpose expects a vector of size 2. But input(1) is a vector of size 1")
error("Transpose", X23, [0, 2], text="2 is out of range [0 .. 2)")
error("Transpose", X23, [0, 0], text="1 is missing from {0,0}.")
error("Transpose", X23, [[0, 1]], text="perm must be rank 1, got shape [1,2]")
case("ConjugateTranspose", uniform([2, 3], dtype="complex64"), [1, 0])
case("ConjugateTranspose", uniform([2], dtype="complex128"), [0])
case("ConjugateTranspose", X23, [1, 0])

# Reversing and rolling.
for axes in [[0], [1], [2], [-1, 0], [0, 1, 2], NONE]:
  case("ReverseV2", X345, axes)
for dtype in WIDTHS:
  case("ReverseV2", sample(dtype, [3, 4]), [1])
case("ReverseV2", tensor("string", [b"a", b"b", b"c"]), [0])
case("ReverseV2", uniform([70, 900]), [0, 1])
case("ReverseV2", 3.0, NONE)
error("ReverseV2", X23, [2], text="'axis'[0] = 2 is out of valid range [0, 1")
error("ReverseV2", X23, [1, -1], text="axis 1 specified more than once.")
error("ReverseV2", X23, 1, text="'dims' must be 1-dimension, not 0")
case("ReverseSequence", X345, long([2, 0, 4]), seq_dim=1)
case("ReverseSequence", X345, [3, 1, 2, 0, 3], seq_dim=0, batch_dim=2)
case("ReverseSequence", tensor("string", [[b"a", b"b"], [b"c", b"d"]]), [2, 1], seq_dim=1)
error("ReverseSequence", X23, [2, 4], seq_dim=1, text="seq_lens(1) > input.dims(1)")
error("ReverseSequence", X23, [2, -1], seq_dim=1, text="seq_lens(1) < 0")
error("ReverseSequence", X23, [2], seq_dim=1,
      text="Length of seq_lengths != input.dims(0), (1 vs. 2)")
error("ReverseSequence", X23, [2, 1], seq_dim=2, text="seq_dim must be < input rank ( 2 vs. 2)")
case("Roll", X23, 1, 1)
case("Roll", X345, [1, -2, 7], [0, 1, 2])
case("Roll", X345, [1, -1, 1], [0, 1, 1])
case("Roll", X345, long([-9]), [-1])
case("Roll", tensor("string", [b"a", b"b", b"c"]), 1, 0)
case("Roll", tensor("float", [], [0, 2]), 1, 0)
error("Roll", 1.0, 1, 0, text="input must be 1-D or higher")
error("Roll", [1.0], [1], [3], text="is out of range")

# Slices.
case("Slice", X345, [1, 0, 2], [2, -1, 2])
case("Slice", X345, [0, 0, 0], [-1, -1, -1])
case("Slice", X345, long([0, 4, 1]), long([3, 0, 2]))
case("Slice", 5.0, NONE, NONE)
case("Slice", tensor("string", [b"a", b"b", b"c"]), [1], [2])
for dtype in WIDTHS:
  case("Slice", sample(dtype, [3, 4]), [1, 1], [2, 2])
case("Slice", uniform([300, 400]), [7, 3], [290, 350])
error("Slice", X23, [0, 2], [2, 2], text="Expected size[1] in [0, 1], but got 2")
error("Slice", X23, [0, 4], [2, -1], text="Expected begin[1] in [0, 3], but got 4")
error("Slice", X23, [0], [2], text="Expected begin and size arguments to be 1-D tensors of size 2")
error("Slice", X23, [0, -1], [2, 1], text="Expected begin[1] in [0, 3], but got -1")

# XLA's, whose begins are moved so that the slice fits.
for begin in [[1, 0], [0, 2], [5, -3]]:
  case("XlaDynamicSlice", X23, begin, [1, 2])
  case("XlaDynamicUpdateSlice", X23, uniform([1, 2], seed=2), begin)
case("XlaDynamicSlice", X23, long([1, 1]), long([1, 2]))
case("XlaDynamicUpdateSlice", X23, uniform([1, 2], seed=2), long([1, 1]))
case("XlaDynamicSlice", X23, [1, 1], [0, 2])
case("XlaDynamicSlice", 3.0, NONE, NONE)
case("XlaDynamicUpdateSlice", X23, tensor("float", [], [0, 2]), [1, 1])
for dtype in WIDTHS:
  case("XlaDynamicSlice", sample(dtype, [4, 3, 2]), [1, 2, 0], [2, 1, 2])
  case("XlaDynamicUpdateSlice", sample(dtype, [4, 3, 2]), sample(dtype, [2, 1, 2], 2), [1, 2, 0])
error("XlaDynamicSlice", X23, [0, 0], [3, 2], text="the slice is larger than the input")
error("XlaDynamicSlice", X23, [0, 0], [-1, 2], text="a dimension is negative")
error("XlaDynamicSlice", X23, [0], [1], text="ranks differ")
error("XlaDynamicSlice", X23, [0, 0], [1], text="ranks differ")
error("XlaDynamicUpdateSlice", X23, zeros([3, 2]), [0, 0],
      text="the slice is larger than the input")
error("XlaDynamicUpdateSlice", X23, zeros([2]), [0, 0], text="ranks differ")
error("XlaDynamicUpdateSlice", X23, zeros([1, 1]), [0], text="ranks differ")
error("Slice", X23, [0, 1], [2, -2], text="Expected size[1] in [0, 2], but got -2")

SPECS = [
    ([1], [2], [1], dict(shrink_axis_mask=1)),
    ([-1], [0], [1], dict(shrink_axis_mask=1)),
    ([0, 1], [0, 3], [1, 1], dict(begin_mask=1, end_mask=1)),
    ([0, 0, 1], [0, 0, 2], [1, 1, 1], dict(ellipsis_mask=1, shrink_axis_mask=4)),
    ([0, 1], [0, 3], [1, 2], dict(ellipsis_mask=1)),
    ([0, 0, 0], [0, 0, 2], [1, 1, 1], dict(new_axis_mask=1, begin_mask=2, end_mask=2)),
    ([0, 0, 0, 0], [1, 0, 0, 2], [1, 1, 1, 1], dict(ellipsis_mask=2, new_axis_mask=4)),
    ([-1, 5], [-9, -9], [-1, -2], {}),
    ([0, 3], [0, 0], [-1, -1], dict(begin_mask=1, end_mask=1)),
    ([0, 0], [1, 1], [-1, -1], {}),
    ([0, 0, -1], [3, 4, 0], [2, 3, -2], {}),
    ([0, 0, 0], [3, 0, 5], [1, 1, 1], {}),
    ([100], [-100], [1], {}),
    ([-100], [100], [1], {}),
    ([1, 0, 2], [0, 0, 0], [1, 1, 1], dict(shrink_axis_mask=5, begin_mask=2, end_mask=2)),
    (NONE, NONE, NONE, {}),
]
for begin, end, strides, masks in SPECS:
  case("StridedSlice", X345, begin, end, strides, **masks)
for dtype in WIDTHS:
  case("StridedSlice", sample(dtype, [4, 5]), [0, 1], [4, 4], [2, 1])
case("StridedSlice", [5, 6, 7], [1], [2], [1], shrink_axis_mask=1)
case("StridedSlice", long([5, 6, 7]), [-3], [-2], [1], shrink_axis_mask=1)
case("StridedSlice", [5, 6, 7], long([-2]), long([0]), long([1]), end_mask=1)
case("StridedSlice", [5, 6, 7], tensor("int16", [0]), tensor("int16", [2]), tensor("int16", [1]))
case("StridedSlice", tensor("string", [b"a", b"b", b"c"]), [0], [3], [2])
case("StridedSlice", uniform([200, 300]), [0, 7], [200, 290], [3, 1])
case("StridedSlice", uniform([200, 300]), [199, 299], [-300, -400], [-1, -1])
error("StridedSlice", X23, [5], [6], [1], shrink_axis_mask=1,
      text="slice index 5 of dimension 0 out of bounds.")
error("StridedSlice", X23, [-5], [6], [1], shrink_axis_mask=1,
      text="slice index -3 of dimension 0 out of bounds.")
error("StridedSlice", [1, 2], [2], [3], [1], shrink_axis_mask=1,
      text="slice index 2 of dimension 0 out of bounds.")
error("StridedSlice", X23, [0], [6], [0], text="strides[0] must be non-zero")
error("StridedSlice", X23, [0, 0, 0], [6, 6, 6], [1, 1, 1],
      text="Index out of range using input dim 2; input has only 2 dims")
error("StridedSlice", 5.0, [0], [1], [1], text="Attempting to slice scalar input.")
error("StridedSlice", X23, [0, 0], [6], [1, 1],
      text="Expected begin, end, and strides to be 1D equal size tensors")
error("StridedSlice", X23, [0, 0], [6, 6], [1, 1], ellipsis_mask=3,
      text="Multiple ellipses in slice spec not allowed")
error("StridedSlice", X23, [0], [1], [-1], shrink_axis_mask=1,
      text="only stride 1 allowed on non-range indexing.")
GRADS = [
    ([2, 3], [0], [1], [1], [1, 3], {}),
    ([2, 3], [1], [2], [1], [3], dict(shrink_axis_mask=1)),
    ([2, 3], [0, 2], [0, -9], [1, -2], [2, 2], dict(begin_mask=1, end_mask=1)),
    ([2, 3], [0, 0], [0, 2], [1, 1], [2, 1, 2], None),
    ([2, 3], NONE, NONE, NONE, [2, 3], {}),
    ([5], [4], [4], [1], [0], {}),
]
for shape, begin, end, strides, dy, masks in GRADS:
  if masks is None:
    begin, end, strides = [0, 0, 0], [0, 0, 2], [1, 1, 1]
    masks = dict(begin_mask=1, end_mask=1, new_axis_mask=2)
  case("StridedSliceGrad", shape, begin, end, strides, uniform(dy, seed=4), **masks)
case("StridedSliceGrad", [3], [0], [3], [2], tensor("string", [b"a", b"b"]))
error("StridedSliceGrad", [2, 3], [0], [1], [1], X23, text="shape of dy was [2,3] instead of [1,3]")
case("TensorStridedSliceUpdate", X345, [0, 1], [2, 3], [1, 1], uniform([2, 2, 5], 0, 9, 5, "int32"))
case("TensorStridedSliceUpdate", X23, [1], [2], [1], [7.0, 8.0, 9.0], shrink_axis_mask=1)

# Padding.
for op, more in [("Pad", []), ("PadV2", [7.0])]:
  case(op, X23, [[1, 2], [0, 1]], *more)
  case(op, X23, long([[0, 0], [3, 0]]), *more)
  case(op, X23, [[0, 0], [0, 0]], *more)
  case(op, 5.0, tensor("int32", [], [0, 2]), *more)
  case(op, tensor("float", [], [0, 2]), [[1, 1], [0, 0]], *more)
  case(op, uniform([2, 30, 31, 3]), [[0, 0], [1, 1], [2, 3], [0, 0]], *more)
  error(op, X23, [[1, 1]], *more, text="The first dimension of paddings must be the rank of inputs")
  error(op, X23, [[1, -1], [0, 0]], *more, text="Paddings must be non-negative: 1 -1")
  error(op, X23, [1, 1], *more, text="paddings must be a matrix with 2 columns: [2]")
  error(op, X23, long([[2**62, 2**62], [0, 0]]), *more, text="", code="INVALID_ARGUMENT")
for dtype in WIDTHS:
  case("Pad", sample(dtype, [2, 2]), [[1, 0], [1, 1]])
case("Pad", tensor("string", [b"a"]), [[1, 1]])
case("PadV2", tensor("string", [b"a"]), [[1, 1]], tensor("string", b"-"))
error("PadV2", X23, [[1, 1], [0, 0]], [1.0], text="constant_values must be a scalar. Found: [1]")
for mode in ["REFLECT", "SYMMETRIC"]:
  case("MirrorPad", X23, [[1, 1], [2, 1]], mode=mode)
  case("MirrorPad", X345, [[2, 0], [0, 3], [1, 4]], mode=mode)
  case("MirrorPad", X345, [[0, 0], [0, 0], [0, 0]], mode=mode)
  case("MirrorPadGrad", uniform([5, 6]), [[1, 1], [2, 1]], mode=mode)
  case("MirrorPadGrad", uniform([5, 4, 9], 0, 9, 6, "int32"), [[2, 0], [0, 0], [1, 3]], mode=mode)
error("MirrorPad", X23, [[1, 1], [3, 2]], mode="REFLECT",
      text="paddings must be less than the dimension size: 3, 2 not less than 3")
error("MirrorPad", X23, [[1, 1], [4, 3]], mode="SYMMETRIC",
      text="paddings must be no greater than the dimension size: 4, 3 greater than 3")

# Blocks.
case("SpaceToBatchND", uniform([1, 4, 4, 1]), [2, 2], [[0, 0], [0, 0]])
case("SpaceToBatchND", uniform([2, 3, 5, 2]), [2, 3], [[1, 0], [0, 1]])
case("SpaceToBatchND", uniform([2, 7, 3]), [4], [[3, 2]])
case("SpaceToBatchND", uniform([2, 3], 0, 9, 1, "int32"), [2], [[0, 1]])
case("SpaceToBatchND", X23, NONE, tensor("int32", [], [0, 2]))
case("SpaceToBatchND", uniform([1, 2, 1]), long([8]), long([[6, 8]]))
error("SpaceToBatchND", X23, [2], [[0, 0]],
      text="padded_shape[0]=3 is not divisible by block_shape[0]=2")
error("SpaceToBatchND", X23, [2, 2], [[0, 0], [0, 0]],
      text="input rank should be >= 3 instead of 2")
error("SpaceToBatchND", X23, [0], [[0, 0]], text="must be positive")
error("SpaceToBatchND", X23, [2], [[-1, 0]], text="must be non-negative")
case("BatchToSpaceND", uniform([4, 2, 2, 1]), [2, 2], [[0, 0], [0, 0]])
case("BatchToSpaceND", uniform([12, 2, 3, 2]), [2, 3], [[1, 0], [0, 4]])
case("BatchToSpaceND", uniform([8, 3, 2]), [4], [[3, 2]])
case("BatchToSpaceND", X23, [2], [[6, 0]])
error("BatchToSpaceND", X23, [3], [[0, 0]],
      text="Input batch dimension (2) is not divisible by product of block sizes (3)")
error("BatchToSpaceND", X23, [2], [[4, 4]], text="cropped_shape[0]=-2 must be non-negative")
error("BatchToSpaceND", X23, [2], [[-1, 0]], text="must be non-negative")
error("BatchToSpaceND", X23, [2], [[0]], text="crops should have shape [1, 2] instead of [1,1]")
case("SpaceToDepth", uniform([2, 4, 6, 3]), block_size=2)
case("SpaceToDepth", uniform([1, 6, 3, 1], 0, 99, 1, "int32"), block_size=3)
error("SpaceToDepth", zeros([1, 3, 3, 1]), block_size=2,
      text="Image width 3 and height 3 should be divisible by block_size: 2")
case("DepthToSpace", uniform([2, 2, 3, 12]), block_size=2)
case("DepthToSpace", uniform([1, 1, 2, 9], 0, 99, 1, "int32"), block_size=3)
error("DepthToSpace", zeros([1, 3, 3, 1]), block_size=2,
      text="Input depth dimension 1 should be divisible by: 4")
error("DepthToSpace", zeros([3, 3, 1]), block_size=2, text="Input rank should be: 4 instead of: 3")

# Bands and diagonals.
for lower, upper in [(0, 0), (1, 0), (0, 1), (-1, 0), (1, -1), (2, 1), (-1, -1)]:
  case("MatrixBandPart", X345, long(lower), long(upper))
for dtype in WIDTHS:
  case("MatrixBandPart", sample(dtype, [2, 4, 3]), 1, 0)
case("MatrixBandPart", uniform([3, 150, 170]), 20, -1)
case("MatrixBandPart", tensor("float", [], [0, 3]), 0, 1)
error("MatrixBandPart", [1.0], 1, 1, text="input must be at least 2-dim, received shape: [1]")
error("MatrixBandPart", X23, 3, 1,
      text="num_lower must be negative or less or equal to number of rows (2) got: 3")
error("MatrixBandPart", X23, 1, 4,
      text="num_upper must be negative or less or equal to number of columns (3) got: 4")
error("MatrixBandPart", X23, [1], 2, text="num_lower must be scalar")
M = uniform([2, 3, 4], 1, 50, 7, "int32")
for align in ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"]:
  for k in [0, 1, -2, [-1, 1], [0, 2], [-2, -1], [-2, 3], [2, 2]]:
    case("MatrixDiagPartV3", M, k, -7, align=align)
  case("MatrixDiagV3", uniform([2, 2, 3], 1, 50, 8, "int32"), [-1, 0], -1, -1, 9, align=align)
  case("MatrixDiagV3", uniform([3, 2], 1, 50, 8, "int32"), [-1, 1], 3, 2, 9, align=align)
  case("MatrixSetDiagV3", M, uniform([2, 3, 3], 50, 99, 9, "int32"), [-1, 1], align=align)
case("MatrixDiagV3", [1.0, 2.0, 3.0], 0, -1, -1, 0.0)
case("MatrixDiagV3", uniform([2, 2]), 1, -1, -1, 0.5)
case("MatrixDiagV3", [1.0, 2.0], -1, 3, 4, 0.5)
case("MatrixSetDiagV3", M, uniform([2, 3], 50, 99, 9, "int32"), 0)
case("MatrixSetDiagV3", M, uniform([2, 3], 50, 99, 9, "int32"), 1)
error("MatrixDiagPartV3", X23, [1, 0], 9.0,
      text="lower_diag_index must not be larger than upper_diag_index: 1 > 0")
error("MatrixDiagPartV3", X23, 5, 9.0, text="lower_diag_index is out of bound: 5.")
error("MatrixDiagPartV3", [1.0], 0, 9.0, text="input must be at least 2-dim, received shape: [1]")
error("MatrixDiagV3", [1.0, 2.0, 3.0], 1, 2, -1, 9.0, text="The number of rows is too small.")
error("MatrixDiagV3", [1.0, 2.0, 3.0], 1, 5, 7, 9.0, text="is not consistent with the specified")
error("MatrixDiagV3", X23, [-1, 2], -1, -1, 9.0, text="The number of diagonals provided")
error("MatrixSetDiagV3", zeros([3, 4]), [1.0, 2.0], 0, text="Either first dimensions of diagonal")
case("Diag", [1.0, 2.0])
case("Diag", uniform([2, 2], dtype="complex64"))
case("DiagPart", [[1.0, 2.0], [3.0, 4.0]])
case("DiagPart", uniform([2, 3, 2, 3], 0, 99, 1, "int32"))
error("Diag", 1.0, text="Input must be at least rank 1, got 0")
error("DiagPart", [[1.0, 2.0]], text="Invalid shape [1,2]: dimensions 0 and 1 do not match.")

# --- The first and second versions of ops on diagonals
for dtype in ["float", "int32", "bool", "complex64"]:
  case("MatrixDiagPart", uniform([2, 3, 4], 0, 9, 1, dtype))
  case("MatrixDiag", uniform([2, 3], 0, 9, 1, dtype))
  case("MatrixSetDiag", uniform([2, 3, 4], 0, 9, 1, dtype), uniform([2, 3], 0, 9, 2, dtype))
case("MatrixSetDiag", uniform([4, 2], seed=1), [7.0, 8.0])
for k in [0, 1, [-1, 1], [0, 2]]:
  case("MatrixDiagPartV2", uniform([2, 3, 4], seed=1), k, 9.0)
case("MatrixDiagV2", uniform([2, 2, 3], seed=1), [-1, 0], -1, -1, 5.0)
case("MatrixDiagV2", uniform([3], seed=1), 1, 5, 4, 5.0)
case("MatrixSetDiagV2", uniform([2, 3, 3], seed=1), uniform([2, 2, 3], seed=2), [-1, 0])
error("MatrixSetDiag", uniform([4, 2], seed=1), [7.0], text="")
error("MatrixDiagPart", [1.0], text="")

# Without elements whatever the axes are.
case("ReverseV2", tensor("float", [], [3, 0]), [0, 0])
case("ReverseV2", tensor("float", [], [0]), [[0]])

B, S = "BatchToSpace", "SpaceToBatch"
for dtype in ["float", "int8", "double", "half"]:
  case(S, uniform([1, 4, 4, 2], 0, 9, 1, dtype), [[0, 0], [0, 0]], block_size=2)
  case(B, uniform([8, 2, 1, 2], 0, 9, 1, dtype), [[0, 1], [0, 0]], block_size=2)
case(S, uniform([2, 3, 5, 2]), tensor("int64", [[1, 2], [0, 1]]), block_size=3)
case(B, uniform([9, 2, 2, 3]), tensor("int64", [[1, 2], [0, 1]]), block_size=3)
case(S, zeros([0, 2, 2, 1]), [[0, 0], [0, 0]], block_size=2)
error(S, zeros([1, 2, 2]), [[0, 0], [0, 0]], block_size=2, text="Input rank should be: 4")
error(S, zeros([1, 2, 2, 1]), [[0, 0]], block_size=2,
      text="paddings should have shape [2, 2] instead of [1,2]")
error(S, zeros([1, 2, 3, 1]), [[0, 0], [0, 0]], block_size=2,
      text="padded_shape[1]=3 is not divisible by block_shape[1]=2")
error(S, zeros([1, 2, 3, 1]), [[0, 0], [0, -1]], block_size=2, text="Paddings must be non-negative")
error(B, zeros([4, 1, 1]), [[0, 0], [0, 0]], block_size=2, text="Input rank should be: 4")
error(B, zeros([3, 1, 1, 1]), [[0, 0], [0, 0]], block_size=2,
      text="Input batch dimension (3) is not divisible by product of block sizes (4)")
error(B, zeros([4, 1, 1, 1]), [[0, 0], [2, 2]], block_size=2,
      text="cropped_shape[1]=-2 must be non-negative")
error(B, zeros([4, 1, 1, 1]), [[0, 0], [-1, 0]], block_size=2, text="Crops must be non-negative")
