from generate import case, error, tensor, uniform

INDICES = tensor("int64", [[0, 1], [2, 0], [2, 3]])
DENSE = tensor("int64", [3, 4])

# --- SparseToDense
for dtype in ["float", "double", "half", "bfloat16", "int8", "int32", "uint16", "bool"]:
  case("SparseToDense", INDICES, DENSE, uniform([3], 0, 9, 3, dtype), tensor(dtype, 1))
case("SparseToDense", [[0, 1], [2, 0]], [3, 2], ["a", "b"], "-")
case("SparseToDense", [1, 3], [5], [1.0, 2.0], 0.5)
case("SparseToDense", 2, [4], 7.0, 0.0)
case("SparseToDense", [[0, 1], [1, 1]], [2, 2], 7.0, 0.0)
case("SparseToDense", tensor("int32", [], [0, 2]), [2, 2], tensor("float", []), 3.0)
case("SparseToDense", [[1, 1], [0, 0], [1, 1]], [2, 2], [7.0, 8.0, 9.0], 0.0,
     validate_indices=False)
error("SparseToDense", [[1, 1], [0, 0]], [2, 2], [7.0, 8.0], 0.0,
      text="indices[1] = [0,0] is out of order. Many sparse ops require sorted indices.")
error("SparseToDense", [[0, 0], [0, 0]], [2, 2], [7.0, 8.0], 0.0,
      text="indices[1] = [0,0] is repeated")
error("SparseToDense", [[0, 2]], [2, 2], [7.0], 0.0,
      text="indices[0] = [0,2] is out of bounds: need 0 <= index < [2,2]")
error("SparseToDense", [[0, 2]], [2, 2], [7.0], 0.0, validate_indices=False,
      text="Indices are not valid (out of bounds).  Shape: [2,2]")
error("SparseToDense", [[0, 2]], [2], [7.0], 0.0,
      text="output_shape has incorrect number of elements: 1 should be: 2")
error("SparseToDense", [[0, 1]], [2, 2], [7.0, 8.0], 0.0,
      text="sparse_values has incorrect shape [2], should be [] or [1]")
error("SparseToDense", [[0, 1]], [2, 2], [7.0], [0.0], text="default_value should be a scalar.")
error("SparseToDense", [[[0, 1]]], [2, 2], [7.0], 0.0,
      text="sparse_indices should be a scalar, vector, or matrix, got shape [1,1,2]")

# --- SparseReorder
case("SparseReorder", tensor("int64", [[2, 0], [0, 1], [2, 3], [0, 0]]), [1.0, 2.0, 3.0, 4.0], DENSE)
case("SparseReorder", tensor("int64", [[2, 0], [0, 1]]), ["a", "b"], DENSE)
case("SparseReorder", INDICES, uniform([3], 0, 9, 3, "int32"), DENSE)
error("SparseReorder", tensor("int64", [0]), [1.0], DENSE,
      text="Sparse indices must be rank 2 but is rank 1")

# --- SparseReshape
for shape in [[12], [2, 6], [4, 3], [-1, 2], [3, -1, 2], [2, 2, 3]]:
  case("SparseReshape", INDICES, DENSE, tensor("int64", shape))
error("SparseReshape", INDICES, DENSE, tensor("int64", [5, 2]),
      text="Input to reshape is a tensor with 12 dense values, but the requested shape has 10")
error("SparseReshape", INDICES, DENSE, tensor("int64", [-1, 5]),
      text="Input to reshape is a SparseTensor with 12 dense values, but the requested shape "
           "requires a multiple of 5.")
error("SparseReshape", INDICES, DENSE, tensor("int64", [-1, -1]),
      text="only one output dimension may be -1, not both 0 and 1")

# --- SparseFillEmptyRows
case("SparseFillEmptyRows", INDICES, [1.0, 2.0, 3.0], tensor("int64", [4, 4]), 9.0)
case("SparseFillEmptyRows", INDICES, ["a", "b", "c"], tensor("int64", [4, 4]), "none")
case("SparseFillEmptyRows", tensor("int64", [[2, 0], [0, 1], [2, 3]]), [1, 2, 3],
     tensor("int64", [4, 4]), 9)
case("SparseFillEmptyRows", tensor("int64", [], [0, 2]), tensor("float", []),
     tensor("int64", [2, 2]), 1.0)
case("SparseFillEmptyRows", tensor("int64", [], [0, 2]), tensor("float", []),
     tensor("int64", [0, 2]), 1.0)
error("SparseFillEmptyRows", INDICES, [1.0, 2.0, 3.0], tensor("int64", [2, 4]), 9.0,
      text="indices(1, 0) is invalid: 2 >= 2")
