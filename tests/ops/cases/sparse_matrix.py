"""Sparse matrices (CSR), alone and in batches."""
import numpy as np

from generate import case, csr, documented, error, tensor, tensor_list, uniform

DTYPES = ["float", "double", "complex64", "complex128"]
INDICES = tensor("int64", [[0, 1], [1, 0], [1, 2]])
BATCH = tensor("int64", [[0, 0, 1], [0, 1, 2], [2, 0, 0], [2, 0, 2], [2, 1, 1]])


def one(dtype="float"):
  return csr([2, 3], INDICES.array, uniform([3], -2, 2, 3, dtype).array)


def several(dtype="float"):
  return csr([3, 2, 3], BATCH.array, uniform([5], -2, 2, 4, dtype).array)


def square(dtype="float", batch=None):
  places = [[0, 1], [0, 2], [1, 0], [2, 0], [2, 2]]
  if batch:
    return csr([batch, 3, 3], [[b] + x for b in range(batch) for x in places],
               uniform([5 * batch], -2, 2, 6, dtype).array)
  return csr([3, 3], places, uniform([5], -2, 2, 6, dtype).array)


EMPTY = csr([2, 3], np.zeros([0, 2]), np.zeros([0], np.float32))
FLAT = csr([0, 3], np.zeros([0, 2]), np.zeros([0], np.float32))

# --- From sparse and dense tensors, and back
for dtype in DTYPES:
  case("SparseTensorToCSRSparseMatrix", INDICES, uniform([3], -2, 2, 3, dtype),
       tensor("int64", [2, 3]))
  case("SparseTensorToCSRSparseMatrix", BATCH, uniform([5], -2, 2, 3, dtype),
       tensor("int64", [3, 2, 3]))
  dense = uniform([2, 3, 4], -2, 2, 5, dtype)
  case("DenseToCSRSparseMatrix", dense, tensor("int64", [[0, 0, 3], [0, 2, 1], [1, 1, 0]]))
  case("DenseToCSRSparseMatrix", uniform([3, 4], -2, 2, 5, dtype),
       tensor("int64", [[0, 1], [0, 0], [2, 3]]))
  for matrix in [one(dtype), several(dtype)]:
    case("CSRSparseMatrixToSparseTensor", matrix, type=dtype)
    case("CSRSparseMatrixToDense", matrix, type=dtype)
  case("CSRSparseMatrixComponents", one(dtype), 0, type=dtype)
  for index in [0, 1, 2]:
    case("CSRSparseMatrixComponents", several(dtype), index, type=dtype)
for dims in [[2, 3], [0, 3], [3, 0], [0, 0], [2, 0, 0]]:
  case("SparseTensorToCSRSparseMatrix", tensor("int64", [], [0, len(dims)]), tensor("float", []),
       tensor("int64", dims))
# The columns of a row stay as they are; of the same place the last one is the dense element.
twice = csr([2, 3], [[0, 2], [0, 1], [0, 2]], [1., 2., 3.])
case("SparseTensorToCSRSparseMatrix", tensor("int64", [[0, 2], [0, 1], [0, 2]]), [1., 2., 3.],
     tensor("int64", [2, 3]))
case("CSRSparseMatrixToDense", twice, type="float")
case("CSRSparseMatrixToDense", EMPTY, type="float")
case("CSRSparseMatrixToDense", FLAT, type="float")
case("CSRSparseMatrixToSparseTensor", FLAT, type="float")
case("CSRSparseMatrixComponents", FLAT, 0, type="float")
for matrix in [one(), several(), EMPTY, FLAT]:
  case("SparseMatrixNNZ", matrix)

error("SparseTensorToCSRSparseMatrix", tensor("int64", [[0]]), [1.], tensor("int64", [2]),
      text="SparseTensor must have rank 2 or 3; but indices has rank: 1")
for place in [[0, 5], [7, 1], [-1, 1]]:
  error("SparseTensorToCSRSparseMatrix", tensor("int64", [place]), [1.], tensor("int64", [2, 3]),
        text="Sparse index tuple indices[0, :] = [%d, %d] is out of bounds" % tuple(place))
error("SparseTensorToCSRSparseMatrix", tensor("int64", [[5, 0, 2]]), [1.],
      tensor("int64", [2, 2, 3]), text="indices[0, :] = [5, 0, 2] is out of bounds")
