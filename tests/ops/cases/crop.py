"""Crops of images and their gradients."""
import numpy as np

from generate import case, error, tensor, uniform, zeros

NAN = float("nan")
TYPES = ["uint8", "uint16", "int8", "int16", "int32", "int64", "half", "float", "double"]
CLOSE = "rel 1e-5 abs 1e-5"
# Within the image, upside down, over its edges, outside of it, all of it, and a point.
BOXES = np.array([[0.1, 0.2, 0.7, 0.9], [0.8, 0.9, 0.3, 0.1], [-0.5, -0.25, 1.25, 1.5],
                  [1.5, 1.5, 2, 2], [0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5]], np.float32)
INDEX = np.array([0, 1, 1, 0, 1, 0], np.int32)
B, I = tensor("float", BOXES), tensor("int32", INDEX)


def images(dtype, shape=(2, 5, 7, 3)):
  return tensor(dtype, np.random.RandomState(5).randint(0, 100, shape))


for dtype in TYPES:
  for size in [[3, 4], [1, 1]]:
    for method in ["bilinear", "nearest"]:
      case("CropAndResize", images(dtype), B, I, size, method=method, extrapolation_value=-7.5,
           tolerance=CLOSE)
    grads = uniform([6] + size + [3], -1, 1, 6)
    case("CropAndResizeGradBoxes", grads, images(dtype), B, I, tolerance="rel 1e-4 abs 1e-2")
    if dtype in ["half", "float", "double"]:
      for method in ["bilinear", "nearest"]:
        case("CropAndResizeGradImage", grads, B, I, [2, 5, 7, 3], T=dtype, method=method,
             tolerance="rel 4e-3 abs 4e-3" if dtype == "half" else CLOSE)
case("CropAndResize", images("float", [1, 1, 1, 2]), B, zeros([6], "int32"), [2, 3])
case("CropAndResize", images("float", [1, 31, 40, 1]), [[0.05, 0.1, 0.9, 0.8]], [0], [20, 30],
     tolerance=CLOSE)
case("CropAndResize", images("float", [1, 4, 4, 1]), [[0., -1e30, 1., 1e30]], [0], [2, 3])
NONE, NO_INDEX = zeros([0, 4]), zeros([0], "int32")
case("CropAndResize", images("float"), NONE, NO_INDEX, [2, 2])
case("CropAndResize", zeros([1, 3, 3, 0]), [[0., 0., 1., 1.]], [0], [2, 2])
case("CropAndResize", zeros([0, 3, 3, 1]), NONE, NO_INDEX, [2, 2])
case("CropAndResizeGradImage", zeros([0, 2, 2, 3]), NONE, NO_INDEX, [2, 5, 7, 3], T="float")
case("CropAndResizeGradImage", zeros([1, 2, 2, 0]), [[0., 0., 1., 1.]], [0], [1, 3, 3, 0],
     T="float")
case("CropAndResizeGradBoxes", zeros([0, 2, 2, 3]), images("float"), NONE, NO_INDEX)
case("CropAndResizeGradBoxes", zeros([1, 2, 2, 0]), zeros([1, 3, 3, 0]), [[0., 0., 1., 1.]], [0])

C, GI, GB = "CropAndResize", "CropAndResizeGradImage", "CropAndResizeGradBoxes"
M, X, Z, G = zeros([1, 3, 3, 1]), zeros([1, 4]), [0], zeros([1, 2, 2, 1])
error(C, zeros([3, 3, 1]), X, Z, [2, 2], text="input image must be 4-D[3,3,1]")
error(C, zeros([1, 0, 3, 1]), X, Z, [2, 2], text="image dimensions must be positive")
error(C, M, zeros([4]), Z, [2, 2], text="boxes must be 2-D, got: [4]")
error(C, M, zeros([1, 3]), Z, [2, 2], text="boxes must have 4 columns")
error(C, M, X, [[0]], [2, 2], text="box_index must be 1-D, got: [1,1]")
error(C, M, X, [0, 0], [2, 2], text="box_index has incompatible shape")
error(C, M, X, [1], [2, 2], text="box_index has values outside [0, batch_size)")
error(C, M, X, [-1], [2, 2], text="box_index has values outside [0, batch_size)")
error(C, zeros([0, 3, 3, 1]), X, Z, [2, 2], text="box_index has values outside [0, batch_size)")
error(C, M, X, Z, [2], text="crop_size must have two elements[1]")
error(C, M, X, Z, [[2, 2]], text="crop_size must be 1-D[1,2]")
error(C, M, X, Z, [0, 2], text="crop dimensions must be positive")
error(C, M, X, Z, [2, -1], text="crop dimensions must be positive")
error(C, M, [[NAN, 0., 1., 1.]], Z, [2, 2],
      text="Boxes contains at least one element that is not finite")
error(C, M, X, Z, [2000000, 2000000], text="", code="RESOURCE_EXHAUSTED")
for size, text in [([1, 3, 3], "image_size must have 4 elements[3]"),
                   ([[1, 3, 3, 1]], "image_size must be 1-D[1,4]"),
                   ([1, 0, 3, 1], "image dimensions must be positive"),
                   ([1, 3, -3, 1], "image dimensions must be positive"),
                   ([-1, 3, 3, 1], "Expected a non-negative size, got -1"),
                   ([1, 3, 3, 2], "image_size and grads are incompatible"),
                   ([1, 3, 3, -1], "image_size and grads are incompatible"),
                   ([0, 3, 3, 1], "box_index has values outside [0, batch_size)")]:
  error(GI, G, X, Z, size, T="float", text=text)
for op, inputs in [(GI, lambda g, x, i: (g, x, i, [1, 3, 3, 1])), (GB, lambda g, x, i: (g, M, x, i))]:
  attrs = {"T": "float"} if op == GI else {}
  error(op, *inputs(zeros([2, 2, 1]), X, Z), text="grads image must be 4-D[2,2,1]", **attrs)
  error(op, *inputs(zeros([1, 0, 2, 1]), X, Z), text="grads dimensions must be positive", **attrs)
  error(op, *inputs(G, zeros([4]), Z), text="boxes must be 2-D", **attrs)
  error(op, *inputs(G, zeros([1, 3]), Z), text="boxes must have 4 columns", **attrs)
  error(op, *inputs(G, zeros([2, 4]), [0, 0]), text="boxes and grads have incompatible shape",
        **attrs)
  error(op, *inputs(G, X, [0, 0]), text="box_index has incompatible shape", **attrs)
  error(op, *inputs(G, X, [[0]]), text="box_index must be 1-D", **attrs)
  error(op, *inputs(G, X, [1]), text="box_index has values outside [0, batch_size)", **attrs)
error(GB, G, zeros([3, 3, 1]), X, Z, text="input image must be 4-D[3,3,1]")
error(GB, G, zeros([1, 0, 3, 1]), X, Z, text="image dimensions must be positive")
error(GB, G, zeros([1, 3, 3, 2]), X, Z, text="image, grads depth differ")
for corner in [float("inf"), -float("inf")]:
  box = [[corner, 0., 1., 1.]]
  text = "Boxes contains at least one element that is not finite"
  error(GI, zeros([1, 1, 1, 1]), box, Z, [1, 3, 3, 1], T="float", text=text,
        code="INVALID_ARGUMENT")
  error(GB, zeros([1, 1, 1, 1]), M, box, Z, text=text, code="INVALID_ARGUMENT")