error("SparseFillEmptyRows", INDICES, [1.0, 2.0, 3.0], DENSE, [9.0],
      text="default_value must be a scalar, saw: [1]")
error("SparseFillEmptyRows", INDICES, [1.0, 2.0], DENSE, 9.0,
      text="must match the first dimension of `indices`")
for dtype in ["float", "int32", "complex64"]:
  case("SparseFillEmptyRowsGrad", tensor("int64", [0, 3, 1]), uniform([5], 0, 9, 3, dtype))
error("SparseFillEmptyRowsGrad", tensor("int64", [5]), [1.0, 2.0],
      text="Elements in reverse index must be in [0, 2) but got 5")

# --- SparseTensorDenseMatMul
for dtype in ["float", "double", "half", "bfloat16", "int32", "complex64", "complex128"]:
  a = uniform([3], 1, 5, 3, dtype)
  case("SparseTensorDenseMatMul", INDICES, a, DENSE, uniform([4, 2], 1, 5, 4, dtype))
  case("SparseTensorDenseMatMul", INDICES, a, DENSE, uniform([2, 3], 1, 5, 4, dtype),
       adjoint_a=True, adjoint_b=True)
case("SparseTensorDenseMatMul", tensor("int32", [[0, 1]]), [2.0], DENSE, uniform([2, 4], seed=1),
     adjoint_b=True)
case("SparseTensorDenseMatMul", tensor("int64", [], [0, 2]), tensor("float", []), DENSE,
     uniform([4, 2], seed=1))
error("SparseTensorDenseMatMul", INDICES, [1.0, 2.0, 3.0], DENSE, uniform([3, 2], seed=1),
      text="Cannot multiply A and B because inner dimension does not match: 4 vs. 3.")
error("SparseTensorDenseMatMul", tensor("int64", [[0, 4]]), [1.0], DENSE, uniform([4, 2], seed=1),
      text="k (4) from index[0,1] out of bounds (>=4)")
error("SparseTensorDenseMatMul", tensor("int64", [[3, 0]]), [1.0], DENSE, uniform([4, 2], seed=1),
      text="m (3) from index[0,0] out of bounds (>=3)")

# --- Sums
for dtype in ["float", "int32", "complex64", "half", "uint8"]:
  case("SparseTensorDenseAdd", INDICES, uniform([3], 1, 5, 3, dtype), DENSE,
       uniform([3, 4], 1, 5, 4, dtype))
case("SparseTensorDenseAdd", tensor("int32", [[1], [1]]), [1.0, 2.0], [3], [0.0, 1.0, 2.0])
error("SparseTensorDenseAdd", tensor("int32", [[3]]), [1.0], [3], [0.0, 1.0, 2.0],
      text="Sparse tensor has an invalid index on dimension 0: a_indices(0,0) = 3, dense tensor")
error("SparseTensorDenseAdd", tensor("int32", [[1]]), [1.0], [4], [0.0, 1.0, 2.0], text="")
OTHER = tensor("int64", [[0, 0], [0, 1], [2, 3]])
for dtype, real in [("float", "float"), ("int32", "int32"), ("complex64", "float"),
                    ("int16", "int16"), ("double", "double")]:
  a, b = uniform([3], -4, 5, 3, dtype), uniform([3], -4, 5, 4, dtype)
  case("SparseAdd", INDICES, a, DENSE, OTHER, b, DENSE, tensor(real, 0))
  case("SparseAdd", INDICES, a, DENSE, OTHER, b, DENSE, tensor(real, 3))
error("SparseAdd", INDICES, [1.0, 2.0, 3.0], DENSE, OTHER, [1.0, 2.0, 3.0],
      tensor("int64", [3, 5]), 0.0, text="Operands' shapes do not match: got 4 and 5 for dimension 1")
case("SparseAddGrad", [1.0, 2.0, 3.0, 4.0], INDICES, OTHER,
     tensor("int64", [[0, 0], [0, 1], [2, 0], [2, 3]]))
case("SparseAddGrad", [1.0, 2.0], INDICES, OTHER, tensor("int64", [[0, 0], [2, 3]]))
error("SparseAddGrad", [1.0], INDICES, OTHER, tensor("int64", [[0, 0], [2, 3]]), text="")

# --- Crosses
A = tensor("int64", [[0, 0], [0, 1], [2, 0]])
B = tensor("int64", [[0, 0], [1, 0], [2, 0], [2, 1]])
THREE = tensor("int64", [3, 2])
FEW, MORE = ["a", "bb", "c"], tensor("int64", [7, 8, -9, 1 << 40])
case("SparseCross", [A, B], [FEW, ["p", "q", "r", "s"]], [THREE, THREE], [[["x"], ["y"], ["z"]]],
     hashed_output=False, num_buckets=0, hash_key=1, out_type="string", internal_type="string")