error("SparseTensorToCSRSparseMatrix", INDICES, [1., 2.], tensor("int64", [2, 3]),
      text="Number of elements in indices (3) and values (2) do not match")
error("SparseTensorToCSRSparseMatrix", INDICES, [1., 2., 3.], tensor("int64", [2, 3, 4]),
      text="Index rank (2) and shape rank (3) do not match")
error("SparseTensorToCSRSparseMatrix", tensor("int64", [1]), [1.], tensor("int64", [2, 3]),
      text="Sparse indices must be rank 2 but is rank 1")
error("SparseTensorToCSRSparseMatrix", tensor("int64", [], [0, 2]), tensor("float", []),
      tensor("int64", [-2, 3]), text="Expected shape dimensions to be non-negative, got ")
error("SparseTensorToCSRSparseMatrix", tensor("int64", [], [0, 2]), tensor("float", []),
      tensor("int64", [2**33, 2]),
      text="The csr row index size, computed based on the dense_shape, must be <= Int32Max, but "
           "is too large. Current value is 8589934593")
error("SparseTensorToCSRSparseMatrix", tensor("int64", [], [0, 2]), tensor("float", []),
      tensor("int64", [2, 2**33]), code="INVALID_ARGUMENT",
      text="A sparse matrix may have at most Int32Max columns, got 8589934592")
error("DenseToCSRSparseMatrix", uniform([2, 3]), tensor("int64", [[0, 9]]),
      text="indices[0] = [0, 9] does not index into param shape [2,3]")
error("DenseToCSRSparseMatrix", uniform([2, 3]), tensor("int64", [[0, 0, 0]]),
      text="indices.shape[1] must be equal to the rank of params, but saw: 3 vs. 2")
error("DenseToCSRSparseMatrix", uniform([3]), tensor("int64", [[0]]),
      text="params must have rank == 2 or 3; but saw shape: [3]")
error("DenseToCSRSparseMatrix", uniform([2, 3]), tensor("int64", [0]),
      text="indices must be a matrix, but saw shape: [1]")
error("CSRSparseMatrixToDense", one(), type="double",
      text="Asked for a CSRSparseMatrix of type double but saw dtype: float")
error("CSRSparseMatrixToSparseTensor", one(), type="double",
      text="Expected a CSRSparseMatrix of type double but saw type: float")
error("CSRSparseMatrixToDense", tensor_list("float", []), type="float",
      text="Could not retrieve Variant input 0")
error("SparseMatrixNNZ", tensor_list("float", []), text="Could not retrieve Variant input 0")
for index in [-1, 3]:
  error("CSRSparseMatrixComponents", several(), index, type="float",
        text="index (%d) not in [0, 3)" % index)
error("CSRSparseMatrixComponents", one(), 0, type="double",
      text="dtype of input is not equal to 'type': float vs. double")
error("CSRSparseMatrixComponents", one(), [0], type="float",
      text="index should be a scalar, but saw: ")

# --- SparseMatrixTranspose
for dtype in DTYPES:
  for matrix in [one(dtype), several(dtype)]:
    for conjugate in [False, True]:
      case("SparseMatrixTranspose", matrix, type=dtype, conjugate=conjugate)
case("SparseMatrixTranspose", twice, type="float")
case("SparseMatrixTranspose", FLAT, type="float")
error("SparseMatrixTranspose", one(), type="double",
      text="dtype of input is not equal to 'type': float vs. double")

# --- SparseMatrixMatMul
for dtype in DTYPES:
  for flip in [{}, {"transpose_output": True}, {"conjugate_output": True},
               {"transpose_output": True, "conjugate_output": True}]:
    case("SparseMatrixMatMul", one(dtype), uniform([3, 2], -2, 2, 7, dtype), **flip)
    case("SparseMatrixMatMul", several(dtype), uniform([3, 3, 4], -2, 2, 7, dtype), **flip)
  for a in ["transpose_a", "adjoint_a"]:
    case("SparseMatrixMatMul", one(dtype), uniform([2, 4], -2, 2, 7, dtype), **{a: True})
    case("SparseMatrixMatMul", several(dtype), uniform([3, 2, 4], -2, 2, 7, dtype), **{a: True})
  for b in ["transpose_b", "adjoint_b"]:
    case("SparseMatrixMatMul", one(dtype), uniform([4, 3], -2, 2, 7, dtype), **{b: True})
    case("SparseMatrixMatMul", several(dtype), uniform([3, 4, 3], -2, 2, 7, dtype), **{b: True})
  case("SparseMatrixMatMul", square(dtype), uniform([3, 3], -2, 2, 7, dtype), adjoint_a=True,
       adjoint_b=True, transpose_output=True)
