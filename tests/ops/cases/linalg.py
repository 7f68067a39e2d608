import numpy as np

from generate import case, error, tensor, uniform, zeros

DTYPES = ["float", "double", "complex64", "complex128"]
TOLERANCE = {"float": "rel 1e-4 abs 1e-4", "double": "rel 1e-9 abs 1e-9",
             "complex64": "rel 1e-4 abs 1e-4", "complex128": "rel 1e-9 abs 1e-9",
             "half": "rel 5e-3 abs 5e-3"}
LOOSE = {"float": "rel 2e-3 abs 2e-3", "double": "rel 1e-8 abs 1e-8",
         "complex64": "rel 2e-3 abs 2e-3", "complex128": "rel 1e-8 abs 1e-8"}
NAN, INF = float("nan"), float("inf")


def dominant(shape, dtype="float", seed=1):
  """Random matrices that are far from singular."""
  n = shape[-1]
  a = uniform(shape, seed=seed, dtype=dtype).array
  return tensor(dtype, a + 2 * n**0.5 * np.eye(n).astype(a.dtype))


def positive(shape, dtype="float", seed=1):
  a = uniform(shape, seed=seed, dtype=dtype).array
  return tensor(dtype, a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1]).astype(a.dtype))


def batches(dtype):
  """Shapes of square matrices: all kinds for float, few for the others."""
  return [[1, 1], [3, 3], [2, 4, 4], [2, 1, 3, 3], [40, 40]] if dtype == "float" else \
      [[3, 3], [2, 4, 4]]


for dtype in DTYPES:
  tolerance = TOLERANCE[dtype]
  for shape in batches(dtype):
    case("Cholesky", positive(shape, dtype), tolerance=tolerance)
    case("Lu", uniform(shape, dtype=dtype), tolerance=tolerance)
    case("MatrixDeterminant", uniform(shape[:-2] + [min(shape[-1], 8)] * 2, dtype=dtype),
         tolerance=tolerance)
    case("LogMatrixDeterminant", uniform(shape, dtype=dtype), tolerance=tolerance)
    for adjoint in [False, True]:
      case("MatrixInverse", dominant(shape, dtype), adjoint=adjoint, tolerance=tolerance)
      case("MatrixSolve", dominant(shape, dtype), uniform(shape[:-1] + [2], seed=3, dtype=dtype),
           adjoint=adjoint, tolerance=tolerance)
      for lower in [False, True]:
        case("MatrixTriangularSolve", dominant(shape, dtype),
             uniform(shape[:-1] + [3], seed=3, dtype=dtype), lower=lower, adjoint=adjoint,
             tolerance=tolerance)
  # Blocks, and products by other ways than small ones.
  case("MatrixSolve", uniform([150, 150], dtype=dtype), uniform([150, 70], seed=3, dtype=dtype),
       tolerance=LOOSE[dtype])
for adjoint in [False, True]:
  case("MatrixInverse", dominant([2, 3, 3], "half"), adjoint=adjoint, tolerance=TOLERANCE["half"])
case("Lu", uniform([3, 3]), output_idx_type="int64")
case("Lu", [[0., 1., 2.], [3., 4., 5.], [6., 7., 9.]])

# Batches that broadcast.
for matrix, rhs in [([2, 3, 3], [3, 2]), ([3, 3], [2, 3, 2]), ([2, 1, 3, 3], [4, 3, 1]),
                    ([1, 3, 3], [2, 3, 2])]:
  case("MatrixTriangularSolve", dominant(matrix), uniform(rhs, seed=3))