case("SparseCross", [A, B], [FEW, MORE], [THREE, THREE], [[["x"], ["y"], ["z"]]],
     hashed_output=True, num_buckets=0, hash_key=956888297470, out_type="int64",
     internal_type="int64")
case("SparseCross", [], [], [], [[["x", "w"], ["y", ""], ["z", "v"]], tensor("int64", [[1], [2], [3]])],
     hashed_output=True, num_buckets=100, hash_key=1, out_type="int64", internal_type="int64")
case("SparseCrossV2", [A, B], [FEW, MORE], [THREE, THREE], [[["x"], ["y"], ["z"]]], "-*-")
case("SparseCrossV2", [A], [tensor("string", ["a", "b", "c"])], [THREE], [], "_")
for strong in [False, True]:
  case("SparseCrossHashed", [A, B], [FEW, MORE], [THREE, THREE],
       [[["x"], ["y"], ["z"]]], tensor("int64", 1000), strong,
       tensor("int64", [137, 173]))
error("SparseCrossV2", [A, B], [FEW, MORE], [THREE, tensor("int64", [4, 2])], [], "-", text="")
error("SparseCrossV2", [A], [FEW], [THREE], [[["x"], ["y"]]], "-", text="")
for hashed, out in [(False, "string"), (True, "int64")]:
  case("RaggedCross", [["a", "bb", "c"], tensor("int64", [1, 2, 3])],
       [tensor("int64", [0, 2, 2, 3]), tensor("int64", [0, 1, 1, 3])], [B], [MORE], [THREE],
       [[["x", "w"], ["y", "v"], ["z", "u"]]], input_order="RDSR", hashed_output=hashed,
       num_buckets=0, hash_key=5, out_values_type=out, out_row_splits_type="int64")
error("RaggedCross", [["a", "bb", "c"]], [tensor("int64", [0, 2, 2])], [], [], [], [],
      input_order="R", hashed_output=False, num_buckets=0, hash_key=5, out_values_type="string",
      out_row_splits_type="int64", text="Invalid ragged splits")

# --- Distances
WORDS = tensor("int64", [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]])
MEANT = tensor("int64", [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 1, 0]])
SIZE = tensor("int64", [2, 2, 3])
for normalize in [False, True]:
  case("EditDistance", WORDS, ["a", "b", "c", "d"], SIZE, MEANT, ["b", "a", "b", "d", "e"], SIZE,
       normalize=normalize)
  case("EditDistance", WORDS, uniform([4], 0, 3, 1, "int64"), SIZE, MEANT,
       uniform([5], 0, 3, 2, "int64"), tensor("int64", [2, 3, 3]), normalize=normalize)
error("EditDistance", tensor("int64", [[0]]), ["a"], tensor("int64", [1]),
      tensor("int64", [[0]]), ["a"], tensor("int64", [1]), text="")
for group, other in [(7, 0), (0, 5), (-1, 0), (0, -1)]:
  error("EditDistance", tensor("int64", [[group, 0]]), ["a"], tensor("int64", [1, 1]),
        tensor("int64", [[other, 0]]), ["a"], tensor("int64", [1, 1]), text="Got an inner ",
        code="INVALID_ARGUMENT", comment="TensorFlow says INTERNAL.")

# --- The larger and the smaller
for op in ["SparseSparseMaximum", "SparseSparseMinimum"]:
  for dtype in ["float", "int32", "uint8", "half"]:
    low = 0 if dtype == "uint8" else -5
    case(op, INDICES, uniform([3], low, 5, 3, dtype), DENSE, OTHER, uniform([3], low, 5, 4, dtype),
         DENSE)
  error(op, INDICES, [1.0, 2.0, 3.0], DENSE, OTHER, [1.0, 2.0, 3.0], tensor("int64", [3, 5]),
        text="Operands' shapes do not match: got 4 and 5 for dimension 1")
  error(op, INDICES, [1.0, 2.0, 3.0], DENSE, tensor("int64", [[0, 1], [3, 1]]), [1.0, 2.0], DENSE,
        text="Sparse index tuple indices[1, :] = [3, 1] is out of bounds")
  error(op, tensor("int64", [], [1, 0]), [1.0], tensor("int64", [], [0]),
        tensor("int64", [], [1, 0]), [1.0], tensor("int64", [], [0]),
        text="Tensors must not be empty")

