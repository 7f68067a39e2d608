"""Which centers are nearest to points, whose kernel is of the family nn."""
from generate import case, error, tensor, uniform, zeros

N = "NearestNeighbors"
POINTS = tensor("float", [[0, 0], [1, 1], [3, 3]])
CENTERS = tensor("float", [[0, 0], [1, 0], [3, 3], [3, 3], [0, 0]])


def k(count):
  return tensor("int64", count)


for count in [0, 1, 2, 3, 9, 2**62]:
  case(N, POINTS, CENTERS, k(count))
for count in [1, 4, 40]:
  case(N, uniform([17, 5], seed=3), uniform([40, 5], seed=4), k(count), tolerance="rel 1e-4 abs 1e-5")
case(N, uniform([3, 30], seed=5), uniform([500, 30], seed=6), k(7), tolerance="rel 1e-4 abs 1e-5")
case(N, POINTS, zeros([0, 2]), k(1))
case(N, zeros([3, 0]), zeros([4, 0]), k(2))
error(N, [0., 0.], CENTERS, k(1), text="Input points should be a matrix.")
error(N, POINTS, [0., 0.], k(1), text="Input centers should be a matrix.")
error(N, POINTS, CENTERS, k([1, 2]), text="Input k should be a scalar.")
error(N, POINTS, zeros([3, 1]), k(1), text="Expected point_dimensions == center_dimensions: 2 vs 1.")
error(N, zeros([0, 2]), CENTERS, k(1), text="Expected points.rows() > 0.")