# Nothing in them.
for op in ["Cholesky", "Lu", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant"]:
  for shape in [[0, 0], [0, 2, 2], [2, 0, 0]]:
    case(op, zeros(shape))
for op in ["MatrixSolve", "MatrixTriangularSolve"]:
  case(op, zeros([0, 0]), zeros([0, 2]))
  case(op, dominant([2, 2]), zeros([2, 0]))
  case(op, zeros([0, 2, 2]), zeros([0, 2, 1]))

# Not finite, singular, not positive definite.
SINGULAR = [[1., 2.], [2., 4.]]
case("Cholesky", [[INF, 1.], [1., 2.]])
case("Cholesky", [[NAN, 1.], [1., 2.]])
case("Cholesky", [[-4.]])
case("MatrixInverse", [[INF, 1.], [1., 2.]])
for op in ["MatrixDeterminant", "LogMatrixDeterminant"]:
  for matrix in [SINGULAR, [[0., 0.], [0., 0.]], [[NAN, 1.], [1., 2.]], [[INF, 1.], [1., 2.]],
                 [[INF, 0.], [0., 0.]], [[1e30, 0.], [0., 1e30]]]:
    case(op, matrix)
  case(op, tensor("complex64", [[0, 1j], [2, 3]]))
case("MatrixDeterminant", tensor("float", np.diag([1e30, 1e30, 1e-30, 1e-30])), tolerance="rel 1e-4")
case("MatrixTriangularSolve", zeros([2, 2]), [[1.], [1.]])
case("MatrixTriangularSolve", [[NAN, 1.], [1., 2.]], [[1.], [1.]])
for matrix in [SINGULAR, [[0., 0.], [0., 0.]], [[NAN, 1.], [1., 2.]]]:
  error("MatrixInverse", matrix, text="Input is not invertible.")
  error("Lu", matrix, text="Input is not invertible.")
  error("MatrixSolve", matrix, [[1.], [1.]], text="Input matrix is not invertible.")

# Bad shapes.
for op in ["Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant"]:
  error(op, [1., 2.], text="Input tensor 0 must have rank >= 2, got 1")
  error(op, [[1., 2.]], text="Input matrix must be square.")
error("Lu", [1., 2.], text="Input tensor must have rank >= 2, got 1")
error("Lu", [[1., 2.]], text="Input matrix must be square.")
error("MatrixSolve", [1.], [1.], text="Input tensor 0 must have rank >= 2, got 1")
error("MatrixSolve", [[1.]], [1.], text="All input tensors must have the same rank.")
error("MatrixSolve", dominant([2, 3, 3]), dominant([3, 3, 3]),
      text="All input tensors must have the same outer dimensions.")
error("MatrixSolve", [[1., 2.]], [[1.]], text="First input (lhs) must be a square matrix.")
error("MatrixSolve", [[1.]], [[1.], [2.]], text="Input matrix and rhs are incompatible.")
error("MatrixTriangularSolve", [1.], [1.], text="In[0] ndims must be >= 2: 1")
error("MatrixTriangularSolve", [[1.]], [1.], text="In[1] ndims must be >= 2: 1")
error("MatrixTriangularSolve", [[1., 2.]], [[1.]],
      text="In[0] matrices in the last dimensions must be square (2 =/= 1)")
error("MatrixTriangularSolve", [[1.]], [[1.], [2.]], text="In[0] mismatch In[1] shape: 1 vs. 2")
error("MatrixTriangularSolve", dominant([2, 3, 3]), dominant([3, 3, 3]),
      text="In[0] and In[1] must have compatible batch dimensions: [2,3,3] vs. [3,3,3]")

# --- Qr, Svd, SelfAdjointEigV2, Eig -------------------------------------------------------------

# Signs and phases that depend on rounding are left to tests/python/programs_linalg.py, as what is not
# computed is, which TensorFlow leaves uninitialised.
for dtype in DTYPES:
  tolerance, single = TOLERANCE[dtype], dtype in ("float", "complex64")
  for shape in [[1, 1], [3, 3], [2, 5, 3], [3, 5], [2, 1, 4, 4]]:
    for full in [False, True]:
      case("Qr", uniform(shape, dtype=dtype), full_matrices=full, tolerance=tolerance)
      if dtype != "complex64":
        case("Svd", uniform(shape, dtype=dtype), full_matrices=full, tolerance=tolerance)
  case("Qr", uniform([70, 60], dtype=dtype), tolerance=LOOSE[dtype])
  case("Qr", uniform([40, 90], dtype=dtype), full_matrices=True, tolerance=LOOSE[dtype])
  for shape in [[1, 1], [2, 2], [3, 3], [2, 6, 6]] + ([] if single else [[25, 25]]):
    case("SelfAdjointEigV2", uniform(shape, dtype=dtype), tolerance=tolerance)
  for shape in [[1, 1], [2, 2]] + ([] if single else [[3, 3]]) + \
      ([[2, 6, 6], [25, 25]] if dtype == "complex128" else []):
    case("Eig", uniform(shape, dtype=dtype), tolerance=tolerance,
         Tout="complex64" if single else "complex128")
for full in [False, True]:
  case("Qr", uniform([2, 4, 3], dtype="half"), full_matrices=full, tolerance=TOLERANCE["half"])
  for shape in [[0, 0], [0, 3], [3, 0], [0, 2, 2], [2, 0, 0]]:
    case("Qr", zeros(shape), full_matrices=full)
    case("Svd", zeros(shape), full_matrices=full)
for shape in [[0, 0], [0, 2, 2], [2, 0, 0]]:
  case("SelfAdjointEigV2", zeros(shape))
  case("Eig", zeros(shape), Tout="complex64")
for matrix in [SINGULAR, [[0., 0.], [0., 0.]], [[1., 2.], [2., 1.]], [[-4.]]]:
  for op in ["Qr", "Svd", "SelfAdjointEigV2"]:
    case(op, matrix, tolerance=TOLERANCE["float"])
  case("Eig", matrix, Tout="complex64", tolerance=TOLERANCE["float"])
for matrix in [[[NAN, 1.], [1., 2.]], [[INF, 1.], [1., 2.]]]:
  case("Qr", matrix)
  case("Svd", matrix)
  error("Eig", matrix, Tout="complex64",
        text="Eigen decomposition was not successful. The input might not be valid.")
case("SelfAdjointEigV2", [[INF, 1.], [1., 2.]])
error("SelfAdjointEigV2", [[NAN, 1.], [1., 2.]],
      text="Self-adjoint eigen decomposition was not successful. The input might not be valid.")
for op in ["Qr", "Svd", "SelfAdjointEigV2"]:
  error(op, [1., 2.], text="Input tensor 0 must have rank >= 2, got 1")
error("Eig", [1., 2.], Tout="complex64", text="Input tensor 0 must have rank >= 2, got 1")
error("SelfAdjointEigV2", [[1., 2.]], text="Input matrix must be square.")
error("Eig", [[1., 2.]], Tout="complex64", text="Input matrix must be square.")

# --- Bands, CholeskyGrad, Cross -----------------------------------------------------------------

for dtype in DTYPES:
  tolerance = TOLERANCE[dtype]
  for lower in [False, True]:
    for adjoint in [False, True]:
      for bands in [1, 3]:
        case("BandedTriangularSolve", uniform([2, bands, 5], 1, 2, dtype=dtype),
             uniform([2, 5, 3], seed=3, dtype=dtype), lower=lower, adjoint=adjoint,
             tolerance=tolerance)
  for n in [1, 2, 3, 7]:
    case("TridiagonalSolve", uniform([2, 3, n], dtype=dtype),
         uniform([2, n, 2], seed=3, dtype=dtype), tolerance=LOOSE[dtype])
    case("TridiagonalSolve", uniform([3, n], 1, 2, dtype=dtype),
         uniform([n, 2], seed=3, dtype=dtype), partial_pivoting=False, tolerance=LOOSE[dtype])
    case("TridiagonalMatMul", uniform([2, 1, n], dtype=dtype),
         uniform([2, 1, n], seed=2, dtype=dtype), uniform([2, 1, n], seed=3, dtype=dtype),
         uniform([2, n, 3], seed=4, dtype=dtype))
for matrix, rhs in [([2, 2, 3], [3, 2]), ([2, 3], [2, 3, 2]), ([2, 1, 4, 3], [4, 3, 1])]:
  case("BandedTriangularSolve", uniform(matrix, 1, 2), uniform(rhs, seed=3))
error("BandedTriangularSolve", zeros([2, 3]), [[1.], [1.], [1.]],
      text="Input matrix is not invertible.")
error("BandedTriangularSolve", zeros([0, 3]), zeros([3, 1]), text="In[0] must not be an empty tensor")
error("BandedTriangularSolve", zeros([2, 3]), zeros([3, 0]), text="In[1] must not be an empty tensor")
error("BandedTriangularSolve", [1.], [1.], text="In[0] ndims must be >= 2: 1")
error("BandedTriangularSolve", [[1.]], [1.], text="In[1] ndims must be >= 2: 1")
error("BandedTriangularSolve", [[1., 2.]], [[1.]],
      text="In[0] mismatch In[1] shape: 2 vs. 1: [1,2] [1,1] 1 0")
error("BandedTriangularSolve", uniform([2, 1, 3]), uniform([3, 3, 1]),
      text="In[0] and In[1] must have compatible batch dimensions: [2,1,3] vs. [3,3,1]")

SIDES = [[1.], [2.], [3.]]
for diagonals in [[[0.] * 3] * 3, [[NAN] * 3] * 3, [[1., 1., 0.], [0., 1., 1.], [0., 1., 1.]],
                  [[1., 0., 0.], [1., 1., 1.], [0., 1., 0.]]]:
  case("TridiagonalSolve", diagonals, SIDES)
  case("TridiagonalSolve", diagonals, SIDES, partial_pivoting=False)
  if diagonals[0][0] == 1.:
    case("TridiagonalSolve", diagonals, SIDES, perturb_singular=True)
case("TridiagonalSolve", [[0., 0.], [-1e-9, 1.], [0., 0.]], [[1.], [1.]], perturb_singular=True)
case("TridiagonalSolve", zeros([3, 0]), zeros([0, 2]))
case("TridiagonalMatMul", zeros([1, 0]), zeros([1, 0]), zeros([1, 0]), zeros([0, 2]))
error("TridiagonalSolve", [1.], [1.], text="Input tensor 0 must have rank >= 2, got 1")
error("TridiagonalSolve", zeros([3, 1]), [1.], text="All input tensors must have the same rank.")
error("TridiagonalSolve", zeros([2, 3]), zeros([3, 1]),
      text="Expected diagonals to be provided as a matrix with 3 rows, got 2 rows.")
error("TridiagonalSolve", zeros([3, 3]), zeros([4, 1]),
      text="Expected the same number of left-hand sides and right-hand sides, got 3 and 4.")
error("TridiagonalSolve", zeros([3, 3]), zeros([3, 1]), partial_pivoting=False,
      perturb_singular=True,
      text="Setting perturb_singular requires also setting partial_pivoting.")
for place, name in enumerate(["superdiagonal", "main diagonal", "subdiagonal"]):
  inputs = [zeros([1, 3]) for _ in range(3)] + [zeros([3, 2])]
  inputs[place] = zeros([1, 2])
  error("TridiagonalMatMul", *inputs, text="Invalid %s shape." % name)

for dtype in ["float", "double"]:
  for shape in [[1, 1], [2, 3, 3], [40, 40]]:
    case("CholeskyGrad", dominant(shape, dtype), uniform(shape, seed=3, dtype=dtype),
         tolerance=TOLERANCE[dtype])
case("CholeskyGrad", zeros([0, 0]), zeros([0, 0]))
case("CholeskyGrad", zeros([2, 2]), [[1., 2.], [2., 1.]])
error("CholeskyGrad", [1.], [1.], text="Input tensor 0 must have rank >= 2, got 1")
error("CholeskyGrad", [[1., 2.]], [[1., 2.]], text="Inputs must be a square matrices.")
error("CholeskyGrad", [[1.]], [[1., 2.]], text="Inputs (L and grad) must have the same shape.")

for dtype in ["float", "double", "half", "bfloat16"]:
  case("Cross", uniform([4, 3], -5, 5, dtype=dtype), uniform([4, 3], -5, 5, seed=2, dtype=dtype))
for dtype in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]:
  case("Cross", uniform([4, 3], 0, 120, dtype=dtype), uniform([4, 3], 0, 120, seed=2, dtype=dtype))