# --- Sets
SET1, SET2 = [[9, 2, 5, 9], [1, 1, 1, 1]], [[5, 7], [3, 1]]
S1 = [tensor("int64", [[0, 0], [0, 1], [1, 0]]), [9, 2, 5], tensor("int64", [3, 4])]
S2 = [tensor("int64", [[0, 0], [1, 1], [2, 0]]), [9, 7, 5], tensor("int64", [3, 2])]
for op in ["a-b", "b-a", "intersection", "union"]:
  case("DenseToDenseSetOperation", SET1, SET2, set_operation=op)
  case("DenseToDenseSetOperation", [["a", "b"]], [["b", "c"]], set_operation=op)
  case("DenseToSparseSetOperation", [[9, 2, 5, 9], [1, 1, 1, 7], [3, 3, 3, 3]], *S2,
       set_operation=op)
  case("SparseToSparseSetOperation", *S1, *S2, set_operation=op)
for dtype in ["int8", "int16", "int64", "uint8", "uint16"]:
  case("DenseToDenseSetOperation", tensor(dtype, SET1), tensor(dtype, SET2), set_operation="union")
case("SetSize", *S1)
case("SetSize", tensor("int64", [[0, 0], [0, 2], [1, 0]]), ["a", "a", "b"], tensor("int64", [3, 4]))
error("SetSize", tensor("int64", [[0, 0], [3, 2]]), [1, 2], tensor("int64", [3, 4]), text="")
error("DenseToDenseSetOperation", SET1, SET2, set_operation="xor",
      text="Invalid set_operation xor.")
error("DenseToDenseSetOperation", SET1, [[5, 7]], set_operation="union", text="")
error("DenseToDenseSetOperation", [1], [1], set_operation="union", text="")

# --- With elements of a dense tensor
REALS = ["float", "double", "half", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
         "uint16", "uint32", "uint64"]
for op in ["SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd"]:
  for dtype in REALS:
    case(op, INDICES, uniform([3], 1, 9, 3, dtype), DENSE, uniform([3, 4], 1, 9, 4, dtype))
  for dense in [2.0, [2.0], [1.0, 2.0, 3.0, 4.0], [[2.0], [3.0], [4.0]], [[2.0]]]:
    case(op, INDICES, [1.0, 2.0, -3.0], DENSE, tensor("float", dense))
  case(op, tensor("int64", [[1, 0, 2], [0, 0, 1]]), [1.0, 2.0], tensor("int64", [2, 1, 3]),
       [[3.0, 5.0, 7.0]])
  case(op, tensor("int64", [[2], [2]]), [1.0, 5.0], tensor("int64", [3]), [1.0, 2.0, 4.0])
  case(op, tensor("int64", [], [0, 2]), tensor("float", []), tensor("int64", [0, 4]),
       tensor("float", [], [0, 4]))
  for dense in [[[1.0] * 4] * 2, [[[1.0] * 4] * 3] * 2, [1.0] * 3, tensor("float", [], [0])]:
    error(op, INDICES, [1.0, 2.0, 3.0], DENSE, dense,
          text="SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: ")
  for index in [[3, 0], [0, 4], [-1, 0], [0, -1]]:
    error(op, tensor("int64", [index]), [1.0], DENSE, 2.0,
          text="Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape")
  error(op, tensor("int64", [1]), [1.0], DENSE, 2.0,
        text="Input sp_indices should be a matrix but received shape: [1]")
  error(op, INDICES, [[1.0]], DENSE, 2.0,
        text="Inputs sp_values and sp_shape should be vectors but received shapes: [1,1] and [2]")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [[3, 4]]), 2.0,
        text="Inputs sp_values and sp_shape should be vectors but received shapes: [3] and [1,2]")
  error(op, INDICES, [1.0], DENSE, 2.0,
        text="The first dimension of values and indices should match. (1 vs. 3)")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [3]), 2.0,
        text="Number of dimensions must match second dimension of indices. Got 1 dimensions")
  error(op, tensor("int64", [], [1, 0]), [1.0], tensor("int64", []), 2.0,
        text="The shape argument requires at least one element.")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [3, -4]), 2.0,
        text="Expected shape dimensions to be non-negative, got -4")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [1 << 40, 1 << 40]), 2.0,
        text="Encountered overflow when multiplying 1099511627776 with 1099511627776")
case("SparseDenseCwiseDiv", INDICES, tensor("int8", [-7, 7, -128]), DENSE,
     tensor("int8", [-2, 2, 1, -1]))
for dtype in ["float", "int32"]:
  error("SparseDenseCwiseDiv", INDICES, uniform([3], 1, 9, 3, dtype), DENSE,
        tensor(dtype, [1, 1, 1, 0]), text="SparseDenseCwiseDiv cannot divide by zero")