places = np.argwhere(uniform([60, 70], 0, 1, 9).array < 0.2)
large = csr([60, 70], places, uniform([len(places)], -1, 1, 2).array)
case("SparseMatrixMatMul", large, uniform([70, 300], seed=8))
case("SparseMatrixMatMul", large, uniform([60, 33], seed=8), transpose_a=True)
error("SparseMatrixMatMul", one(), uniform([2, 2]),
      text="Inner product dimensions of A and B do not agree. Shapes are: [2,3] vs. [2,2]")
error("SparseMatrixMatMul", one(), uniform([3, 2]), transpose_a=True, adjoint_a=True,
      text="Only one of adjoint_a and transpose_a may be true.")
error("SparseMatrixMatMul", one(), uniform([3, 2]), transpose_b=True, adjoint_b=True,
      text="Only one of adjoint_b and transpose_b may be true.")
error("SparseMatrixMatMul", one(), uniform([3, 2], dtype="double"),
      text="Input types don't match.  a.dtype == float vs. b.dtype == double")
error("SparseMatrixMatMul", one(), uniform([2, 3, 2]),
      text="Ranks of a and b must match, saw: 2 vs. 3.")
error("SparseMatrixMatMul", several(), uniform([2, 3, 2]),
      text="Batch sizes of a and b must match, saw: 3 vs. 2.")

# --- SparseMatrixSparseMatMul
for dtype in DTYPES:
  case("SparseMatrixSparseMatMul", one(dtype), square(dtype), type=dtype)
  case("SparseMatrixSparseMatMul", several(dtype), square(dtype, 3), type=dtype)
  for a in ["transpose_a", "adjoint_a"]:
    case("SparseMatrixSparseMatMul", one(dtype), one(dtype), type=dtype, **{a: True})
    case("SparseMatrixSparseMatMul", several(dtype), several(dtype), type=dtype, **{a: True})
  for b in ["transpose_b", "adjoint_b"]:
    case("SparseMatrixSparseMatMul", one(dtype), one(dtype), type=dtype, **{b: True})
    case("SparseMatrixSparseMatMul", several(dtype), several(dtype), type=dtype, **{b: True})
# What adds up to 0 is an entry.
case("SparseMatrixSparseMatMul", csr([1, 2], [[0, 0], [0, 1]], [1., 1.]),
     csr([2, 1], [[0, 0], [1, 0]], [1., -1.]), type="float")
case("SparseMatrixSparseMatMul", EMPTY, square(), type="float")
case("SparseMatrixSparseMatMul", large, large, type="float", transpose_b=True)
error("SparseMatrixSparseMatMul", one(), one(), type="float",
      text="Inner product dimensions of A and B do not agree.")
error("SparseMatrixSparseMatMul", one(), one(), type="float", transpose_a=True, adjoint_a=True,
      text="Only one of adjoint_a and transpose_a may be true.")
error("SparseMatrixSparseMatMul", one(), one(), type="double", transpose_b=True,
      text="dtype of a is not equal to 'type': float vs. double")
# These end TensorFlow's process: ranks and batches that differ, and products without entries, rows or
# columns.


# --- What TensorFlow documents, and has kernels of GPUs alone for
def scaled(matrix, factors):
  values = matrix.values.array * np.asarray(factors, matrix.values.array.dtype)
  return csr(matrix.shape, matrix.indices.array, values)


