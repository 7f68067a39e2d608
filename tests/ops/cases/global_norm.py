"""Normalisations of old graphs, whose kernels are of the family nn. TensorFlow does not look whether
there is an element for each channel, and ends where there are no channels."""
from generate import case, error, ones, tensor, uniform, zeros

N = "BatchNormWithGlobalNormalization"
G = "BatchNormWithGlobalNormalizationGrad"
TOLERANCE = {"half": "rel 2e-2 abs 2e-2", "float": "rel 1e-4 abs 1e-5", "double": "rel 1e-9 abs 1e-9"}


def of(dtype, value):
  return tensor(dtype, value.array)


for dtype in ["half", "float", "double"]:
  for scaled in [True, False]:
    attrs = dict(variance_epsilon=0.1, scale_after_normalization=scaled, tolerance=TOLERANCE[dtype])
    for shape in [[1, 2, 2, 2], [3, 4, 5, 3], [2, 1, 1, 1], [0, 2, 2, 3]]:
      x, dy = of(dtype, uniform(shape, seed=2)), of(dtype, uniform(shape, seed=3))
      mean, beta, gamma = [of(dtype, uniform(shape[3:], -1, 1, seed)) for seed in [4, 5, 6]]
      variance = of(dtype, uniform(shape[3:], .2, 2, 7))
      case(N, x, mean, variance, beta, gamma, **attrs)
      case(G, x, mean, variance, gamma, dy, **attrs)

ATTRS = dict(variance_epsilon=0.1, scale_after_normalization=True)
X, V, M = zeros([1, 2, 2, 3]), ones([3]), ones([1, 3])
error(N, zeros([2, 2, 3]), V, V, V, V, text="input must be 4-dimensional[2,2,3]", **ATTRS)
error(N, X, M, V, V, V, text="mean must be 1-dimensional[1,3]", **ATTRS)
error(N, X, V, M, V, V, text="var must be 1-dimensional[1,3]", **ATTRS)
error(N, X, V, V, M, V, text="beta must be 1-dimensional[1,3]", **ATTRS)
error(N, X, V, V, V, M, text="gamma must be 1-dimensional[1,3]", **ATTRS)
error(G, zeros([2, 2, 3]), V, V, V, X, text="input must be 4-dimensional[2,2,3]", **ATTRS)
error(G, X, M, V, V, X, text="mean must be 1-dimensional[1,3]", **ATTRS)
error(G, X, V, M, V, X, text="var must be 1-dimensional[1,3]", **ATTRS)
error(G, X, V, V, M, X, text="gamma must be 1-dimensional[1,3]", **ATTRS)
error(G, X, V, V, V, V, text="out_backprop must be 4-dimensional[3]", **ATTRS)