# --- Reductions
CUBE = tensor("int64", [[0, 0, 1], [0, 2, 1], [1, 0, 0], [1, 0, 1], [1, 2, 1]])
CUBE_SHAPE = tensor("int64", [2, 3, 2])
NO_AXES = tensor("int32", [])
for op in ["SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse"]:
  for dtype in REALS + (["complex64", "complex128"] if "Sum" in op else []):
    low = 0 if dtype.startswith("uint") else -5
    case(op, CUBE, uniform([5], low, 5, 3, dtype), CUBE_SHAPE, [0])
  for axes in [NO_AXES, [1], [2], [0, 1], [0, 2], [0, 1, 2], [-1], -2, [2, -1, 0]]:
    for keep_dims in [False, True]:
      case(op, CUBE, [1.0, -2.0, 4.0, -8.0, 16.0], CUBE_SHAPE, axes, keep_dims=keep_dims)
  case(op, tensor("int64", [[1, 1], [0, 0], [1, 1], [0, 3], [0, 0]]), [1.0, 2.0, 3.0, 4.0, 5.0],
       DENSE, NO_AXES)
  case(op, tensor("int64", [], [0, 2]), tensor("float", []), DENSE, [1])
  case(op, tensor("int64", [], [0, 2]), tensor("float", []), DENSE, [0, 1])
  case(op, tensor("int64", [], [0, 2]), tensor("float", []), tensor("int64", [0, 4]), [0])
  case(op, tensor("int64", [], [1, 0]), [1.0], tensor("int64", []), NO_AXES)
  for axis in [2, -3]:
    error(op, INDICES, [1.0, 2.0, 3.0], DENSE, [axis],
          text="Invalid reduction dimension %d, for input with 2 dimensions." % axis)
  error(op, INDICES, [1.0, 2.0, 3.0], DENSE, [[0]],
        text="Expected reduction_axes to be a scalar or a vector; got shape: [1,1]")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [[3, 4]]), [0],
        text="Expected input_shape to be a vector; got shape: [1,2]")
  error(op, INDICES, [[1.0]], DENSE, [0], text="vals must be a vec, but got: [1,1]")
  error(op, INDICES, [1.0], DENSE, [0],
        text="indices and values rows (indexing dimension) must match. (indices = 3, values = 1)")
  error(op, tensor("int64", [2]), [1.0], DENSE, [0], text="")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [3]), [0],
        text="Order length must be SparseTensor rank.")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [3, -4]), [0],
        text="Expected shape dimensions to be non-negative, got -4")
  error(op, INDICES, [1.0, 2.0, 3.0], tensor("int64", [1 << 40, 1 << 40]), [0],
        text="Encountered overflow when multiplying 1099511627776 with 1099511627776")
for op in ["SparseReduceSum", "SparseReduceMax"]:
  for index in [[9, 0], [-1, 0]]:
    error(op, tensor("int64", [index]), [1.0], DENSE, [1], code="INVALID_ARGUMENT",
          text="Index [%d, 0] is out of range of shape [3, 4]" % index[0])

# --- Put together and cut
VALUES = [1.0, 2.0, 3.0]
ALL = ["float", "double", "half", "bfloat16", "int8", "int32", "int64", "uint16", "bool",
       "complex64", "complex128"]
for dtype in ALL:
  values = uniform([3], 0, 9, 3, dtype)
  case("SparseConcat", [INDICES, OTHER], [values, uniform([3], 0, 9, 4, dtype)], [DENSE, DENSE],
       concat_dim=1)
  case("SparseSlice", INDICES, values, DENSE, tensor("int64", [1, 0]), tensor("int64", [2, 3]))
  case("SparseSplit", tensor("int64", 1), INDICES, values, DENSE, num_split=3)
WORD_VALUES = ["a", "a longer string than fits into a string object", ""]
case("SparseConcat", [INDICES, OTHER, INDICES], [WORD_VALUES] * 3, [DENSE] * 3, concat_dim=-2)
case("SparseSlice", INDICES, WORD_VALUES, DENSE, tensor("int64", [0, 1]), tensor("int64", [9, 9]))
case("SparseSplit", tensor("int64", -2), INDICES, WORD_VALUES, DENSE, num_split=2)
BACKWARDS = tensor("int64", [[2, 3], [1, 0], [0, 1]])
for axis in [0, 1]:
  case("SparseConcat", [BACKWARDS, INDICES], [VALUES, VALUES], [DENSE, DENSE], concat_dim=axis)
case("SparseConcat", [INDICES, OTHER], [VALUES, VALUES], [DENSE, tensor("int64", [3, 5])],
     concat_dim=1)
