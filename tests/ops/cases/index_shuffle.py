"""Where elements of a shuffled range go, whose kernel is one of the family random."""
from generate import case, error, tensor

S = "RandomIndexShuffle"
TYPES = ["int32", "uint32", "int64", "uint64"]

for dtype in TYPES:
  for seed in TYPES:
    case(S, tensor(dtype, list(range(8))), tensor(seed, [1, 2, 3]), tensor(dtype, 7))
  case(S, tensor(dtype, 3), tensor("int32", [5, 6, 7]), tensor(dtype, 100))
  case(S, tensor(dtype, [3, 0, 9, 1000]), tensor("uint32", [[5, 6, 7], [1, 1, 1], [2**32 - 1, 0, 9],
                                                            [4, 4, 4]]),
       tensor(dtype, [100, 0, 9, 100000]))
  case(S, tensor(dtype, 5), tensor("int32", [[5, 6, 7], [7, 6, 5]]), tensor(dtype, 9))
for rounds in [4, 6, 8, 64]:
  case(S, list(range(20)), [1, 2, 3], 19, rounds=rounds)
# A block of each size, and beside its borders.
for bits in range(15, 62, 3):
  for most in [2**bits - 1, 2**bits, 2**bits + 1, 3 * 2**(bits - 1)]:
    case(S, tensor("int64", [0, 1, most // 2, most]), tensor("int64", [-1, 2**40, 9]),
         tensor("int64", most))

error(S, [[1]], [1, 2, 3], 7, text="Index bust be a scalar or vector.")
error(S, [1, 2], [1, 2], 7, text="Seed must be a vector of size [3] or a matrix of size [2, 3]")
error(S, [1, 2], [[1, 2, 3]], 7, text="Seed must be a vector of size [3] or a matrix of size [2, 3]")
error(S, [1, 2], [1, 2, 3], [[7], [8]],
      text="Maxval must be a scalar or a vector of the same size as index but got [2,1]")
