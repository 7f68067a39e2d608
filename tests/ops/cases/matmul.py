from generate import case, error, tensor, uniform, zeros

INTS = ["int32", "int64"]
FLOATS = ["float", "double", "half", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
WIDE = {"float": "rel 1e-5 abs 1e-5", "half": "rel 4e-3 abs 4e-3", "bfloat16": "rel 2e-2 abs 2e-2",
        "double": "rel 1e-10 abs 1e-10", "complex64": "rel 1e-5 abs 1e-5"}

for dtype in INTS + FLOATS + COMPLEX:
  low = 0 if dtype in INTS else -1
  high = 9 if dtype in INTS else 1
  for ta in [False, True]:
    for tb in [False, True]:
      for m, n, k in [(2, 3, 4), (1, 1, 1), (1, 7, 5), (7, 1, 5), (17, 33, 20), (1, 40, 90),
                      (40, 1, 90)]:
        case("MatMul", uniform([k, m] if ta else [m, k], low, high, 1, dtype),
             uniform([n, k] if tb else [k, n], low, high, 2, dtype), transpose_a=ta,
             transpose_b=tb, tolerance=WIDE.get(dtype))
  case("MatMul", tensor(dtype, [], [2, 0]), tensor(dtype, [], [0, 3]))
  case("MatMul", tensor(dtype, [], [0, 2]), uniform([2, 3], low, high, 2, dtype))
for dtype in ["float", "double", "int32"]:
  high = 1 if dtype != "int32" else 100
  for ta in [False, True]:
    for tb in [False, True]:
      case("MatMul", uniform([300, 130] if ta else [130, 300], -high, high, 1, dtype),
           uniform([410, 300] if tb else [300, 410], -high, high, 2, dtype), transpose_a=ta,
           transpose_b=tb, tolerance="rel 1e-5 abs 1e-4")
case("MatMul", [[1.0, float("nan")]], [[1.0], [0.0]])
case("MatMul", [[1.0, float("inf")]], [[1.0], [0.0]])
error("MatMul", [1.0], [1.0], text="In[0] and In[1] ndims must be == 2: 1")
error("MatMul", [[1.0, 2.0]], [[1.0, 2.0]],
      text="Matrix size-incompatible: In[0]: [1,2], In[1]: [1,2]")
error("MatMul", [[1.0, 2.0]], [[1.0]], transpose_b=True,
      text="Matrix size-incompatible: In[0]: [1,2], In[1]: [1,1]")
error("MatMul", [[[1.0]]], [[1.0]], text="In[0] and In[1] has different ndims: [1,1,1] vs. [1,1]")

for dtype in INTS + FLOATS + COMPLEX + ["int16"]:
  low = 0 if dtype.startswith("int") else -1
  high = 9 if dtype.startswith("int") else 1
  for ax in [False, True]:
    for ay in [False, True]:
      for xb, yb in [((2,), (2,)), ((3, 1), (2,)), ((), (2, 2)), ((2, 2), ())]:
        case("BatchMatMulV2", uniform(list(xb) + ([4, 3] if ax else [3, 4]), low, high, 1, dtype),
             uniform(list(yb) + ([2, 4] if ay else [4, 2]), low, high, 2, dtype), adj_x=ax,
             adj_y=ay, tolerance=WIDE.get(dtype))
case("BatchMatMulV2", uniform([2, 3]), uniform([3, 4]))
case("BatchMatMulV2", zeros([0, 2, 3]), zeros([0, 3, 4]))
case("BatchMatMulV2", zeros([2, 1, 0]), zeros([2, 0, 3]))
case("BatchMatMulV2", uniform([1, 1, 2, 3]), uniform([5, 1, 3, 2]))
case("BatchMatMulV2", uniform([8, 40, 32], -1, 1, 3), uniform([8, 40, 32], -1, 1, 4), adj_y=True,
     tolerance="rel 1e-5 abs 1e-5")
case("BatchMatMul", uniform([2, 3, 2, 4]), uniform([2, 3, 4, 2], seed=2), adj_x=False)
case("BatchMatMul", uniform([2, 4, 3]), uniform([2, 2, 4], seed=2), adj_x=True, adj_y=True)
import tensorflow as tf
case("BatchMatMulV3", uniform([2, 3]), uniform([3, 2]), Tout=tf.float32)
case("BatchMatMulV3", uniform([2, 3], -128, 128, 1, "int8"), uniform([3, 2], -128, 128, 2, "int8"),
     Tout=tf.int32)
case("BatchMatMulV3", uniform([2, 3], 0, 256, 1, "uint8"), uniform([3, 2], -128, 128, 2, "int8"),
     Tout=tf.int32)
error("BatchMatMulV2", [1.0], [1.0], text="In[0] ndims must be >= 2: 1")
error("BatchMatMulV2", [[1.0, 2.0]], [[1.0, 2.0]],
      text="Matrix size-incompatible: In[0]: [1,2], In[1]: [1,2]")
error("BatchMatMulV2", zeros([2, 1, 2]), zeros([3, 2, 1]),
      text="In[0] and In[1] must have compatible batch dimensions: [2,1,2] vs. [3,2,1]")
error("BatchMatMul", zeros([2, 1, 2]), zeros([1, 2, 1]),
      text="In[0].dim(0) and In[1].dim(0) must be the same: [2,1,2] vs [1,2,1]")
error("BatchMatMul", zeros([2, 1, 2]), zeros([2, 1]),
      text="In[0] and In[1] has different ndims: [2,1,2] vs. [2,1]")

for dtype in INTS + FLOATS + COMPLEX:
  low = 0 if dtype in INTS else -1
  high = 9 if dtype in INTS else 1
  case("Einsum", [uniform([2, 3], low, high, 1, dtype), uniform([3, 4], low, high, 2, dtype)],
       equation="ij,jk->ki", tolerance=WIDE.get(dtype))
  case("Einsum", [uniform([3, 3], low, high, 1, dtype)], equation="ii->i")
  case("Einsum", [uniform([3, 2], low, high, 1, dtype)], equation="ij->j",
       tolerance=WIDE.get(dtype))
for equation, shapes in [
    ("aecd,abcd->acbe", ([2, 3, 2, 4], [2, 5, 2, 4])),  # Keras' attention
    ("acbe,aecd->abcd", ([2, 3, 4, 5], [2, 5, 3, 2])),
    ("abc,cde->abde", ([2, 3, 4], [4, 2, 3])),
    ("abcd,cde->abe", ([2, 3, 2, 4], [2, 4, 3])),
    ("abc,cd->abd", ([2, 3, 4], [4, 5])),
    ("bij,bjk->bik", ([2, 3, 4], [2, 4, 5])),
    ("bij,bkj->bki", ([2, 3, 4], [2, 5, 4])),
    ("ij,ij->ij", ([2, 3], [2, 3])),
    ("ij,ij->", ([2, 3], [2, 3])),
    ("i,j->ij", ([3], [4])),
    ("i,j->ji", ([3], [4])),
    ("ij,j->i", ([2, 3], [3])),
    ("i,ij->j", ([2], [2, 3])),
    (",->", ([], [])),
    ("i,->i", ([3], [])),
    ("->", ([],)),
    ("ij->ji", ([2, 3],)),
    ("ij->", ([2, 3],)),
    ("ijk->ki", ([2, 3, 4],)),
    ("i->ii", ([3],)),
    ("ij->iji", ([2, 3],)),
    ("ij->ii", ([2, 3],)),
    ("iij->ji", ([2, 2, 3],)),
    ("iij,jk->ki", ([2, 2, 3], [3, 2])),
    ("ij,jk->iik", ([2, 3], [3, 2])),
    ("ijj,k->ki", ([2, 3, 3], [2])),
    ("...i,...i->...", ([2, 3], [1, 3])),
    ("...ij,...jk->...ik", ([2, 1, 2, 3], [4, 3, 2])),
    ("...ij,jk->...ik", ([2, 2, 2, 3], [3, 2])),
    ("ij,...jk->...ik", ([2, 3], [2, 1, 3, 2])),
    ("i...,j...->ij...", ([2, 3], [4, 1])),
    ("i...->...i", ([2, 3, 4],)),
    ("i...->...", ([2, 3],)),
    ("...->...", ([2, 3],)),
    ("ij,ij->j...", ([2, 3], [2, 3])),
    ("ab...,b...c->ca...", ([2, 3, 1, 2], [3, 4, 2, 5])),
    ("iI,Ij->ij", ([2, 3], [3, 2])),
    ("ij,jk->ik", ([0, 3], [3, 2])),
    ("ij,jk->ik", ([2, 0], [0, 2])),
    ("ij,kl->", ([2, 3], [4, 5])),
]:
  case("Einsum", [uniform(s, -1, 1, i + 1) for i, s in enumerate(shapes)], equation=equation,
       tolerance="rel 1e-5 abs 1e-5")
case("Einsum", [uniform([4, 32, 8, 16], -1, 1, 5), uniform([4, 32, 8, 16], -1, 1, 6)],
     equation="aecd,abcd->acbe", tolerance="rel 1e-5 abs 1e-5")
error("Einsum", [[1.0, 2.0], [1.0, 2.0, 3.0]], equation="i,i->",
      text="Expected dimension 2 at axis 0 of the input shaped [3] but got dimension 3")
error("Einsum", [[[1.0, 2.0, 3.0]]], equation="ii->",
      text="Expected dimension 1 at axis 1 of the input shaped [1,3] but got dimension 3")
error("Einsum", [[[1.0]]], equation="i->i", text="Expected input 0 to have rank 1 but got: 2")
error("Einsum", [[[1.0], [2.0]]], equation="...i->i",
      text="Output contains 1 broadcasting dimension(s) but no ellipsis (...) was found")
error("Einsum", [tensor("uint4", [1, 2])], equation="i->", code="UNIMPLEMENTED",
      text="Einsum: there are no sums of uint4")

# --- SparseMatMul
for a, b in [("float", "float"), ("bfloat16", "float"), ("float", "bfloat16"),
             ("bfloat16", "bfloat16")]:
  case("SparseMatMul", uniform([3, 4], -4, 5, 1, a), uniform([4, 2], -4, 5, 2, b),
       tolerance="rel 1e-5 abs 1e-5")
  case("SparseMatMul", uniform([4, 3], -4, 5, 1, a), uniform([2, 4], -4, 5, 2, b),
       transpose_a=True, transpose_b=True, a_is_sparse=True, b_is_sparse=True,
       tolerance="rel 1e-5 abs 1e-5")
case("SparseMatMul", tensor("float", [], [2, 0]), tensor("float", [], [0, 3]))
error("SparseMatMul", [[1.0]], [[1.0], [2.0]], text="Matrix size")
error("SparseMatMul", [1.0], [[1.0]], text="")

ROUNDED = "rel 3e-2 abs 0.5"  # TensorFlow rounds each sum, we round once.
for dtype in ["int8", "uint8"]:
  case("BatchMatMulV3", uniform([2, 3, 4], seed=1, dtype="bfloat16"), uniform([4, 5], 0, 100, 2, dtype), Tout="bfloat16",
       tolerance=ROUNDED)
  case("BatchMatMulV3", uniform([3, 4], 0, 100, 2, dtype), uniform([2, 5, 4], seed=1, dtype="bfloat16"), Tout="bfloat16",
       adj_y=True, tolerance=ROUNDED)