case("SparseConcat", [tensor("int64", [], [0, 2])] * 2, [tensor("float", [])] * 2, [DENSE] * 2,
     concat_dim=0)
for axis in [2, -3]:
  error("SparseConcat", [INDICES, OTHER], [VALUES, VALUES], [DENSE, DENSE], concat_dim=axis,
        text="Concat dimension must be in range [-2, 2), got %d" % axis)
for indices, values, shape, text in [
    (tensor("int64", [0]), VALUES, DENSE,
     "Input indices should be a matrix but received shape [1] at position 1"),
    (INDICES, [[1.0]], DENSE,
     "Input values should be a vector but received shape [1,1] at position 1"),
    (INDICES, VALUES, tensor("int64", [[3, 4]]),
     "Input shapes should be a vector but received shape [1,2] at position 1"),
    (INDICES, VALUES, tensor("int64", [3]),
     "Ranks of all input tensors must match: expected 2 but got 1 at position 1"),
    (INDICES, VALUES, tensor("int64", [3, 5]),
     "Input shapes must match: expected 4 for dimension 1 but got 5 at position 1"),
    (INDICES, [1.0], DENSE, "indices and values rows (indexing dimension) must match.")]:
  error("SparseConcat", [INDICES, indices], [VALUES, values], [DENSE, shape], concat_dim=0,
        text=text)
ONE = tensor("int64", [[0, 0]])
error("SparseConcat", [ONE, ONE], [[1.0], [1.0]], [tensor("int64", [1 << 62, 4])] * 2,
      concat_dim=0, code="INVALID_ARGUMENT", text="Encountered overflow")
error("SparseConcat", [ONE, ONE], [[1.0], [1.0]], [tensor("int64", [3, -4])] * 2, concat_dim=0,
      code="INVALID_ARGUMENT", text="Expected shape dimensions to be non-negative, got -4")
error("SparseConcat", [ONE, tensor("int64", [[(1 << 63) - 1, 0]])], [[1.0], [1.0]],
      [tensor("int64", [1, 1])] * 2, concat_dim=0, code="INVALID_ARGUMENT",
      text="Index 9223372036854775807 of dimension 0 is out of range at position 1")

for start, size in [([0, 1], [2, 9]), ([5, 0], [9, 1]), ([-1, 0], [2, 4]), ([1, 0], [0, 4]),
                    ([(1 << 63) - 1, 0], [(1 << 63) - 1, 4]), ([0, 0], [3, 4])]:
  case("SparseSlice", INDICES, VALUES, DENSE, tensor("int64", start), tensor("int64", size))
case("SparseSlice", BACKWARDS, VALUES, DENSE, tensor("int64", [0, 0]), tensor("int64", [2, 4]))
START, SIZE2 = tensor("int64", [0, 0]), tensor("int64", [1, 4])
for indices, values, shape, start, size, text in [
    (INDICES, VALUES, DENSE, START, tensor("int64", [-1, 4]),
     "Expected a non-negative size, got -1"),
    (INDICES, VALUES, DENSE, tensor("int64", [0]), SIZE2,
     "Expected start to be a vector of length 2 but got length 1"),
    (INDICES, VALUES, DENSE, START, tensor("int64", [1]),
     "Expected size to be a vector of length 2 but got length 1"),
    (INDICES, VALUES, DENSE, tensor("int64", [[0, 0]]), SIZE2,
     "Input start should be a vector but received shape [1,2]"),
    (tensor("int64", [0]), VALUES, DENSE, START, SIZE2,
     "Sparse indices must be rank 2 but is rank 1"),
    (INDICES, [[1.0]], DENSE, START, SIZE2, "Sparse values must be rank 1 but is rank 2"),
    (INDICES, [1.0], DENSE, START, SIZE2,
     "Number of elements in indices (3) and values (1) do not match"),
    (INDICES, VALUES, tensor("int64", [3]), START, SIZE2,
     "Index rank (2) and shape rank (1) do not match"),
    (INDICES, VALUES, tensor("int64", [3, -4]), START, SIZE2,
     "Expected shape dimensions to be non-negative, got -4"),
    (INDICES, VALUES, tensor("int64", [1 << 40, 1 << 40]), START, SIZE2,
     "Encountered overflow when multiplying 1099511627776 with 1099511627776")]:
  error("SparseSlice", indices, values, shape, start, size, text=text)

FIRST = tensor("int64", [[0, 1]])
for dtype in ["float", "int32", "complex128", "half", "uint8"]:
  case("SparseSliceGrad", uniform([2], 1, 9, 3, dtype), INDICES, START,
       tensor("int64", [[0, 1], [2, 0]]))
