"""Windows of images, which may reach beyond them, whose kernels are of the family image."""
from generate import case, error, tensor, uniform, zeros

OPS = ["ExtractGlimpse", "ExtractGlimpseV2"]
ZERO = dict(noise="zero", uniform_noise=False)
IMAGE = tensor("float", list(range(1, 26)), [1, 5, 5, 1])
IMAGES = uniform([4, 6, 7, 2], seed=3)


def offsets(*values):
  return tensor("float", list(values), [-1, 2])


for op in OPS:
  for centered in [True, False]:
    for normalized in [True, False]:
      attrs = dict(centered=centered, normalized=normalized, **ZERO)
      for at in [(0, 0), (-1, -1), (1, 1), (.3, -.7), (2, 2), (2, 3), (-2, 1), (4, 4), (-7, 0), (.5, -.25)]:
        case(op, IMAGE, [3, 3], offsets(*at), **attrs)
      case(op, IMAGE, [7, 7], offsets(0, 0), **attrs)
      case(op, IMAGE, [1, 9], offsets(.2, -.2), **attrs)
      case(op, IMAGES, [3, 4], offsets(0, 0, .6, -.4, 3, 2.5, -1, 1), **attrs)
  for size in [[0, 3], [3, 0]]:
    case(op, IMAGE, size, offsets(0, 0), **ZERO)
  case(op, zeros([0, 5, 5, 1]), [3, 3], tensor("float", [], [0, 2]), **ZERO)
  case(op, zeros([1, 0, 5, 1]), [3, 3], offsets(0, 0), **ZERO)
  case(op, zeros([1, 5, 5, 0]), [3, 3], offsets(0, 0), **ZERO)
  for far in [1e30, -1e30, float("inf"), float("-inf"), float("nan"), 9e18, -9e18]:
    case(op, IMAGE, [2, 3], offsets(far, 0), **ZERO)
    case(op, IMAGE, [2, 3], offsets(0, far), **ZERO)
  for noise in [dict(), dict(noise="uniform", uniform_noise=False), dict(noise=""),
                dict(noise="gaussian", uniform_noise=False), dict(noise="", uniform_noise=False)]:
    case(op, IMAGE, [3, 3], offsets(0, 0), **noise)  # Within the image.
    case(op, IMAGES, [9, 9], offsets(0, 0, .6, -.4, 3, 2.5, -1, 1), values=False, **noise)
    # Of what is everywhere the same, noise is that.
    case(op, tensor("float", [3] * 50, [2, 5, 5, 1]), [7, 8], offsets(0, .5, -3, 1), **noise)

  error(op, zeros([5, 5, 1]), [3, 3], offsets(0, 0),
        text="input must be 4-dimensional (batch_size, height, width, depth)[5,5,1]")
  error(op, IMAGE, [3], offsets(0, 0), text="input must be a vector of size 2 (height, width)[1]")
  error(op, IMAGE, [[3, 3]], offsets(0, 0),
        text="input must be a vector of size 2 (height, width)[1,2]")
  error(op, IMAGE, [3, 3, 3], offsets(0, 0),
        text="input must be a vector of size 2 (height, width)[3]")
  error(op, IMAGE, [-1, 3], offsets(0, 0), text="Expected a non-negative size, got -1")
  error(op, IMAGE, [3, -2**31], offsets(0, 0), text="Expected a non-negative size, got -2147483648")
  error(op, IMAGE, [3, 3], [0., 0.], text="input must be a matrix[2]")
  error(op, IMAGE, [3, 3], offsets(0, 0, 1, 1), text="first dimension should be batch[2,2]")
  error(op, IMAGE, [3, 3], [[0., 0., 0.]], text="second dimension should be of size 2 (y,x)[1,3]")
  error(op, IMAGE, [3, 3], offsets(0, 0), noise="foo", uniform_noise=False,
        text="The noise could only be uniform, gaussian, or zero, gotfoo")
  error(op, IMAGE, [2**31 - 1, 2**31 - 1], offsets(0, 0), text="", **ZERO)
  error(op, zeros([1, 2, 2, 9]), [2**31 - 1, 2**31 - 1], offsets(0, 0), text="", **ZERO)
