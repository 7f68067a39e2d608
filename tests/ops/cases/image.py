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
error("ResizeNearestNeighborGrad", zeros([1, 4, 4, 3]), [0, 2],
      text="shape_t's elements must be positive")