case("SparseSliceGrad", [5.0], INDICES, tensor("int64", [2, 0]), tensor("int64", [[0, 0]]))
case("SparseSliceGrad", tensor("float", []), INDICES, START, tensor("int64", [], [0, 2]))
error("SparseSliceGrad", [5.0], INDICES, START, tensor("int64", [[2, 2]]), code="INVALID_ARGUMENT",
      text="Elements of backprop_val_grad aren't all propagated. Num elements:1, used: 0")
for grad, indices, start, kept, text in [
    ([5.0, 6.0], INDICES, START, FIRST, "# elements of backprop_val_grad and # rows of"),
    ([5.0], tensor("int64", [1]), START, FIRST, "Input and output indices should be matrices"),
    ([5.0], INDICES, START, tensor("int64", [1]), "Input and output indices should be matrices"),
    ([5.0], INDICES, tensor("int64", [0]), FIRST,
     "Expected input_start to be a vector of length 2 but got length 1"),
    ([5.0], INDICES, tensor("int64", [[0, 0]]), FIRST,
     "The input_start should be a vector but received shape [1,2]"),
    ([[5.0]], INDICES, START, FIRST, "Input backprop_val_grad should be a vector"),
    ([5.0], INDICES, START, tensor("int64", [[0]]),
     "The input and output should have the same ndims: got: 2 and 1")]:
  error("SparseSliceGrad", grad, indices, start, kept, text=text)

for axis, parts in [(0, 1), (0, 2), (0, 3), (-1, 4)]:
  case("SparseSplit", tensor("int64", axis), INDICES, VALUES, DENSE, num_split=parts)
case("SparseSplit", tensor("int64", 1), BACKWARDS, VALUES, DENSE, num_split=2)
AXIS = tensor("int64", 0)
for index in [[3, 0], [-1, 0], [0, 9]]:
  error("SparseSplit", AXIS, tensor("int64", [index]), [1.0], DENSE, num_split=2,
        text="Sparse index tuple indices[0, :] = [%d, %d] is out of bounds" % tuple(index))
for axis, indices, values, shape, parts, text in [
    (AXIS, INDICES, VALUES, DENSE, 4,
     "Input num_split should be between 1 and the splitting dimension size (3), got 4"),
    (tensor("int64", 2), INDICES, VALUES, DENSE, 1, "Input axis should be in range [-2, 2), got 2"),
    (tensor("int64", [0, 1]), INDICES, VALUES, DENSE, 1,
     "Input axis should be a scalar but received shape [2]"),
    (AXIS, tensor("int64", [0]), VALUES, DENSE, 1,
     "Input indices should be a matrix but received shape [1]"),
    (AXIS, INDICES, [[1.0]], DENSE, 1, "Input values should be a vector but received shape ["),
    (AXIS, INDICES, [1.0], DENSE, 1, "Number of elements in indices (3) and values (1) do not match"),
    (AXIS, INDICES, VALUES, tensor("int64", [3]), 1,
     "Index rank (2) and shape rank (1) do not match"),
    (AXIS, INDICES, VALUES, tensor("int64", [[3, 4]]), 1,
     "Input shape should be a vector but received shape [1,2]"),
    (AXIS, INDICES, VALUES, tensor("int64", [1 << 40, 1 << 40]), 1,
     "Encountered overflow when multiplying 1099511627776 with 1099511627776")]:
  error("SparseSplit", axis, indices, values, shape, num_split=parts, text=text)

# --- SparseSoftmax
for dtype in ["float", "double", "half"]:
  case("SparseSoftmax", CUBE, uniform([5], -5, 5, 3, dtype), CUBE_SHAPE)
case("SparseSoftmax", tensor("int64", [[0, 0], [1, 0], [0, 1]]), VALUES, DENSE)
case("SparseSoftmax", tensor("int64", [[0, 0], [0, 1], [0, 2]]), [1000.0, -1000.0, 1000.0], DENSE)
case("SparseSoftmax", tensor("int64", [], [0, 2]), tensor("float", []), DENSE)
for indices, values, shape, text in [
    (tensor("int64", [0]), VALUES, DENSE, "Input sp_indices should be a matrix"),
    (INDICES, [[1.0]], DENSE, "Inputs sp_values and sp_shape should be vectors but received"),
    (INDICES, VALUES, tensor("int64", [[3, 4]]), "Inputs sp_values and sp_shape should be vectors"),
    (INDICES, [1.0], DENSE, "indices and values rows (indexing dimension) must match."),
    (INDICES, VALUES, tensor("int64", [3]), "Input should have rank >= 2, but received shape: "),
    (INDICES, VALUES, tensor("int64", [3, -4]), "Expected shape dimensions to be non-negative"),
    (INDICES, VALUES, tensor("int64", [1 << 40, 1 << 40]), "Encountered overflow when multiplying")]:
  error("SparseSoftmax", indices, values, shape, text=text)