case("Cross", [1., 2., 3.], [3., 2., INF])
case("Cross", zeros([0, 3]), zeros([0, 3]))
error("Cross", [[1., 2., 3.]], [1., 2., 3.],
      text="Both inputs must be of same shape: [1,3] vs. [3]")
error("Cross", 1., 1., text="Input must be at least 1D[]")
error("Cross", [1., 2.], [1., 2.], text="Cross-products are only defined for 3-element vectors.")

# --- MatrixSolveLs ------------------------------------------------------------------------------

for dtype in DTYPES:
  for shape in [[2, 5, 3], [3, 5], [4, 4], [40, 30]]:
    for regularizer, fast in [(0., True), (0.5, True), (0., False)]:
      case("MatrixSolveLs", uniform(shape, dtype=dtype),
           uniform(shape[:-1] + [2], seed=3, dtype=dtype), np.float64(regularizer), fast=fast,
           tolerance=LOOSE[dtype])
for fast in [False, True]:
  case("MatrixSolveLs", zeros([3, 0]), zeros([3, 2]), np.float64(0), fast=fast)
  case("MatrixSolveLs", zeros([2, 2]), zeros([2, 0]), np.float64(0), fast=fast)
case("MatrixSolveLs", SINGULAR, [[1.], [1.]], np.float64(0), fast=False,
     tolerance=TOLERANCE["float"])
