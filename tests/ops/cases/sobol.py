"""Points of the Sobol sequence, whose kernel is one of the family random."""
from generate import case, error, tensor

S = "SobolSample"
EXACT = "rel 0 abs 0"

for dtype in ["float", "double"]:
  for dim, points, skip in [(1, 1, 0), (1, 70, 0), (2, 33, 5), (7, 20, 1), (3, 4, 2**20 - 2),
                            (40, 12, 123456), (9, 3, 2**29 + 77), (5, 4, 2**30 - 8)]:
    case(S, dim, points, skip, dtype=dtype, tolerance=EXACT)
  # All directions of all dimensions: what each power of two brings, and the sums below.
  for power in range(0, 30):
    case(S, 1111, 1, 2**power - 1, dtype=dtype, tolerance=EXACT)
  case(S, 1111, 300, 0, dtype=dtype, tolerance=EXACT)
  case(S, 10, 3000, 1000, dtype=dtype, tolerance=EXACT)

error(S, 0, 1, 0, text="dim must be at least one")
error(S, -5, 1, 0, text="dim must be at least one")
error(S, 21201, 1, 0, text="dim must be at most 21200")
error(S, 2**31 - 1, 1, 0, text="dim must be at most 21200")
error(S, 1, 0, 0, text="num_results must be at least one")
error(S, 1, -(2**31), 0, text="num_results must be at least one")
error(S, 1, 1, -1, text="skip must be non-negative")
error(S, 1, 2**31 - 1, 0, text="num_results+skip must be less than 2147483647")
error(S, 1, 1, 2**31 - 2, text="num_results+skip must be less than 2147483647")
error(S, 1, 2**31 - 1, 2**31 - 1, text="num_results+skip must be less than 2147483647")
error(S, [1], 1, 0, text="dim must be a scalar")
error(S, 1, [1], 0, text="num_results must be a scalar")
error(S, 1, 1, [0], text="skip must be a scalar")
error(S, 1, tensor("int32", []), 0, text="num_results must be a scalar")