for dtype in DTYPES:
  two = tensor(dtype, 2)
  documented("SparseMatrixMul", one(dtype), two, outputs=[scaled(one(dtype), 2)])
  documented("SparseMatrixMul", several(dtype), tensor(dtype, [2, 3, 0.5], [3, 1, 1]),
             outputs=[scaled(several(dtype), [2, 2, 0.5, 0.5, 0.5])])
  documented("SparseMatrixZeros", tensor("int64", [2, 3]), type=dtype,
             outputs=[csr([2, 3], np.zeros([0, 2]), tensor(dtype, []).array)])
  documented("SparseMatrixZeros", tensor("int64", [4, 2, 3]), type=dtype,
             outputs=[csr([4, 2, 3], np.zeros([0, 3]), tensor(dtype, []).array)])
  other = csr([2, 3], [[0, 0], [0, 1], [1, 2]], tensor(dtype, [1, 2, 3]).array)
  v, half = one(dtype).values.array, np.asarray(-0.5, one(dtype).values.array.dtype)
  documented("SparseMatrixAdd", one(dtype), other, two, tensor(dtype, -0.5),
             outputs=[csr([2, 3], [[0, 0], [0, 1], [1, 0], [1, 2]],
                          np.stack([half, v[0] * 2 + 2 * half, v[1] * 2, v[2] * 2 + 3 * half]))])
  documented("SparseMatrixAdd", several(dtype), several(dtype), two, tensor(dtype, -0.5),
             outputs=[scaled(several(dtype), 1.5)])
documented("SparseMatrixMul", one(), 0.0, outputs=[scaled(one(), 0)])
documented("SparseMatrixAdd", twice, EMPTY, 1.0, 1.0,
           outputs=[csr([2, 3], [[0, 1], [0, 2]], [2., 4.])])
for dtype in ["float", "double"]:
  t = tensor(dtype, 0).array.dtype
  logits = csr([2, 2, 3], [[0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 1, 1]],
               np.asarray([5, 1, 2, -3], t))
  e = np.exp(np.asarray(-1, t))
  softmax = csr(logits.shape, logits.indices.array,
                np.asarray([1, e / (1 + e), 1 / (1 + e), 1], t))
  documented("SparseMatrixSoftmax", logits, type=dtype, outputs=[softmax])
  documented("SparseMatrixSoftmax", csr([2, 3], [[0, 0], [0, 1]], np.asarray([1000, 1000], t)),
             type=dtype, outputs=[csr([2, 3], [[0, 0], [0, 1]], np.asarray([0.5, 0.5], t))])
  s = csr([2, 3], [[0, 1], [1, 0], [1, 2]], np.asarray([1, 0.25, 0.75], t))
  documented("SparseMatrixSoftmaxGrad", s, csr([2, 3], INDICES.array, np.asarray([3, 1, 2], t)),
             type=dtype, outputs=[csr([2, 3], INDICES.array, np.asarray([0, -0.1875, 0.1875], t))])
  # An entry that the softmax has not does not count.
  documented("SparseMatrixSoftmaxGrad", s, csr([2, 3], [[1, 1], [1, 2]], np.asarray([9, 2], t)),
             type=dtype, outputs=[csr([2, 3], INDICES.array, np.asarray([0, -0.375, 0.375], t))])

BAD = "INVALID_ARGUMENT"
error("SparseMatrixMul", one(), tensor("double", 1), code=BAD,
      text="Input types don't match.  a.dtype == float vs. b.dtype == double")
error("SparseMatrixMul", one(), [1.], code=BAD,
      text="Multiplying by a 2D+ dense tensor is not currently supported, but shape of b is: [1]")
for matrix, shape in [(one(), [1, 1, 1]), (several(), [3, 2, 1]), (several(), [2, 1, 1])]:
  error("SparseMatrixMul", matrix, uniform(shape), code=BAD,
        text="then a must be a rank 3 and the size of b be [batch_size, 1, 1]. But the shape of b")
error("SparseMatrixAdd", one(), square(), 1., 1., code=BAD,
      text="Shapes of a and b must match, saw: [2,3] vs. [3,3]")
error("SparseMatrixAdd", one(), one(), [1.], 1., code=BAD,
      text="Expected alpha to be a scalar, saw shape: [1]")
error("SparseMatrixAdd", one("double"), one(), 1., 1., code=BAD,
      text="dtype of a is not equal to 'type': double vs. float")
error("SparseMatrixZeros", tensor("int64", [2]), type="float", code=BAD,
      text="dense_shape must be a vector of 2 or 3 sizes, but saw shape: [1]")
error("SparseMatrixZeros", tensor("int64", [2, -3]), type="float", code=BAD,
      text="Expected shape dimensions to be non-negative, got -3")
error("SparseMatrixSoftmax", one("double"), type="float", code=BAD,
      text="dtype of logits is not equal to 'type': double vs. float")
error("SparseMatrixSoftmaxGrad", one(), square(), type="float", code=BAD,
      text="Shapes of softmax and grad_softmax matrices must match, saw: [2,3] vs. [3,3]")
