"""Histograms of bins of one width."""
from generate import case, error, tensor, uniform, zeros

H = "HistogramFixedWidth"
INF, NAN = float("inf"), float("nan")
for dtype in ["float", "double", "int32", "int64"]:
  for counted in ["int32", "int64"]:
    for first, last, bins in [(0, 5, 1), (0, 5, 3), (-4, 9, 20), (3, 4, 2)]:
      case(H, tensor(dtype, [[-9, 0, 1, 2], [3, 4, 5, 70]]), tensor(dtype, [first, last]), bins,
           dtype=counted)
case(H, uniform([5000], -1, 2), [-0.5, 1.25], 17)
case(H, [INF, -INF, 1.], [0., 2.], 3)
case(H, [0., 1e30], [0., INF], 2)
case(H, [1.], [-3e38, 3e38], 4)
case(H, tensor("int32", [0, -5, 2**31 - 1]), tensor("int32", [-2**31, 2**31 - 1]), 3)
case(H, zeros([0]), [0., 2.], 2)
case(H, 1., [0., 2.], 2)

V, R = [0.], [0., 2.]
error(H, V, [0., 2., 3.], 3, text="value_range should be a vector of 2 elements.")
error(H, V, [R], 3, text="value_range should be a vector.")
error(H, V, 1., 3, text="value_range should be a vector.")
error(H, V, [2., 0.], 3,
      text="value_range should satisfy value_range[0] < value_range[1], but got '[2, 0]'")
error(H, V, [2., 2.], 3, text="value_range should satisfy value_range[0] < value_range[1]")
error(H, V, [NAN, 2.], 3, text="value_range should satisfy value_range[0] < value_range[1]")
error(H, [1., NAN], R, 3, text="Histogram values must not contain NaN")
error(H, V, R, [3], text="nbins should be a scalar.")
for bins in [0, -1]:
  error(H, V, R, bins, text="nbins should be a positive number, but got '%d'" % bins)
