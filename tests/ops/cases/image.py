from generate import case, error, uniform, zeros

FLOATS = ["float", "double", "half", "bfloat16"]
TYPES = FLOATS + ["int8", "int16", "int32", "int64", "uint8", "uint16"]
SIZES = [[3, 4], [7, 5], [1, 1], [2, 3]]
MODES = [{}, {"align_corners": True}, {"half_pixel_centers": True}]

for mode in MODES:
  for op in ["ResizeBilinear", "ResizeNearestNeighbor"]:
    for dtype in TYPES:
      case(op, uniform([2, 3, 5, 2], 0, 100, 1, dtype), [4, 3], **mode)
    for size in SIZES:
      case(op, uniform([1, 4, 3, 3]), size, **mode)
    case(op, uniform([1, 2, 3, 1]), [3, 1500], **mode)
  for size in SIZES:
    for dtype in FLOATS:
      case("ResizeBilinearGrad", uniform([2] + size + [2]),
           uniform([2, 4, 3, 2], dtype=dtype), **mode)
    for dtype in FLOATS + ["int8", "uint8", "int32"]:
      case("ResizeNearestNeighborGrad", uniform([2] + size + [2], 0, 6, 1, dtype), [4, 3], **mode)
  case("ResizeBilinearGrad", uniform([1, 2, 1100, 1]), uniform([1, 3, 5, 1]), **mode)

for op in ["ResizeBilinear", "ResizeNearestNeighbor"]:
  case(op, zeros([0, 2, 2, 3]), [4, 4])
  error(op, zeros([1, 2, 2, 3]), [0, 4], text="output dimensions must be positive")
  error(op, zeros([1, 2, 2, 3]), [4], text="shape_t must have two elements")
  error(op, zeros([1, 2, 2, 3]), [[4, 4]], text="shape_t must be 1-dimensional")
  error(op, zeros([2, 2, 3]), [4, 4], text="input must be 4-dimensional")
  error(op, zeros([1, 0, 2, 3]), [4, 4], text="input image must be of non-zero size")
  error(op, zeros([1, 2, 2, 0]), [4, 4], text="image must have at least one channel")
  error(op, zeros([1, 2, 2, 3]), [4, 4], align_corners=True, half_pixel_centers=True,
        text="If half_pixel_centers is True, align_corners must be False.")
  error(op, zeros([1, 2, 2, 3]), [2147483647, 2147483647], text="shape has too many elements")
error("ResizeBilinearGrad", zeros([1, 4, 4]), zeros([1, 2, 2, 3]),
      text="input_grad must be 4-dimensional")
error("ResizeBilinearGrad", zeros([1, 0, 4, 3]), zeros([1, 2, 2, 3]),
      text="resized dimensions must be positive")
for shape in [[2, 1, 0, 2], [2, 0, 1, 2]]:
  case("ResizeNearestNeighborGrad", zeros(shape), [4, 3])
error("ResizeNearestNeighborGrad", zeros([1, 4, 4, 3]), [0, 2],
      text="shape_t's elements must be positive")

# --- Resampling
REAL = ["float", "double", "half", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "int64"]
for dtype in REAL:
  case("ResizeArea", uniform([1, 4, 6, 2], 0, 9, 1, dtype), [3, 4])
  case("ResizeBicubic", uniform([1, 4, 6, 2], 0, 9, 1, dtype), [6, 5], half_pixel_centers=True)
  case("ScaleAndTranslate", uniform([1, 4, 6, 2], 0, 9, 1, dtype), [3, 4], [0.75, 0.7], [0.0, 0.1])
for size in [[1, 1], [8, 8], [2, 3], [5, 4], [4, 7]]:
  for align in [False, True]:
    case("ResizeArea", uniform([2, 4, 7, 3], seed=2), size, align_corners=align)
    case("ResizeBicubic", uniform([2, 4, 7, 3], seed=2), size, align_corners=align)
  case("ResizeBicubic", uniform([2, 4, 7, 3], seed=2), size, half_pixel_centers=True)
  for half in [False, True]:
    case("ResizeBicubicGrad", uniform([2] + size + [3], seed=2), uniform([2, 4, 7, 3], seed=3),
         half_pixel_centers=half)
# TensorFlow adds up in float before.
case("ResizeBicubicGrad", uniform([1, 6, 5, 1], seed=2),
     uniform([1, 4, 4, 1], seed=3, dtype="double"), tolerance="rel 1e-5 abs 1e-6")
for kernel in ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic",
               "mitchellcubic"]:
  for antialias in [False, True]:
    case("ScaleAndTranslate", uniform([1, 9, 8, 2], seed=4), [5, 12], [0.5, 1.5], [0.3, -1.2],
         kernel_type=kernel, antialias=antialias, tolerance="rel 1e-5 abs 1e-5")
  case("ScaleAndTranslateGrad", uniform([1, 5, 12, 2], seed=4), uniform([1, 9, 8, 2], seed=5),
       [0.5, 1.5], [0.3, -1.2], kernel_type=kernel, tolerance="rel 1e-5 abs 1e-5")