# Sparse tensors as strings: what TensorFlow has written, it reads.
for dtype, values in [("float", [1, 2]), ("int64", [1, -2]), ("string", ["ab", ""]), ("bool", [1, 0]), ("half", [1, 2]),
                      ("complex64", [1, 2])]:
  case("SerializeSparse", tensor("int64", [[0, 1], [2, 0]]), tensor(dtype, values), tensor("int64", [3, 300]))
  case("SerializeManySparse", tensor("int64", [[0, 1], [2, 0]]), tensor(dtype, values), tensor("int64", [3, 3]))
rows = [[b"\x08\x09\x12\x08\x12\x02\x08\x01\x12\x02\x08\x01\x22\x08\x01\x00\x00\x00\x00\x00\x00\x00",
         b"\x08\x01\x12\x04\x12\x02\x08\x01\x22\x04\x00\x00\x80?",
         b"\x08\x09\x12\x04\x12\x02\x08\x01\x22\x08\x03\x00\x00\x00\x00\x00\x00\x00"],
        [b"\x08\x09\x12\x06\x12\x00\x12\x02\x08\x01", b"\x08\x01\x12\x02\x12\x00",
         b"\x08\x09\x12\x04\x12\x02\x08\x01\x22\x08\x03\x00\x00\x00\x00\x00\x00\x00"]]
case("DeserializeManySparse", tensor("string", rows), dtype="float")
case("DeserializeSparse", tensor("string", rows), dtype="float")
case("DeserializeSparse", tensor("string", rows[0]), dtype="float")
error("DeserializeSparse", tensor("string", rows), dtype="double",
      text="Requested SparseTensor of type double but SparseTensor[0].values.dtype() == float")
error("DeserializeSparse", tensor("string", [[rows[0][0], b"\x08", rows[0][2]]]), dtype="float", text="parse")
error("DeserializeManySparse", tensor("string", [["", ""]]), dtype="float",
      text="Serialized sparse should have 3")
for dtype in ["half", "bfloat16", "complex64", "complex128"]:
  case("EditDistance", tensor("int64", [[0, 0], [0, 1]]), tensor(dtype, [1, 2]), tensor("int64", [1, 2]),
       tensor("int64", [[0, 0], [0, 1]]), tensor(dtype, [1, 3]), tensor("int64", [1, 3]))

# --- RaggedFillEmptyRows
R = "RaggedFillEmptyRows"
def ints(values):
  return tensor("int64", values)


case(R, ints([0, 0, 2]), [1.0, 2.0, 3.0], ints(4), 9.0)
case(R, ints([2, 0, 2]), ["a", "b", "c"], ints(4), "none")
case(R, ints([1, 0]), [True, True], ints(3), False)
case(R, ints([]), tensor("int32", []), ints(3), 7)
error(R, ints([0]), [1.0], ints(0), 9.0,
      text="Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = 1")
error(R, ints([5]), [1.0], ints(3), 9.0, text="indices(0, 0) is invalid: 5 >= 3")
error(R, ints([-1]), [1.0], ints(3), 9.0, text="indices(0, 0) is invalid: -1 >= 3")
error(R, ints([[0]]), [1.0], ints(3), 9.0, text="value_rowids must be a vector, saw: [1,1]")
error(R, ints([0]), [[1.0]], ints(3), 9.0, text="values must be a vector, saw: [1,1]")
error(R, ints([0]), [1.0], ints([3]), 9.0, text="nrows must be a scalar, saw: [1]")
error(R, ints([0]), [1.0], ints(3), [9.0], text="default_value must be a scalar, saw: [1]")
error(R, ints([0, 1]), [1.0], ints(3), 9.0,
      text="The length of `values` (1) must match the first dimension of `value_rowids` (2).")
error(R, ints([0]), [1.0], ints(-3), 9.0, text="")
error(R, ints([0]), [1.0], ints(2**62), 9.0, text="", code="RESOURCE_EXHAUSTED")
for dtype in ["float", "int32", "complex64"]:
  case(R + "Grad", ints([0, 2]), tensor(dtype, [1, 2, 3]))
error(R + "Grad", ints([[0]]), [1.0], text="reverse_index_map must be a vector, saw: [1,1]")
error(R + "Grad", ints([0]), [[1.0]], text="grad_values must be a vector, saw: [1,1]")
error(R + "Grad", ints([5]), [1.0], text="Elements in reverse index must be in [0, 1) but got 5")