case("MatrixSolveLs", zeros([2, 2]), [[1.], [1.]], np.float64(0), fast=False)
error("MatrixSolveLs", zeros([2, 2]), [[1.], [1.]], np.float64(0),
      text="Try setting fast=False or provide a larger l2_regularizer > 0.")
error("MatrixSolveLs", zeros([2, 3]), [[1.], [1.]], np.float64(0),
      text="Try setting fast=False or provide an l2_regularizer > 0.")
error("MatrixSolveLs", [[1.]], [[1.]], np.float64(-1), text="l2_regularizer must be >= 0.")
error("MatrixSolveLs", [[1.]], [[1.]], np.float64([0]),
      text="l2_regularizer must be scalar, got shape [1]")
error("MatrixSolveLs", [1.], [1.], np.float64(0),
      text="Input tensor 0 must have rank >= 2, got 1")
error("MatrixSolveLs", [[1.]], [[1.], [1.]], np.float64(0),
      text="Input matrix and rhs are incompatible.")

# --- MatrixSquareRoot, MatrixLogarithm ----------------------------------------------------------

for dtype in DTYPES:
  for shape in [[1, 1], [2, 3, 3], [6, 6]]:
    case("MatrixSquareRoot", dominant(shape, dtype), tolerance=TOLERANCE[dtype])
    if "complex" in dtype:
      case("MatrixLogarithm", dominant(shape, dtype), tolerance=TOLERANCE[dtype])
for op, dtype in [("MatrixSquareRoot", "float"), ("MatrixLogarithm", "complex64")]:
  for shape in [[0, 0], [0, 2, 2], [2, 0, 0]]:
    case(op, zeros(shape, dtype))
  for matrix in [[[0., 0.], [0., 0.]], [[NAN, 1.], [1., 2.]], [[INF, 1.], [1., 2.]]]:
    case(op, tensor(dtype, matrix))
  error(op, tensor(dtype, [1., 2.]), text="Input tensor 0 must have rank >= 2, got 1")
  error(op, tensor(dtype, [[1., 2.]]), text="Input matrix must be square.")
case("MatrixSquareRoot", [[-4.]])
case("MatrixLogarithm", tensor("complex64", [[-4]]), tolerance=TOLERANCE["complex64"])
case("MatrixLogarithm", tensor("complex128", [[1, 2], [2, 1]]), tolerance=TOLERANCE["complex128"])
case("MatrixLogarithm", tensor("complex128", np.diag([1e-200, 1, 1e200])),
     tolerance=TOLERANCE["complex128"])