case("ScaleAndTranslate", uniform([1, 4, 4, 1], seed=4), [6, 6], [0.5, 0.5], [20.0, 1.0])
case("ResizeArea", uniform([1, 1, 1, 3]), [2, 3], align_corners=True)
error("ResizeArea", uniform([4, 4, 1]), [2, 2], text="input must be 4-dimensional[4,4,1]")
error("ResizeArea", uniform([1, 4, 4, 1]), [0, 2], text="output dimensions must be positive")
error("ResizeBicubic", uniform([1, 4, 4, 1]), [2], text="shape_t must have two elements[1]")
error("ScaleAndTranslate", uniform([1, 4, 4, 1]), [2, 2], [1.0], [0.0, 0.0], text="")
error("ScaleAndTranslate", uniform([1, 4, 4, 1]), [2, 2], [0.0, 1.0], [0.0, 0.0], text="")
error("ScaleAndTranslate", uniform([1, 4, 4, 1]), [2, 2], [1.0, 1.0], [0.0, 0.0],
      kernel_type="sinc", text="Unrecognized kernel type: sinc")

# --- Projective transforms
TURN = [0.8, -0.6, 2.1, 0.6, 0.8, -1.3, 0.01, -0.02]
for mode in ["CONSTANT", "REFLECT", "WRAP", "NEAREST"]:
  for how in ["NEAREST", "BILINEAR"]:
    case("ImageProjectiveTransformV3", uniform([2, 5, 6, 2], seed=7), [TURN], [7, 6], 0.5,
         interpolation=how, fill_mode=mode, tolerance="rel 1e-5 abs 1e-5")
    case("ImageProjectiveTransformV3", uniform([1, 3, 1, 1], seed=7),
         [[1.0, 0.0, -7.0, 0.0, 1.0, 5.25, 0.0, 0.0]], [6, 6], 0.5, interpolation=how,
         fill_mode=mode, tolerance="rel 1e-5 abs 1e-5")
for dtype in ["uint8", "int32", "int64", "half", "bfloat16", "double"]:
  case("ImageProjectiveTransformV3", uniform([2, 4, 4, 1], 0, 200, 7, dtype),
       [TURN, [0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0]], [4, 4], 3.0, interpolation="NEAREST")
case("ImageProjectiveTransformV2", uniform([2, 5, 6, 2], seed=7), [TURN], [7, 6],
     interpolation="BILINEAR", fill_mode="REFLECT", tolerance="rel 1e-5 abs 1e-5")
error("ImageProjectiveTransformV3", uniform([2, 5, 6, 2]), [TURN, TURN, TURN], [7, 6], 0.5,
      interpolation="NEAREST", text="Input transform should be num_images x 8 or 1 x 8")
error("ImageProjectiveTransformV3", uniform([2, 5, 6, 2]), [TURN], [7, 0], 0.5,
      interpolation="NEAREST", text="output dimensions must be positive")
error("ImageProjectiveTransformV3", uniform([2, 5, 6, 2]), [TURN], [7, 6], 0.5,
      interpolation="CUBIC", code="INVALID_ARGUMENT",
      comment="TensorFlow takes the nearest.", text="Invalid interpolation CUBIC. Supported types: NEAREST, BILINEAR")

BOXES = [[[0.1, 0.2, 0.7, 0.9], [-0.5, 0.3, 1.5, 0.6], [0.0, 0.0, 1.0, 1.0], [0.6, 0.1, 0.2, 0.9],
          [1.2, 0.1, 1.5, 0.9], [0.5, 0.5, 0.5, 0.5]],
         [[0.3, 0.3, 0.8, 2.0], [-2.0, -2.0, -1.5, -1.5], [0.2, -0.1, 0.9, 0.4],
          [0.0, 0.0, 0.0, 1.0], [0.25, 0.25, 0.75, 0.75], [-0.1, -0.1, 1.1, 1.1]]]
for dtype in ["float", "half"]:
  for depth in [1, 3, 4]:
    images = uniform([2, 6, 7, depth], 0, 1, 1, dtype)
    case("DrawBoundingBoxes", images, BOXES)
    case("DrawBoundingBoxesV2", images, BOXES, [[0.25] * 4, [0.5, 0.75, 1.0, 2.0]])
case("DrawBoundingBoxesV2", uniform([2, 6, 7, 3]), BOXES, zeros([0, 4]))
case("DrawBoundingBoxes", uniform([1, 20, 30, 1]), uniform([1, 13, 4], 0, 1))
case("DrawBoundingBoxes", zeros([2, 0, 7, 3]), BOXES)
case("DrawBoundingBoxes", uniform([1, 3, 4, 3]), zeros([1, 0, 4]))
X = uniform([2, 6, 7, 3])
error("DrawBoundingBoxes", zeros([6, 7, 3]), BOXES, text="The rank of the images should be 4")
error("DrawBoundingBoxes", X, BOXES[0], text="The rank of the boxes tensor should be 3")
error("DrawBoundingBoxes", X, BOXES[:1], text="The batch sizes should be the same")
error("DrawBoundingBoxes", zeros([2, 6, 7, 2]), BOXES, text="Channel depth should be either 1")
error("DrawBoundingBoxes", X, zeros([2, 1, 3]),
      text="The size of the third dimension of the box must be 4. Received: 3")
error("DrawBoundingBoxesV2", X, BOXES, [1.0], text="colors must be a 2-D matrix")
error("DrawBoundingBoxesV2", X, BOXES, [[1.0]], text="colors must have equal or more channels")
